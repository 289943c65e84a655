"""Serves static files and `/docs`, and compresses responses."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from api.pages.parts.api_description import Description, describe
from api.pages.parts.rendering import page

router = APIRouter()

_YEAR_S = 31_536_000
_FOLDER = Path(__file__).parent


class _Files(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        # A URL with `v=` contains the hash of the content (`asset`), so its content never changes
        if scope["query_string"].startswith(b"v="):
            response.headers["Cache-Control"] = f"public, max-age={_YEAR_S}, immutable"
        return response


static_files = _Files(directory=_FOLDER / "static")


# Cached, because the OpenAPI document depends only on the code, and preparing it takes some tenths of a second
@lru_cache(maxsize=1)
def _described(app: FastAPI) -> Description:
    return describe(app.openapi())


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> Response:
    return page(request, "docs.html", api=_described(request.app))


class Compression:
    """Compresses responses for clients that accept gzip, except event streams.

    The attack BREACH is not possible, because no response contains both a secret and a text of an attacker. Pages
    contain no session tokens, and requests by scripts of other sites have no cookies.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._pages: Any = GZipMiddleware(app, minimum_size=1000, compresslevel=6)
        # Responses of the API can be large, and strong compression is slower than most networks
        self._api: Any = GZipMiddleware(app, minimum_size=1000, compresslevel=1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_api = scope["type"] == "http" and scope["path"].startswith("/v1/")
        await (self._api if is_api else self._pages)(scope, receive, send)
