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


class Compression:
    """Packs pages and answers for who accepts gzip, large answers of the API with less effort; never event streams.

    No answer holds a secret beside what a stranger chose (BREACH): there are no tokens in pages, and cookies are not
    sent with requests of other sites' scripts.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._for_people: Any = GZipMiddleware(app, minimum_size=1000, compresslevel=6)
        self._for_programs: Any = GZipMiddleware(app, minimum_size=1000, compresslevel=1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_for_programs = scope["type"] == "http" and scope["path"].startswith("/v1/")
        await (self._for_programs if is_for_programs else self._for_people)(scope, receive, send)
