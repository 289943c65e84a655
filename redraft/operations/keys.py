"""API keys: made once, shown once, stored as a hash."""

import hashlib
import secrets
from typing import Any

from redraft.domain.ids import new_id
from redraft.errors import Conflict, Forbidden, NotFound
from redraft.operations.services import Services
from redraft.storage import api_keys

_PREFIX = "rd_"


def create_key(services: Services, name: str) -> tuple[dict[str, Any], str]:
    """Make a key; its token is returned here and never again."""
    token = _PREFIX + secrets.token_urlsafe(32)
    values = {"id": new_id("key"), "name": name, "hint": token[:7] + "…", "token_hash": _hash(token)}
    with services.database.write() as connection:
        return api_keys.add(connection, values), token


def list_keys(services: Services) -> list[dict[str, Any]]:
    with services.database.read() as connection:
        return api_keys.all_keys(connection)


def revoke_key(services: Services, prefix: str) -> str:
    """Revoke the one valid key whose id begins so.

    Raises:
        NotFound: none does.
        Conflict: several do.
    """
    with services.database.read() as connection:
        found = [k["id"] for k in api_keys.all_keys(connection) if k["id"].startswith(prefix) and not k["revoked_at"]]
    if not found:
        raise NotFound("API key", prefix)
    if len(found) > 1:
        raise Conflict(f"{prefix!r} is the beginning of several keys' ids; write more of it.", code="ambiguous_id")
    with services.database.write() as connection:
        api_keys.revoke(connection, found[0])
    return found[0]


def authenticate(services: Services, token: str | None) -> str:
    """The id of the key that `token` is.

    Raises:
        Forbidden: there is no token (`unauthenticated`), or it is not valid (`invalid_key`).
    """
    if not token:
        raise Forbidden("Send your API key as 'Authorization: Bearer rd_…'.", code="unauthenticated")
    with services.database.read() as connection:
        key_id = api_keys.find_valid(connection, _hash(token))
    if key_id is None:
        raise Forbidden("This API key is not valid; `redraft keys create` makes one.", code="invalid_key")
    return key_id


def _hash(token: str) -> str:
    """Tokens have 256 random bits: a fast hash is enough, and the look-up by hash leaks nothing by its time."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
