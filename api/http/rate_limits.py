"""Rate limits that all API processes quota through Valkey.

A limit is a bucket of one minute's requests that fills steadily (GCRA): one number per caller, one script per request.
It protects the service from a faulty caller; it guards no secret and is no base of bills. So it fails open: without
Valkey all requests are accepted.
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
# While Valkey is away a request waits this long, and those of the next two seconds do not wait
_PATIENCE_S = 0.5
_REST_S = 2.0
_CONNECTIONS_MAX = 32
_VALID_FOR_S = 600.0
_VALID_KEPT = 10_000

# The number is the time (ms of the server's clock, which all processes quota) at which the bucket is full again.
# Taking 0 only reads. Returns {is accepted, requests left, ms until the bucket is full, ms until one more request}.
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
    """A limit as callers see it in headers."""

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
        # As draft-ietf-httpapi-ratelimit-headers-11 spells them
        return {
            "RateLimit-Policy": f'"{self.policy.name}";q={self.policy.per_minute};w={WINDOW_S}',
            "RateLimit": f'"{self.policy.name}";r={self.left};t={self.full_in_s}',
        }


class Rates:
    """Takes requests of callers' limits. One per process; to be called in the event loop."""

    def __init__(self, url: str) -> None:
        # The wait for a connection is bounded, too: many requests at once must not disable the limit by timeouts
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
        """Take `count` requests of a caller's limit; 0 only reads it. None if Valkey is unreachable."""
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
    """Hashes of keys that were valid lately in this process. Each request still reads its key from the database."""

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
    """Return the address, or for IPv6 its network of /64."""
    # One customer of a provider has all 2^64 addresses of such a network
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(found), 64), strict=False).network_address) + "/64"
    return str(found.ipv4_mapped or found) if found.version == 6 else str(found)
