"""Signs browsers in to the pages with an API key. A session ends at the sign-out, or after 12 hours."""

import secrets

from redraft.domain.admin.scopes import read
from redraft.errors import Forbidden
from redraft.operations.admin.keys import Caller, hash_of
from redraft.operations.services import Services
from redraft.storage.admin import api_keys

# A working day: a forgotten browser is signed out by the next morning
LIFETIME_S = 12 * 3600


def sign_in(services: Services, caller: Caller) -> str:
    """Create a session for the browser of this caller. Only this call returns the token; a hash of it is stored."""
    token = secrets.token_urlsafe(32)
    with services.database.write() as connection:
        api_keys.add_sign_in(connection, hash_of(token), caller.key_id, lifetime_s=LIFETIME_S)
    return token


def authenticate(services: Services, token: str) -> Caller:
    """The caller whose key created this session. Raises Forbidden if the session or its key is no longer valid."""
    with services.database.read() as connection:
        key = api_keys.find_signed_in(connection, hash_of(token))
    if key is None:
        raise Forbidden("You are no longer signed in: sign in again with an API key.", code="unauthenticated")
    return Caller(key["id"], read(key["scopes"]), key["name"])


def sign_out(services: Services, token: str) -> None:
    """End the session with this token."""
    with services.database.write() as connection:
        api_keys.remove_sign_in(connection, hash_of(token))
