"""The commands `redraft keys …`, which create, list and revoke API keys."""

from typing import Annotated, Any

import typer

from redraft.cli import options, output, sessions
from redraft.domain.admin.scopes import DEFAULT_SCOPES, Scope
from redraft.errors import Invalid

app = options.Group("List, create and revoke API keys. The default command is `list`.")


@app.add("list")
def list_keys(*, as_json: options.AsJson = False) -> None:
    """List all API keys with their scopes and their last use. The list includes revoked and expired keys."""
    from redraft.operations.admin import keys

    with sessions.opened() as services:
        found = keys.list_keys(services)
    if as_json:
        output.write_json({"data": found})
    elif found:
        output.show_table(found, _COLUMNS)
    else:
        output.say("No API keys yet. On loopback, no key is needed. To create a key: redraft keys create NAME")


_COLUMNS: output.Columns[dict[str, Any]] = {
    "id": lambda key: key["id"],
    "state": lambda key: key["state"],
    "key": lambda key: key["hint"],
    "scopes": lambda key: ",".join(key["scopes"]),
    "age": lambda key: output.age(key["created_at"]),
    "used": lambda key: f"{output.age(key['last_used_at'])} ago" if key["last_used_at"] else "never",
    "name": lambda key: key["name"],
}


@app.add(
    "create",
    "redraft keys create laptop",
    "TOKEN=$(redraft keys create ci --expires 90d)",
    "redraft keys create dashboard --scope read",
)
def create(
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Purpose of the key, shown in lists.", show_default=False)
    ],
    scope: Annotated[
        list[Scope] | None,
        typer.Option(
            metavar="|".join(Scope),
            help="Scope of the key; repeatable (default: read and write). read: read all data; write: submit, cancel,"
            " continue and delete; metrics: read /metrics; admin: keys and configuration in the pages.",
        ),
    ] = None,
    expires: Annotated[
        float | None,
        typer.Option(
            metavar="SPAN",
            parser=options.read_span_s,
            help="Time until the key expires, such as 90min, 12h, 30d or 2w (default: never).",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Create an API key, and print it on stdout. Only its hash is stored, so it cannot be shown again."""
    from redraft.operations.admin import keys

    if not name.strip() or len(name) > keys.NAME_CHARS_MAX:
        raise Invalid.at("NAME", f"must have 1 to {keys.NAME_CHARS_MAX} characters.", "name")
    if expires == 0:
        raise Invalid.at("--expires", "must be more than 0.", "span")
    with sessions.opened() as services:
        key, token = keys.create_key(services, name, scope or DEFAULT_SCOPES, lifetime_s=expires)
    if as_json:
        output.write_json({**key, "token": token})
    else:
        # Stdout has only the token, for `TOKEN=$(redraft keys create ci)`
        output.write_data(token)
    end = f" until {key['expires_at']:%Y-%m-%d %H:%M} UTC" if key["expires_at"] else ""
    output.say(f"Scopes: {', '.join(key['scopes'])}{end}. Save the key now: it cannot be shown again.", "dim")
    output.say("Send it as 'Authorization: Bearer …'.", "dim")
    output.say(f"Revoke it with: redraft keys revoke {key['id']}", "dim")


@app.add("revoke")
def revoke(
    *,
    key: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="The key: its id, a unique prefix of its id, or its name.", show_default=False
        ),
    ],
    as_json: options.AsJson = False,
) -> None:
    """Revoke an API key. Requests with a revoked key are refused."""
    from redraft.operations.admin import keys

    with sessions.opened() as services:
        # A revoked key must not make the name or the prefix of a valid key ambiguous
        valid = [each for each in keys.list_keys(services) if not each["revoked_at"]]
        named = [each["id"] for each in valid if each["name"] == key]
        ids = [each["id"] for each in valid]
        key_id = keys.revoke_key(services, named[0] if len(named) == 1 else sessions.pick(ids, key, "API key"))
    if as_json:
        output.write_json({"id": key_id, "revoked": True})
    output.say(f"Revoked {key_id}.")
