"""Translates errors of a remote server, and of the connection to it, to the errors of commands."""

import re
from collections.abc import Generator
from contextlib import contextmanager

import redraft_client

from redraft.errors import Conflict, FieldError, Forbidden, Invalid, NotFound, RedraftError, Unavailable

_NO_RESOURCE = re.compile(r"There is no (.+?) '")
_NO_ROUTE = "There is nothing at "
_INVALID = frozenset({400, 413, 415, 422})
_KINDS: dict[int, type[RedraftError]] = {
    401: Forbidden,
    403: Forbidden,
    409: Conflict,
    **dict.fromkeys((408, 429, 502, 503, 504), Unavailable),
}


@contextmanager
def translated(url: str) -> Generator[None]:
    """Convert errors that the client raises within the block to errors of commands."""
    try:
        yield
    except redraft_client.ApiError as error:
        raise _of_api(url, error) from error
    except redraft_client.ServerNotReached as error:
        raise Unavailable(str(error), code="server_not_reached") from error
    except redraft_client.RedraftError as error:
        raise unreadable(url) from error


def unreadable(url: str) -> RedraftError:
    return RedraftError(f"This version of Redraft cannot read the response of {url}.", code="server_version")


def _of_api(url: str, error: redraft_client.ApiError) -> RedraftError:
    words, code = error.message, error.code
    # The route itself is missing, not a resource: the server has another version, or the URL is wrong
    if error.status in {404, 405} and (code.startswith("http_") or words.startswith(_NO_ROUTE)):
        return RedraftError(f"The server at {url} does not know this request: {words}", code="server_version")
    if error.status == 404:
        return _not_found(words)
    if error.status in _INVALID:
        errors = tuple(FieldError(_as_field(each.pointer), each.detail, each.code) for each in error.errors)
        # The place is in `errors`, so the message must not repeat it
        first = error.errors[0] if error.errors else None
        is_summary = first is not None and words == f"{first.pointer}: {first.detail}"
        return Invalid(first.detail if first and is_summary else words, errors, code=code)
    if kind := _KINDS.get(error.status):
        return kind(words, code=code)
    # The server's log has details under the request id
    request = f" Its request id is {error.request_id}." if error.request_id else ""
    return RedraftError(f"{words}{request}", code=code)


def _as_field(pointer: str) -> str:
    """Return the field that a query parameter sets, as the operations name it."""
    field = f"/{pointer.removeprefix('query/')}" if pointer.startswith("query/") else pointer
    return "/mapping" if field == "/map" else field


def _not_found(words: str) -> NotFound:
    noun = _NO_RESOURCE.match(words)
    error = NotFound(noun[1] if noun else "resource", "")
    # The message of the server already names the id of the resource
    error.message = words
    return error
