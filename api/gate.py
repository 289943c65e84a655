"""Who may come in. Nothing is reachable unless it is named here as open or the caller is known.

With API keys: a valid key. Without (loopback): only a browser page of our own or a program on this machine,
so that no web site can reach the API through the user's browser, by DNS rebinding or otherwise.
"""

import ipaddress
from urllib.parse import urlsplit

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from api import problems
from api.dependencies import Context
from api.problems import HttpProblem
from redraft.errors import RedraftError
from redraft.operations import keys

# Health for load balancers; the description of the API for browsers, which send no key for a page.
OPEN_PATHS = frozenset({"/livez", "/readyz", "/docs", "/openapi.json"})
OPEN_PREFIX = "/static/"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({"same-origin", "none"})


class Gate:
    """Refuses before anything of the request's body is read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            if not is_open(scope["path"]):
                await admit(request)
        except (RedraftError, HttpProblem) as error:
            await problems.render(request, error)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIX)


async def admit(request: Request) -> None:
    """Let the request in, and remember whose it is.

    Raises:
        Forbidden: no key, or not a valid one.
        HttpProblem: 403, a request that comes through somebody else's web page.
        Unavailable: the keys cannot be looked up.
    """
    context: Context = request.app.state.context
    if context.settings.is_auth_required:
        token = bearer_token(request)
        request.scope["state"]["key_id"] = await run_in_threadpool(keys.authenticate, context.services, token)
        return
    refuse_foreign_host(request, is_loopback_bound=context.settings.is_loopback)
    refuse_foreign_page(request)


async def is_trusted(request: Request) -> bool:
    """Whether an open page may show this caller its details."""
    try:
        await admit(request)
    except (RedraftError, HttpProblem):
        return False
    return True


def bearer_token(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def refuse_foreign_host(request: Request, *, is_loopback_bound: bool) -> None:
    """An address cannot be rebound, a name can: beyond loopback only `localhost` and addresses are known."""
    name = host_name(request.headers.get("host", ""))
    if name == "localhost" or name.endswith(".localhost"):
        return
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        address = None
    if address is None or (is_loopback_bound and not address.is_loopback):
        words = "Without API keys only localhost is served; call it by that name, or set REDRAFT_REQUIRE_AUTH."
        raise HttpProblem(403, words, code="host_not_allowed")


def host_name(host: str) -> str:
    """The name in a Host header, without port and brackets; empty when it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _authority(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def refuse_foreign_page(request: Request) -> None:
    if request.method in _SAFE_METHODS:
        return
    site = request.headers.get("sec-fetch-site", "none").lower()
    origin = request.headers.get("origin")
    is_own_origin = origin is None or _authority(origin) == request.headers.get("host")
    if site not in _OWN_SITES or not is_own_origin:
        words = "Requests from other web sites' pages are refused."
        raise HttpProblem(403, words, code="cross_site_request")
