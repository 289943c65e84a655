"""The pages' files, and pages packed for the way."""

from pathlib import Path
from typing import Any

from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

_YEAR_S = 31_536_000


class _Files(StaticFiles):
    """A file asked for with the hash of its content never changes at that address."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if scope["query_string"].startswith(b"v="):
            response.headers["Cache-Control"] = f"public, max-age={_YEAR_S}, immutable"
        return response


static_files = _Files(directory=Path(__file__).parent / "static")


class PageCompression:
    """Packs what browsers load; answers for programs and streams go as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._packing: Any = GZipMiddleware(app, minimum_size=1000, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_packed = scope["type"] == "http" and not scope["path"].startswith("/v1/")
        await (self._packing if is_packed else self._app)(scope, receive, send)
