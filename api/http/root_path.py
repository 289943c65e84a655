"""Serves Redraft under a path of another site (`REDRAFT_ROOT_PATH`). The proxy may remove the path or keep it."""

import re
from collections.abc import Sequence

from fastapi.routing import iter_route_contexts
from starlette.datastructures import MutableHeaders
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redraft.errors import Invalid
from redraft.operations.resource_base import ROOT_PATH

_LOCATION_HEADERS = ("location", "hx-redirect")
_URL_ATTRIBUTES = re.compile(r'((?:\s|^)(?:href|src|action|formaction|data-live|hx-get|hx-post|hx-delete)=")(?=/(?!/))')


class RootPath:
    """Removes the root path from request paths, and adds it to URLs in response headers."""

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
            await self._app(inside, receive, self._send_rooted(send))
        finally:
            ROOT_PATH.reset(token)

    def _inner(self, path: str) -> str:
        if path == self._root:
            return "/"
        return path.removeprefix(self._root) if path.startswith(f"{self._root}/") else path

    def _send_rooted(self, send: Send) -> Send:
        async def send_rooted(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name in _LOCATION_HEADERS:
                    url = headers.get(name, "")
                    # `//host/…` is a URL of another site
                    if url.startswith("/") and not url.startswith("//"):
                        headers[name] = self._root + url
            await send(message)

        return send_rooted


def rooted(html: str) -> str:
    """Add the root path to the URLs in a page that belong to this site."""
    root = ROOT_PATH.get()
    return _URL_ATTRIBUTES.sub(rf"\g<1>{root}", html) if root else html


def refuse_clash(root: str, routes: Sequence[BaseRoute]) -> None:
    """Raise Invalid if the root path and a path of Redraft begin with the same segment.

    Otherwise a request to such a path would be ambiguous.
    """
    first = root.split("/")[1] if root else None
    if first in {str(route.path).split("/")[1] for route in iter_route_contexts(routes)} | {"static"}:
        words = f"REDRAFT_ROOT_PATH={root} begins with /{first}, which is a path of Redraft itself. Choose another."
        raise Invalid(words, code="root_path_clashes")
