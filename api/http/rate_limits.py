"""Rate limits of API requests that all API processes share through Valkey.

A limit is a bucket of the requests of one minute, which is refilled at a constant rate (GCRA). Valkey stores one number
per caller, and one script runs per request. The limit protects the service from faulty callers. It protects no secret
and is not used for billing. So all requests are accepted while Valkey is unreachable.
The limit is the setting `requests_per_minute` in `redraft/settings.py`.
"""

import ipaddress
import math
import time
from dataclasses import dataclass

import structlog
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

log = structlog.get_logger()

WINDOW_S = 60
# If Valkey is unreachable, a request waits for this time. Requests in the following `_REST_S` do not wait
_PATIENCE_S = 0.5
_REST_S = 2.0
_CONNECTIONS_MAX = 32
_VALID_FOR_S = 600.0
_VALID_KEPT = 10_000

# The stored number is the time at which the bucket is full again, in ms of the clock of Valkey, which all processes
# share. Taking 0 requests only reads the number. The script returns {whether the request is accepted, remaining
# requests, ms until the bucket is full, ms until the next request is accepted}.
_TAKE = """
local per_minute, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local each = 60000 / per_minute
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local is_allowed = full + each * math.max(wanted, 1) <= now + 60000 + 1
if is_allowed and wanted > 0 then
    full = full + each * wanted
    redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(full - now))
end
local left = math.max(0, math.floor((now + 60001 - full) / each))
local wait = math.max(0, math.ceil(full + each - now - 60000))
return {is_allowed and 1 or 0, left, math.ceil(full - now), wait}
"""


@dataclass(frozen=True, slots=True)
class Policy:
    """A limit with its name, as the headers of responses show it."""

    name: str
    per_minute: int


@dataclass(frozen=True, slots=True)
class Quota:
    """The remaining requests of a policy for one caller."""

    policy: Policy
    is_allowed: bool
    left: int
    full_in_s: int
    wait_s: int

    @property
    def headers(self) -> dict[str, str]:
        # The spelling follows draft-ietf-httpapi-ratelimit-headers-11
        return {
            "RateLimit-Policy": f'"{self.policy.name}";q={self.policy.per_minute};w={WINDOW_S}',
            "RateLimit": f'"{self.policy.name}";r={self.left};t={self.full_in_s}',
        }


class Rates:
    """Counts requests of callers against their limits. Each process has one object, which its event loop calls."""

    def __init__(self, url: str) -> None:
        # The pool is bounded and waits, because timeouts of many concurrent requests would disable the limit
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS_MAX,
            timeout=_PATIENCE_S,
            socket_timeout=_PATIENCE_S,
            socket_connect_timeout=_PATIENCE_S,
            decode_responses=True,
        )
        self._redis: Redis = Redis(connection_pool=pool)
        self._take = self._redis.register_script(_TAKE)
        self._rests_until = 0.0

    async def take(self, policy: Policy, caller: str, count: int = 1) -> Quota | None:
        """Count `count` requests against a caller's limit; 0 only reads it. Return None if Valkey is unreachable."""
        if time.monotonic() < self._rests_until:
            return None
        key = f"redraft:rate:{policy.name}:{caller}"
        try:
            is_allowed, left, full_ms, wait_ms = await self._take(keys=[key], args=[policy.per_minute, count])
        except (RedisError, OSError) as error:
            log.warning("rate_limit_unavailable", policy=policy.name, error=type(error).__name__)
            self._rests_until = time.monotonic() + _REST_S
            return None
        return Quota(policy, bool(is_allowed), left, math.ceil(full_ms / 1000), max(1, math.ceil(wait_ms / 1000)))

    async def close(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()


class ValidKeys:
    """Hashes of API keys that were valid recently. Each request still validates its key in the database."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def __contains__(self, token_hash: str) -> bool:
        return self._until.get(token_hash, 0.0) > time.monotonic()

    def add(self, token_hash: str) -> None:
        now = time.monotonic()
        if len(self._until) >= _VALID_KEPT:
            self._until = {each: until for each, until in self._until.items() if until > now}
        self._until[token_hash] = now + _VALID_FOR_S


def network_of(address: str) -> str:
    """Return an IPv4 address unchanged, and the /64 network of an IPv6 address."""
    # An internet provider assigns all addresses of a /64 network to one customer
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(found), 64), strict=False).network_address) + "/64"
    return str(found.ipv4_mapped or found) if found.version == 6 else str(found)
