"""`redraft models …`: which models can be used, and whether they answer."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from redraft.cli import exits, options, output, sessions
from redraft.redaction import redact

if TYPE_CHECKING:
    from redraft.operations.admin.model_checks import ModelCheck
    from redraft.settings import Settings

app = typer.Typer(
    help="See which models can be used, and try one. Without a command: list them.",
    rich_markup_mode=None,
    invoke_without_command=True,
)


@app.callback()
def main(ctx: typer.Context, *, as_json: options.AsJson = False) -> None:
    """List the models when no command is named."""
    if ctx.invoked_subcommand is None:
        list_models(as_json=as_json)


@app.command("list")
def list_models(*, as_json: options.AsJson = False) -> None:
    """List one model per provider, and the default model."""
    with sessions.connected(sessions.load_settings()) as services:
        models = services.providers.models()
    if as_json:
        output.write_json({"data": [asdict(model) for model in models]})
        return
    rows = [
        (
            model.id,
            Text("✓ ready", style="green") if model.configured else Text("○ not set up", style="dim"),
            "default" if model.default else "",
            model.note,
        )
        for model in models
    ]
    output.show_table(("model", "state", "", "note"), rows)
    output.say("Try one with a tiny call: redraft models check MODEL", "dim")


@app.command("check", epilog=options.examples("redraft models check", "redraft models check openai:gpt-6-luna"))
def check(
    *,
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="provider:name (default: the default model).")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Make one small call, and print its latency or its error."""
    from redraft.operations.admin.model_checks import check_model

    with sessions.connected(sessions.load_settings()) as services:
        found = check_model(services, model or "")
        address = _address(services.settings, found.model)
    if as_json:
        output.write_json(_data(found))
    if found.error is None:
        output.say(f"✓ {found.model} answered in {found.latency_ms:,} ms.", "green")
        return
    output.say(f"✗ {found.model}: {found.error.message}", "red")
    if address:
        output.say(f"Its address: {address}")
    if advice := exits.advice(found.error.code):
        # This command is the one that the advice goes on to name
        output.say(advice.partition("; `redraft models check MODEL`")[0].rstrip(".") + ".")
    raise typer.Exit(exits.exit_of_code(found.error.code))


def _address(settings: "Settings", model: str) -> str | None:
    """The base URL that is set for a model; None where the provider's own is used."""
    provider = model.partition(":")[0]
    base_url = {"openai": settings.openai_base_url, "anthropic": settings.anthropic_base_url}.get(provider)
    return redact(base_url) if base_url else None


def _data(found: "ModelCheck") -> dict[str, Any]:
    error = found.error
    error_data = error and {"code": error.code, "detail": error.message, "http_status": error.http_status}
    return {
        "model": found.model,
        "ok": found.is_ok,
        "latency_ms": found.latency_ms,
        "cost_usd": found.cost_usd,
        "error": error_data,
    }
