"""Rate limits that all API processes share through Valkey.

A limit is a bucket of one minute's requests that fills steadily (GCRA): one number per caller, one script per
request. It protects the service from a caller that runs wild; it guards no secret and bills nobody. So it fails
open: without Valkey everybody is let in, after half a second at most, and for the next two seconds at once.
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
_PATIENCE_S = 0.5
_REST_S = 2.0
_CONNECTIONS_MAX = 32
_GOOD_FOR_S = 600.0
_GOOD_KEPT = 10_000

# The number is the moment (ms of the server's clock, which all processes share) at which the bucket is full again.
# Taking 0 only looks. Returns {is let in, how many are left, ms until it is full, ms until one more}.
_TAKE = """
local per_minute, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local each = 60000 / per_minute
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local is_let_in = full + each * math.max(wanted, 1) <= now + 60000 + 1
if is_let_in and wanted > 0 then
    full = full + each * wanted
    redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(full - now))
end
local left = math.max(0, math.floor((now + 60001 - full) / each))
local wait = math.max(0, math.ceil(full + each - now - 60000))
return {is_let_in and 1 or 0, left, math.ceil(full - now), wait}
"""


@dataclass(frozen=True, slots=True)
class Policy:
    """A limit that callers are told of: so many per minute."""

    name: str
    per_minute: int


@dataclass(frozen=True, slots=True)
class Share:
    """What a caller has left of a policy."""

    policy: Policy
    is_let_in: bool
    left: int
    full_in_s: int
    wait_s: int

    @property
    def headers(self) -> dict[str, str]:
        """`RateLimit` and `RateLimit-Policy` as draft-ietf-httpapi-ratelimit-headers-11 spells them."""
        return {
            "RateLimit-Policy": f'"{self.policy.name}";q={self.policy.per_minute};w={WINDOW_S}',
            "RateLimit": f'"{self.policy.name}";r={self.left};t={self.full_in_s}',
        }


class Rates:
    """One per process; all its methods belong to the event loop."""

    def __init__(self, url: str) -> None:
        # Bound the wait for a connection, too: many requests at once must not disable the limit by timeouts.
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

    async def take(self, policy: Policy, caller: str, count: int = 1) -> Share | None:
        """Take `count` requests of a caller's limit, 0 to read it only; None when Valkey is unreachable."""
        if time.monotonic() < self._rests_until:
            return None
        key = f"redraft:rate:{policy.name}:{caller}"
        try:
            is_let_in, left, full_ms, wait_ms = await self._take(keys=[key], args=[policy.per_minute, count])
        except (RedisError, OSError) as error:
            log.warning("rate_limit_unavailable", policy=policy.name, error=type(error).__name__)
            self._rests_until = time.monotonic() + _REST_S
            return None
        return Share(policy, bool(is_let_in), left, math.ceil(full_ms / 1000), max(1, math.ceil(wait_ms / 1000)))

    async def close(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()


class GoodKeys:
    """Hashes of keys that were right lately, in this process. They are looked up all the same."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def __contains__(self, token_hash: str) -> bool:
        return self._until.get(token_hash, 0.0) > time.monotonic()

    def add(self, token_hash: str) -> None:
        now = time.monotonic()
        if len(self._until) >= _GOOD_KEPT:
            self._until = {each: until for each, until in self._until.items() if until > now}
        self._until[token_hash] = now + _GOOD_FOR_S


def site_of(address: str) -> str:
    """The site of an address: one IPv6 network of /64, since one customer has 2^64 addresses in it."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(found), 64), strict=False).network_address) + "/64"
    return str(found.ipv4_mapped or found) if found.version == 6 else str(found)
