"""Authenticates requests and limits their rate. A path needs a known caller unless this module lists it as open.

With API keys: a valid key, with the scope that method and path ask for, so that no route can forget to have one.
Browsers that signed in with a key send a cookie instead, and are let in only from our own pages.
Without (loopback): only a browser page of our own or a program on this machine, so that no web site can reach the
API through the user's browser, by DNS rebinding or otherwise.
"""

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.dependencies import Context
from api.http import problems
from api.http.problems import HttpProblem
from api.http.rate_limits import Policy, Share, site_of
from redraft.domain.admin.scopes import Scope as KeyScope
from redraft.errors import Forbidden, RedraftError
from redraft.operations.admin import keys, sign_ins
from redraft.operations.admin.keys import Caller, hash_of

COOKIE = "redraft_sign_in"
# Health for load balancers; the description of the API for browsers, which send no key for a page; the way in and out.
OPEN_PATHS = frozenset({"/livez", "/readyz", "/docs", "/openapi.json", "/sign-in", "/sign-out"})
OPEN_PREFIX = "/static/"
# Scopes of their own, under whatever method: a scraper reads no answers, and changes no keys.
_PLACES = {
    KeyScope.METRICS: re.compile(r"/metrics(/.*)?"),
    KeyScope.ADMIN: re.compile(r"/(v1/keys|v1/settings|settings/keys|settings/configuration)(/.*)?"),
}
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({"same-origin", "none"})
# If one of these came twice, a proxy and this server could each use another value.
_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d{1,5})?", re.ASCII)
_SINGLE_HEADERS = ("host", "authorization", "content-type", "content-encoding", "idempotency-key")
_CREDENTIAL_NAMES = frozenset({"authorization", "access_token", "api_key", "apikey", "api-key"})

# Wrong keys per address. A key that was valid recently is exempt, so that others behind a NAT cannot block it.
FAILURES = Policy("failed-authentications", 20)


class Authentication:
    """Authenticates a request before its body is read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            refuse_ambiguous(request)
            if not is_open(scope["path"]):
                send = _with_share(send, await admit(request))
        except (RedraftError, HttpProblem) as error:
            await problems.render(request, error)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _with_share(send: Send, headers: Mapping[str, str]) -> Send:
    """Add the rate limit headers of the caller to the response."""

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return tell


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIX)


def scope_of(method: str, path: str) -> KeyScope:
    """The scope that a request needs; every method that is not safe needs `write`."""
    for scope, places in _PLACES.items():
        if places.fullmatch(path):
            return scope
    return KeyScope.READ if method in _SAFE_METHODS else KeyScope.WRITE


async def admit(request: Request) -> Mapping[str, str]:
    """Let the request in, remember whose it is, and return what its answer's headers tell of its share.

    Raises:
        Forbidden: no key, or not a valid one.
        HttpProblem: 403, a request that comes through somebody else's web page, or a key without the scope; 429.
        Unavailable: the keys cannot be looked up.
    """
    context: Context = request.app.state.context
    if not context.settings.is_auth_required:
        refuse_strangers(request, context)
        request.scope["state"]["scopes"] = frozenset(KeyScope)
        return {}
    caller = await identify(request, context)
    request.scope["state"].update(key_id=caller.key_id, scopes=caller.scopes)
    share = await _take_share(context, caller)
    _require_scope(request, caller, share)
    return share.headers if share else {}


async def is_trusted(request: Request) -> bool:
    """Whether an open page may show this caller its details."""
    context: Context = request.app.state.context
    try:
        if not context.settings.is_auth_required:
            refuse_strangers(request, context)
            return True
        return KeyScope.READ in (await identify(request, context)).scopes
    except (RedraftError, HttpProblem):
        return False


def refuse_strangers(request: Request, context: Context) -> None:
    refuse_foreign_host(request, is_loopback_bound=context.settings.is_loopback)
    refuse_foreign_page(request)


async def identify(request: Request, context: Context) -> Caller:
    """Whose key the request holds, or signed in with."""
    token = bearer_token(request)
    signed_in = request.cookies.get(COOKIE)
    if token is None and signed_in:
        refuse_foreign_page(request)
        return await run_in_threadpool(sign_ins.authenticate, context.services, signed_in)
    return await identify_by_key(request, context, token)


async def identify_by_key(request: Request, context: Context, token: str | None) -> Caller:
    """Whose key it is.

    An address that sends wrong keys is turned away unheard after `FAILURES`, so that a flood of them neither finds
    one nor reaches the database.
    """
    token_hash = hash_of(token) if token else ""
    site = site_of(request.client.host) if request.client else "unknown"
    if token and token_hash not in context.good_keys:
        _refuse_excess(await context.rates.take(FAILURES, site, 0), "Too many wrong API keys came from this address.")
    try:
        caller = await run_in_threadpool(keys.authenticate, context.services, token)
    except Forbidden as error:
        if error.code == "invalid_key":
            await context.rates.take(FAILURES, site)
        raise
    context.good_keys.add(token_hash)
    return caller


async def _take_share(context: Context, caller: Caller) -> Share | None:
    per_minute = context.settings.requests_per_minute
    if not per_minute:
        return None
    share = await context.rates.take(Policy("requests", per_minute), caller.key_id)
    _refuse_excess(share, f"This API key may make {per_minute} requests a minute.")
    return share


def _refuse_excess(share: Share | None, words: str) -> None:
    if share is not None and not share.is_let_in:
        headers = {**share.headers, "Retry-After": str(share.wait_s)}
        raise HttpProblem(429, f"{words} Come back in {share.wait_s} s.", headers=headers)


def _require_scope(request: Request, caller: Caller, share: Share | None) -> None:
    needed = scope_of(request.method, request.url.path)
    if needed in caller.scopes:
        return
    request.scope["state"]["missing_scope"] = needed
    challenge = f'Bearer realm="redraft", error="insufficient_scope", scope="{needed}"'
    raise HttpProblem(
        403,
        f"This needs an API key with the scope '{needed}'; `redraft keys create NAME --scope {needed}` makes one.",
        code="insufficient_scope",
        headers={"WWW-Authenticate": challenge, **(share.headers if share else {})},
    )


def refuse_ambiguous(request: Request) -> None:
    """Refuse ambiguous headers, and keys in the URL, which every log on the way keeps."""
    for name in _SINGLE_HEADERS:
        if len(request.headers.getlist(name)) > 1:
            raise HttpProblem(400, f"The header {name.title()} was sent twice.", code="ambiguous_header")
    named = [name for name in request.query_params if name.lower() in _CREDENTIAL_NAMES]
    if named:
        words = "An API key in the address is in every log on its way: revoke it, and send 'Authorization: Bearer …'."
        raise HttpProblem(400, words, code="credentials_in_address")


def bearer_token(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def refuse_foreign_host(request: Request, *, is_loopback_bound: bool) -> None:
    """Refuse host names other than `localhost`: DNS rebinding works with a name, not with an IP address."""
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
    found = _HOST.fullmatch(host)
    return (found["address"] or found["name"]).lower().rstrip(".") if found else ""


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
