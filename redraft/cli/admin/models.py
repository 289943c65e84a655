"""The commands `redraft models …`, which list models and call one for a test."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from redraft.cli import exit_codes, options, output, sessions
from redraft.redaction import redact

if TYPE_CHECKING:
    from redraft.providers.catalog import ListedModel, ProviderCatalog

app = options.Group("List models, and test a model. The default command is `list`.")


@app.add("list")
def list_models(*, as_json: options.AsJson = False) -> None:
    """List the default model, and models of each provider and endpoint."""
    with sessions.connected() as services:
        models = services.providers.models()
        notes = {each.id: described(services.providers, each) for each in models}
    if as_json:
        output.write_json({"data": models})
        return
    output.show_table(
        models,
        {
            "model": lambda model: model.id,
            "state": lambda model: (
                Text("✓ configured", style="green") if model.configured else Text("○ not set up", style="dim")
            ),
            "": lambda model: "default" if model.default else "",
            "note": lambda model: notes[model.id],
        },
    )
    output.say("No model was called. To test a model with a tiny call: redraft models check MODEL", "dim")


def described(providers: "ProviderCatalog", model: "ListedModel") -> str:
    """Return the note of a model. If the settings have the address of its server, the address comes first."""
    address = providers.base_url(model.provider) if model.configured else None
    return f"Served at {redact(address)}. {model.note}" if address else model.note


@app.add("check", "redraft models check", "redraft models check openai:gpt-6-luna")
def check(
    *,
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Model to call, as provider:name (default: the default model)."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Call a model with a tiny prompt, and print its latency or error."""
    from redraft.operations.admin.model_checks import check_model

    with sessions.connected() as services:
        found = check_model(services, model or "")
        address = services.providers.base_url(found.model.partition(":")[0])
    error = found.error
    if as_json:
        output.write_json(
            {
                "model": found.model,
                "ok": found.is_ok,
                "latency_ms": found.latency_ms,
                "cost_usd": found.cost_usd,
                "error": error and {"code": error.code, "detail": error.message, "http_status": error.http_status},
            }
        )
    if error is None:
        output.say(f"✓ {found.model} answered in {found.latency_ms:,} ms.", "green")
        return
    output.say(f"✗ {found.model}: {error.message}", "red")
    if address:
        output.say(f"Base URL: {redact(address)}")
    if advice := exit_codes.advice(error.code):
        # The second part of the advice recommends this command, which the user has just run
        output.say(advice.partition("; `redraft models check MODEL`")[0].rstrip(".") + ".")
    raise typer.Exit(exit_codes.exit_of_code(error.code))
