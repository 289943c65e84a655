"""Redraft under a path of another site: `REDRAFT_ROOT_PATH`, whether or not the proxy before it takes the path off."""

import re
from collections.abc import Sequence

from fastapi.routing import iter_route_contexts
from starlette.datastructures import MutableHeaders
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redraft.errors import Invalid
from redraft.operations.resource_base import ROOT_PATH

_LEADING = ("location", "hx-redirect")
_ADDRESSES = re.compile(r'((?:\s|^)(?:href|src|action|formaction|data-live|hx-get|hx-post|hx-delete)=")(?=/(?!/))')


class RootPath:
    """Takes the path off what comes in, and puts it before the addresses that go out in headers."""

    def __init__(self, app: ASGIApp, root: str) -> None:
        self._app = app
        self._root = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._root:
            await self._app(scope, receive, send)
            return
        inside = {**scope, "path": self._inner(scope["path"]), "app_root_path": self._root}
        token = ROOT_PATH.set(self._root)
        try:
            await self._app(inside, receive, self._leading_outside(send))
        finally:
            ROOT_PATH.reset(token)

    def _inner(self, path: str) -> str:
        if path == self._root:
            return "/"
        return path.removeprefix(self._root) if path.startswith(f"{self._root}/") else path

    def _leading_outside(self, send: Send) -> Send:
        async def send_outside(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name in _LEADING:
                    goal = headers.get(name, "")
                    if goal.startswith("/") and not goal.startswith("//"):
                        headers[name] = self._root + goal
            await send(message)

        return send_outside


def rooted(html: str) -> str:
    """A page of ours with the path before each address of ours."""
    root = ROOT_PATH.get()
    return _ADDRESSES.sub(rf"\g<1>{root}", html) if root else html


def refuse_clash(root: str, routes: Sequence[BaseRoute]) -> None:
    """Raises Invalid: the path begins like an address within Redraft, and nobody could tell them apart."""
    first = root.split("/")[1] if root else None
    if first in {str(route.path).split("/")[1] for route in iter_route_contexts(routes)} | {"static"}:
        words = f"REDRAFT_ROOT_PATH={root} begins with /{first}, which is an address within Redraft: choose another."
        raise Invalid(words, code="root_path_clashes")
