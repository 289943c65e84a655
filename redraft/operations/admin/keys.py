"""Creates, lists, revokes and checks API keys. A token is shown once and stored as a hash."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import structlog

from redraft.domain.admin.scopes import DEFAULT_SCOPES, Scope, read, spell
from redraft.domain.jobs.ids import id_from_seed, new_id
from redraft.errors import Conflict, Forbidden, NotFound, Unavailable
from redraft.operations.services import Services
from redraft.storage.admin import api_keys

log = structlog.get_logger()

NAME_CHARS_MAX = 200

# The prefix lets secret scanners and the log filter recognise a key
_PREFIX = "rd_"
# One write a minute per key is enough: the last use only shows whether a key is still needed
_USE_NOTED_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Caller:
    """The id of the API key of a request, its scopes and its name."""

    key_id: str
    scopes: frozenset[Scope]
    name: str


def create_key(
    services: Services,
    name: str,
    scopes: Iterable[Scope] = DEFAULT_SCOPES,
    *,
    lifetime_s: float | None = None,
    once: str | None = None,
) -> tuple[dict[str, Any], str]:
    """Create a key, which expires after `lifetime_s` if that is set. Only this call returns the token of the key.

    `once` is an idempotency key: a second call with the same value creates no key.

    Raises:
        Conflict: a key was created with this `once` (`key_made`), or a valid key has this name (`key_name_taken`).
    """
    token = _PREFIX + secrets.token_urlsafe(32)
    values = {
        "id": id_from_seed("key", once) if once else new_id("key"),
        "name": name,
        "hint": token[:7] + "…",
        "token_hash": hash_of(token),
        "scopes": spell(scopes),
    }
    with services.database.write() as connection:
        made = api_keys.add(connection, values, lifetime_s=lifetime_s)
        if made is None:
            raise Conflict("This key already exists, and its token is shown only once.", code="key_made")
        # Counted after the insert, so that the count includes the new key
        if api_keys.count_valid(connection, name) > 1:
            words = f"There is a valid key named {name!r}: choose another name, or revoke that key first."
            raise Conflict(words, code="key_name_taken")
    return _shown(made), token


def list_keys(services: Services) -> list[dict[str, Any]]:
    """List all keys, oldest first. The `state` of a key is valid, revoked or expired."""
    with services.database.read() as connection:
        return [_shown(key) for key in api_keys.all_keys(connection)]


def _shown(key: dict[str, Any]) -> dict[str, Any]:
    is_expired = key.pop("is_expired")
    state = "revoked" if key["revoked_at"] else "expired" if is_expired else "valid"
    return {**key, "scopes": key["scopes"].split(), "state": state}


def revoke_key(services: Services, prefix: str) -> str:
    """Revoke the key whose id begins with this prefix, and return the id.

    Raises NotFound if no key that is not yet revoked matches, and Conflict if several such keys match.
    """
    with services.database.read() as connection:
        found = [k["id"] for k in api_keys.all_keys(connection) if k["id"].startswith(prefix) and not k["revoked_at"]]
    if not found or not prefix:
        raise NotFound("API key", prefix)
    if len(found) > 1:
        raise Conflict(f"{prefix!r} begins the ids of several keys; write more of the id.", code="ambiguous_id")
    with services.database.write() as connection:
        api_keys.revoke(connection, found[0])
    return found[0]


def authenticate(services: Services, token: str | None) -> Caller:
    """Return the caller with this token.

    Raises Forbidden if the token is missing (`unauthenticated`) or not valid (`invalid_key`).
    """
    if not token:
        raise Forbidden("Send your API key as 'Authorization: Bearer rd_…'.", code="unauthenticated")
    asked = hash_of(token)
    with services.database.read() as connection:
        key = api_keys.find_valid(connection, asked, unrecorded_for_s=_USE_NOTED_EVERY_S)
    # An attacker cannot choose bits of a hash, so the time of the index look-up reveals nothing about a token. The
    # comparison in constant time would also protect a look-up by a part of the hash.
    if key is None or not hmac.compare_digest(key["token_hash"], asked):
        raise Forbidden("This API key is not valid; `redraft keys create` makes one.", code="invalid_key")
    if key["is_unrecorded"]:
        _note_use(services, key["id"])
    return Caller(key["id"], read(key["scopes"]), key["name"])


def _note_use(services: Services, key_id: str) -> None:
    # A request must not fail because the last use cannot be stored
    try:
        with services.database.write() as connection:
            api_keys.record_use(connection, key_id, unrecorded_for_s=_USE_NOTED_EVERY_S)
    except Unavailable as error:
        log.warning("key_use_not_noted", key_id=key_id, error=error.message)


def hash_of(token: str) -> str:
    """Return the hash of a token. A fast hash is safe, since nobody can guess 256 random bits."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
