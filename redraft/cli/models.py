"""`redraft models …`: which models can be used, and whether they answer."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from redraft.cli import exits, options, output, sessions
from redraft.errors import ProviderError

if TYPE_CHECKING:
    from redraft.domain.models import ModelRef
    from redraft.operations.services import Services

app = typer.Typer(
    help="See which models can be used, and try one. Without a command: list them.",
    rich_markup_mode="rich",
    invoke_without_command=True,
)

_USABLE_ALL_THE_SAME = frozenset({"output_truncated", "empty_output", "refused"})


@app.callback()
def main(ctx: typer.Context, *, as_json: options.AsJson = False) -> None:
    """List the models when no command is named."""
    if ctx.invoked_subcommand is None:
        list_models(as_json=as_json)


@app.command("list")
def list_models(*, as_json: options.AsJson = False) -> None:
    """List a model per provider, and which one is used when a job names none."""
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
        str | None, typer.Argument(metavar="[MODEL]", help="provider:name; without it, the default model.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Make one tiny real call, and say how long it took or what was wrong."""
    from redraft.operations import submit

    with sessions.connected(sessions.load_settings()) as services:
        providers = services.providers
        ref = submit.resolve_model(providers, model or str(providers.default_model()), "/model")
        report = _try(services, ref)
    if as_json:
        output.write_json(report)
    error = report["error"]
    if error is None:
        output.say(f"✓ {ref} answered in {report['latency_ms']:,} ms.", "green")
        return
    output.say(f"✗ {ref}: {error['detail']}", "red")
    if words := exits.advice(error["code"]):
        output.say(words)
    raise typer.Exit(exits.exit_of_code(error["code"]))


def _try(services: "Services", ref: "ModelRef") -> dict[str, Any]:
    from redraft.domain.chats import Chat, Message

    chat = Chat(ref, "", (Message("user", "Reply with the one word: ready"),), max_output_tokens=256)
    provider = services.providers.get(ref)
    started_at, error = time.monotonic(), None
    try:
        provider.send(provider.wire_body(chat), timeout_s=services.settings.call_timeout_s)
    except ProviderError as caught:
        if caught.code not in _USABLE_ALL_THE_SAME:
            error = {"code": caught.code, "detail": caught.message, "http_status": caught.http_status}
    latency_ms = round((time.monotonic() - started_at) * 1000)
    return {"model": str(ref), "ok": error is None, "latency_ms": latency_ms, "error": error}
