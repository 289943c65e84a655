"""`redraft keys …`: who may use the API."""

from typing import Annotated

import typer

from redraft.cli import options, output, sessions
from redraft.errors import Invalid

app = typer.Typer(help="Make, list and revoke API keys.", rich_markup_mode="rich", no_args_is_help=True)

_NAME_LIMIT = 200


@app.command("create", epilog=options.examples("redraft keys create laptop", "TOKEN=$(redraft keys create ci)"))
def create(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for.", show_default=False)],
    as_json: options.AsJson = False,
) -> None:
    """Make a key. It is printed once, on stdout, and stored only as a hash."""
    from redraft.operations import keys

    if not name.strip() or len(name) > _NAME_LIMIT:
        raise Invalid.at("NAME", f"must have 1 to {_NAME_LIMIT} characters.", "name")
    with sessions.opened() as services:
        key, token = keys.create_key(services, name)
    if as_json:
        output.write_json({**key, "token": token})
    else:
        output.write_data(token)
    output.say("Keep it: it is not shown again. Send it as 'Authorization: Bearer …'.", "dim")
    output.say(f"Take it back with: redraft keys revoke {key['id']}", "dim")


@app.command("list")
def list_keys(*, as_json: options.AsJson = False) -> None:
    """List the keys, revoked ones too."""
    from redraft.operations import keys

    with sessions.opened() as services:
        found = keys.list_keys(services)
    if as_json:
        output.write_json({"data": found})
    elif found:
        rows = [
            (
                key["id"],
                "revoked" if key["revoked_at"] else "valid",
                key["hint"],
                output.age(key["created_at"]),
                key["name"],
            )
            for key in found
        ]
        output.show_table(("id", "state", "key", "age", "name"), rows)
    else:
        output.say("No API keys yet; on loopback none is needed. Make one: redraft keys create NAME")


@app.command("revoke")
def revoke(
    *,
    key: Annotated[
        str, typer.Argument(metavar="ID", help="The key's id or a unique beginning of it.", show_default=False)
    ],
    as_json: options.AsJson = False,
) -> None:
    """Revoke a key: requests with it are refused from now on."""
    from redraft.operations import keys

    with sessions.opened() as services:
        valid = [each["id"] for each in keys.list_keys(services) if not each["revoked_at"]]
        key_id = keys.revoke_key(services, sessions.pick(valid, key, "API key"))
    if as_json:
        output.write_json({"id": key_id, "revoked": True})
    output.say(f"Revoked {key_id}.")
