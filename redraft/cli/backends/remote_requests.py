"""Sends requests to the API of a remote server, and reads the resources in its answers."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, TypeVar
from uuid import uuid4

import redraft_client
from pydantic import BaseModel, TypeAdapter, ValidationError

from redraft.cli.backends.remote_errors import translated, unreadable

T = TypeVar("T")

PAGE = 100


class _NextPage(BaseModel):
    next_cursor: str | None


class RemoteRequests:
    """The requests of one command to one server."""

    def __init__(self, client: redraft_client.Redraft, url: str) -> None:
        self._client = client
        self._url = url

    def _send(self, method: str, path: str, **sent: Any) -> redraft_client.Response:
        with translated(self._url):
            return self._client.exchange(method, f"/v1/{path}", **sent)

    def _ask(self, kind: type[T], method: str, path: str, **sent: Any) -> T:
        return self._parse(kind, self._send(method, path, **sent))

    def _get(self, kind: type[T], path: str, /, **params: Any) -> T:
        return self._ask(kind, "GET", path, params=params)

    def _parse(self, kind: type[T], response: redraft_client.Response) -> T:
        try:
            return TypeAdapter(kind).validate_json(response.content)
        except ValidationError as error:
            raise unreadable(self._url) from error

    def _part(self, kind: type[T], response: redraft_client.Response, name: str) -> T:
        found = self._parse(dict[str, Any], response)
        try:
            return TypeAdapter(kind).validate_python(found.get(name))
        except ValidationError as error:
            raise unreadable(self._url) from error

    def _listed(self, kind: type[T], path: str, /, **params: Any) -> list[T]:
        return self._part(list[kind], self._send("GET", path, params=params), "data")

    def _page(self, kind: type[T], path: str, /, **params: Any) -> tuple[list[T], str | None]:
        response = self._send("GET", path, params=params)
        cursor = self._parse(_NextPage, response).next_cursor
        return self._part(list[kind], response, "data"), cursor

    def _first(self, kind: type[T], path: str, after: int | None, limit: int, **params: Any) -> list[T]:
        """Return up to `limit` entries of a list, by as many pages as needed."""
        page = partial(self._page, kind, path, limit=min(PAGE, limit), **params)
        return list(islice(entries_of(lambda cursor: page(after=cursor), None if after is None else str(after)), limit))

    def _create(self, kind: type[T], path: str, body: Any, **headers: str) -> T:
        """Send a submission. Because of its idempotency key, a repeated request creates no second resource."""
        key = {"Idempotency-Key": f"cli-{uuid4()}"}
        return self._ask(kind, "POST", path, json=body, headers={**key, **headers})


def entries_of(page: Callable[[str | None], tuple[list[T], str | None]], cursor: str | None = None) -> Iterator[T]:
    """Yield the entries of a list from this cursor on, page by page."""
    while True:
        found, cursor = page(cursor)
        yield from found
        if cursor is None:
            return
