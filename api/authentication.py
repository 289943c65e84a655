"""Authenticates requests and limits their rate. Only the paths in OPEN_PATHS and OPEN_PREFIX are public.

With API keys, a request needs a valid key with the scope that follows from its method and path. So every new route has
a check of its scope. A browser that has signed in sends a cookie instead of a key; only requests from Redraft's own
pages are accepted with a cookie. Without API keys (loopback), only requests from Redraft's own pages and from programs
on this machine are accepted. So other web sites cannot reach the API through the user's browser, for example by DNS
rebinding.
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
from api.http.rate_limits import Policy, Quota, network_of
from redraft.domain.admin.scopes import Scope as KeyScope
from redraft.errors import Forbidden, RedraftError
from redraft.operations.admin import keys, sign_in_sessions
from redraft.operations.admin.keys import Caller, hash_of

COOKIE = "redraft_sign_in"
# Load balancers need the health paths without a key. Browsers send no key for `/docs` and the sign-in pages
OPEN_PATHS = frozenset({"/livez", "/readyz", "/docs", "/openapi.json", "/sign-in", "/sign-out"})
OPEN_PREFIX = "/static/"
# These paths need the same scope for all methods, so that a key for metrics cannot read answers
_PLACES = {
    KeyScope.METRICS: re.compile(r"/metrics(/.*)?"),
    # This scope suffices to list the tools. The requests of a tool are authenticated separately
    KeyScope.READ: re.compile(r"/mcp"),
    KeyScope.ADMIN: re.compile(r"/(v1/keys|settings/keys|settings/configuration)(/.*)?"),
}
# The prompts of all later jobs depend on these templates and tunings
_ADMIN_CHANGES = re.compile(r"/(v1/generator-templates|settings/templates|ratings/tunings)(/.*)?")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({"same-origin", "none"})
_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d{1,5})?", re.ASCII)
# If one of these headers occurred twice, a proxy and this server could use different values
_SINGLE_HEADERS = ("host", "authorization", "content-type", "content-encoding", "idempotency-key")
_CREDENTIAL_NAMES = frozenset({"authorization", "access_token", "api_key", "apikey", "api-key"})

# Without this limit, a caller could guess keys and load the database with the attempts
FAILURES = Policy("failed-authentications", 20)


class Authentication:
    """Authenticates a request before its body is read, so that only valid keys can send large bodies."""

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
                send = _with_quota(send, await admit(request))
        except (RedraftError, HttpProblem) as error:
            await problems.render(request, error)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _with_quota(send: Send, headers: Mapping[str, str]) -> Send:
    async def send_with_quota(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return send_with_quota


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIX)


def scope_of(method: str, path: str) -> KeyScope:
    """Return the scope that a request needs. Methods other than GET, HEAD and OPTIONS need `write`."""
    usual = KeyScope.READ if method in _SAFE_METHODS else KeyScope.WRITE
    if usual is KeyScope.WRITE and _ADMIN_CHANGES.fullmatch(path):
        return KeyScope.ADMIN
    return next((scope for scope, places in _PLACES.items() if places.fullmatch(path)), usual)


async def admit(request: Request) -> Mapping[str, str]:
    """Authenticate a request, record its caller in the ASGI scope, and return the rate limit headers of the response.

    Raises:
        Forbidden: the request has no valid key.
        HttpProblem: the request comes from another web site or its key lacks a scope (403), or it exceeds the rate
            limit (429).
        Unavailable: the keys cannot be read.
    """
    context: Context = request.app.state.context
    if not context.settings.is_auth_required:
        refuse_strangers(request, context)
        request.scope["state"]["scopes"] = frozenset(KeyScope)
        return {}
    caller = await identify(request, context)
    request.scope["state"].update(key_id=caller.key_id, scopes=caller.scopes, key_name=caller.name)
    quota = await _take_quota(context, caller)
    _require_scope(request, caller, quota)
    return quota.headers if quota else {}


async def is_trusted(request: Request) -> bool:
    """Whether the response of a public path may contain details for this caller."""
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
    """Return the caller, by the API key in the request or by the sign-in cookie. Raises like `admit`."""
    token = bearer_token(request)
    signed_in = request.cookies.get(COOKIE)
    if token is None and signed_in:
        refuse_foreign_page(request)
        return await run_in_threadpool(sign_in_sessions.authenticate, context.services, signed_in)
    return await identify_by_key(request, context, token)


async def identify_by_key(request: Request, context: Context, token: str | None) -> Caller:
    """Return the caller with this API key. Raises Forbidden if the key is not valid.

    Raises HttpProblem (429) if the address of the client has sent too many wrong keys.
    """
    token_hash = hash_of(token) if token else ""
    network = network_of(request.client.host) if request.client else "unknown"
    # A key that was valid recently is exempt, so that clients behind the same NAT cannot block each other
    if token and token_hash not in context.valid_keys:
        _refuse_excess(await context.rates.take(FAILURES, network, 0), "This address sent too many wrong API keys.")
    try:
        caller = await run_in_threadpool(keys.authenticate, context.services, token)
    except Forbidden as error:
        if error.code == "invalid_key":
            await context.rates.take(FAILURES, network)
        raise
    context.valid_keys.add(token_hash)
    return caller


async def _take_quota(context: Context, caller: Caller) -> Quota | None:
    per_minute = context.settings.requests_per_minute
    if not per_minute:
        return None
    quota = await context.rates.take(Policy("requests", per_minute), caller.key_id)
    _refuse_excess(quota, f"The limit of this API key is {per_minute} requests per minute.")
    return quota


def _refuse_excess(quota: Quota | None, words: str) -> None:
    if quota is not None and not quota.is_allowed:
        headers = {**quota.headers, "Retry-After": str(quota.wait_s)}
        raise HttpProblem(429, f"{words} Try again in {quota.wait_s} s.", headers=headers)


def _require_scope(request: Request, caller: Caller, quota: Quota | None) -> None:
    needed = scope_of(request.method, request.url.path)
    if needed in caller.scopes:
        return
    request.scope["state"]["missing_scope"] = needed
    challenge = f'Bearer realm="redraft", error="insufficient_scope", scope="{needed}"'
    raise HttpProblem(
        403,
        f"This needs an API key with the scope '{needed}'; `redraft keys create NAME --scope {needed}` creates one.",
        code="insufficient_scope",
        headers={"WWW-Authenticate": challenge, **(quota.headers if quota else {})},
    )


def refuse_ambiguous(request: Request) -> None:
    for name in _SINGLE_HEADERS:
        if len(request.headers.getlist(name)) > 1:
            raise HttpProblem(400, f"The header {name.title()} was sent twice.", code="ambiguous_header")
    named = [name for name in request.query_params if name.lower() in _CREDENTIAL_NAMES]
    if named:
        words = "Logs store API keys in URLs. Revoke this key, and send keys as 'Authorization: Bearer …'."
        raise HttpProblem(400, words, code="credentials_in_address")


def bearer_token(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def refuse_foreign_host(request: Request, *, is_loopback_bound: bool) -> None:
    # An attack by DNS rebinding needs a host name, so IP addresses are safe
    name = host_name(request.headers.get("host", ""))
    if name == "localhost" or name.endswith(".localhost"):
        return
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        address = None
    if address is None or (is_loopback_bound and not address.is_loopback):
        words = "Without API keys, only requests to localhost are accepted. Use that name, or set REDRAFT_REQUIRE_AUTH."
        raise HttpProblem(403, words, code="host_not_allowed")


def host_name(host: str) -> str:
    """Return the name in a Host header without port and brackets, or an empty text if the header is malformed."""
    found = _HOST.fullmatch(host)
    return (found["address"] or found["name"]).lower().rstrip(".") if found else ""


def refuse_foreign_page(request: Request) -> None:
    if request.method in _SAFE_METHODS:
        return
    # Old browsers send no Sec-Fetch-Site, and programs send neither header
    site = request.headers.get("sec-fetch-site", "none").lower()
    origin = request.headers.get("origin")
    try:
        is_own_origin = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    except ValueError:
        is_own_origin = False
    if site not in _OWN_SITES or not is_own_origin:
        words = "Requests from pages of other web sites are refused."
        raise HttpProblem(403, words, code="cross_site_request")
