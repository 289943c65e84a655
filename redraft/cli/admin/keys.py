"""`redraft keys …`: who may use the API."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import options, output, sessions
from redraft.cli.spans import read_span_s
from redraft.errors import Invalid

if TYPE_CHECKING:
    from redraft.domain.admin.scopes import Scope

app = typer.Typer(
    help="Create, list and revoke API keys. Without a command: list them.",
    rich_markup_mode=None,
    invoke_without_command=True,
)


@app.callback()
def main(ctx: typer.Context) -> None:
    """List the keys when no command is named."""
    if ctx.invoked_subcommand is None:
        list_keys()


@app.command(
    "create",
    epilog=options.examples(
        "redraft keys create laptop",
        "TOKEN=$(redraft keys create ci --expires 90d)",
        "redraft keys create dashboard --scope read",
    ),
)
def create(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for.", show_default=False)],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="read|write|metrics|admin",
            help="What it may do; may be given again. read: look at everything; write: submit, cancel, continue,"
            " delete; metrics: /metrics alone; admin: keys and settings in the pages. Without it: read and write.",
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Expires after this time: 90d, 12h, 2w (default: never).")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Create a key. It is printed once, on stdout, and stored only as a hash."""
    from redraft.operations.admin import keys

    if not name.strip() or len(name) > keys.NAME_CHARS_MAX:
        raise Invalid.at("NAME", f"must have 1 to {keys.NAME_CHARS_MAX} characters.", "name")
    scopes = _read_scopes(scope) if scope else keys.DEFAULT_SCOPES
    lifetime_s = read_span_s(expires, "--expires") if expires is not None else None
    with sessions.opened() as services:
        key, token = keys.create_key(services, name, scopes, lifetime_s=lifetime_s)
    if as_json:
        output.write_json({**key, "token": token})
    else:
        output.write_data(token)
    end = f" until {key['expires_at']:%Y-%m-%d %H:%M} UTC" if key["expires_at"] else ""
    output.say(f"Its scopes: {', '.join(key['scopes'])}{end}. Keep it: it is not shown again.", "dim")
    output.say("Send it as 'Authorization: Bearer …'.", "dim")
    output.say(f"Take it back with: redraft keys revoke {key['id']}", "dim")


def _read_scopes(names: list[str]) -> "list[Scope]":
    from redraft.domain.admin.scopes import Scope

    known = {scope.value: scope for scope in Scope}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Invalid.at("--scope", f"{unknown[0]!r} is none of {', '.join(known)}.", "scope")
    return [known[name] for name in names]


@app.command("list")
def list_keys(*, as_json: options.AsJson = False) -> None:
    """List all keys with their scopes and their last use. Revoked and expired keys are included."""
    from redraft.operations.admin import keys

    with sessions.opened() as services:
        found = keys.list_keys(services)
    if as_json:
        output.write_json({"data": found})
    elif found:
        output.show_table(("id", "state", "key", "scopes", "age", "used", "name"), [_row(key) for key in found])
    else:
        output.say("No API keys yet; on loopback none is needed. Make one: redraft keys create NAME")


def _row(key: dict[str, Any]) -> tuple[str, ...]:
    used = f"{output.age(key['last_used_at'])} ago" if key["last_used_at"] else "never"
    return (
        key["id"],
        key["state"],
        key["hint"],
        ",".join(key["scopes"]),
        output.age(key["created_at"]),
        used,
        key["name"],
    )


@app.command("revoke")
def revoke(
    *,
    key: Annotated[
        str,
        typer.Argument(metavar="ID", help="The key's id, a unique beginning of it, or its name.", show_default=False),
    ],
    as_json: options.AsJson = False,
) -> None:
    """Revoke a key: requests with it are refused from now on."""
    from redraft.operations.admin import keys

    with sessions.opened() as services:
        valid = [each for each in keys.list_keys(services) if not each["revoked_at"]]
        named = [each["id"] for each in valid if each["name"] == key]
        ids = [each["id"] for each in valid]
        key_id = keys.revoke_key(services, named[0] if len(named) == 1 else sessions.pick(ids, key, "API key"))
    if as_json:
        output.write_json({"id": key_id, "revoked": True})
    output.say(f"Revoked {key_id}.")
