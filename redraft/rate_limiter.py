"""Rate limits of models, which all workers share through Valkey.

One Lua script acquires a permit, and a model without a limit needs no script. No thread waits here: a step without a
permit is rescheduled. A step can wait for a slot without polling: when a slot is free, the step is notified, and the
slot is reserved for it for some seconds.
"""

import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

import redis
import structlog

from redraft.circuit_breaker import CircuitBreakers
from redraft.clock import CLOCK, Clock
from redraft.domain.jobs.states import Step
from redraft.endpoints import ModelLimit
from redraft.errors import ProviderError
from redraft.messages import StepMessage
from redraft.setting_values import redis_url
from redraft.settings import Settings

log = structlog.get_logger()

_UNAVAILABLE_WAIT_S = 3.0
_PAUSE_S = 2.0
# A waiting step tries again in case its notification is lost. Its wait grows with the number of steps before it.
_RECHECK_S_EACH = 0.1
_RECHECK_MAX_S = 60.0

# All times come from the clock of Valkey, because the clocks of the workers may differ.
_PRELUDE = """
local ask = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local slots, starts, later, waiting = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, call in ipairs(ask.left) do redis.call('ZREM', slots, call) end
redis.call('ZREMRANGEBYSCORE', slots, '-inf', now)
for _, call in ipairs(ask.made) do redis.call('ZADD', starts, now, call) end
"""

# Returns {number of calls that may run at once, ms to wait, number of steps that wait for a slot}.
_ACQUIRE = f"""{_PRELUDE}
local wanted = #ask.calls
redis.call('ZREM', slots, ask.step)

if ask.per_minute > 0 then
    redis.call('ZREMRANGEBYSCORE', starts, '-inf', now - 60000)
    local begun = redis.call('ZCARD', starts)
    local over = begun + math.min(wanted, ask.per_minute) - ask.per_minute
    if over > 0 then
        redis.call('ZREM', later, ask.step)
        redis.call('ZREMRANGEBYSCORE', later, '-inf', now)
        local turn = over - 1 + redis.call('ZCARD', later)
        local oldest = redis.call('ZRANGE', starts, turn % begun, turn % begun, 'WITHSCORES')
        local due = oldest[2] + 60000 * (1 + math.floor(turn / begun))
        redis.call('ZADD', later, due, ask.step)
        redis.call('PEXPIRE', later, ask.forget_ms)
        return {{0, due - now, 0}}
    end
end

local width = wanted
if ask.at_once > 0 then
    width = math.min(wanted, ask.at_once - redis.call('ZCARD', slots))
    if width <= 0 then return {{0, 0, redis.call('ZCARD', waiting)}} end
    local until_ms = now + ask.hold_ms * math.ceil(wanted / width) + ask.slack_ms
    for i = 1, width do redis.call('ZADD', slots, until_ms, ask.calls[i]) end
    redis.call('PEXPIREAT', slots, until_ms + ask.forget_ms)
end
if ask.per_minute > 0 then
    for _, call in ipairs(ask.calls) do redis.call('ZADD', starts, now, call) end
    redis.call('PEXPIRE', starts, ask.forget_ms)
end
redis.call('ZREM', waiting, ask.step)
redis.call('ZREM', later, ask.step)
return {{width, 0, 0}}
"""

# Returns the steps to notify. Single jobs come before items of runs, and then the oldest job, since ids grow with time.
_RELEASE = f"""{_PRELUDE}
if ask.step ~= '' then
    redis.call('ZADD', waiting, string.find(ask.step, '|bulk', 1, true) and 1 or 0, ask.step)
    redis.call('PEXPIRE', waiting, ask.forget_ms)
end
if #ask.made > 0 then redis.call('PEXPIRE', starts, ask.forget_ms) end
local free = ask.at_once - redis.call('ZCARD', slots)
local called = {{}}
if free <= 0 then return called end
local popped = redis.call('ZPOPMIN', waiting, free)
for i = 1, #popped, 2 do
    redis.call('ZADD', slots, now + ask.promise_ms, popped[i])
    table.insert(called, popped[i])
end
return called
"""
# A slot outlives the timeout of its call by `slack_ms`, in which the reply is stored. A slot is reserved for a
# notified step for `promise_ms`. The keys of an unused limit expire after `forget_ms`.
_TIMES = MappingProxyType({"slack_ms": 10_000, "promise_ms": 3_000, "forget_ms": 3_600_000})


@dataclass(frozen=True, slots=True)
class Permit:
    """Whether a step may make its calls.

    Attributes:
        width: the number of calls that may run at the same time; 0 if the step must wait.
        wait_s: the time until the step tries again, even if it is not notified.
        is_queued: whether the step waits for a slot, and is notified when a slot is free.
    """

    width: int
    wait_s: float = 0.0
    is_queued: bool = False


@dataclass(frozen=True, slots=True)
class _Report:
    """What the next script records: the calls in `left` free their slots, the calls in `made` had no permit."""

    left: Sequence[str] = ()
    made: Sequence[str] = ()


class _Limits:
    """Runs the Lua scripts with the limits of the settings."""

    def __init__(self, settings: Settings) -> None:
        self._limits = settings.all_model_limits
        self._call_timeout_s = settings.call_timeout_s
        self._paused_until = 0.0
        self._redis = redis.Redis.from_url(
            redis_url(settings.effective_broker_url),
            socket_timeout=1,
            socket_connect_timeout=1,
            health_check_interval=25,
            decode_responses=True,
        )
        self._acquire = self._redis.register_script(_ACQUIRE)
        self._release = self._redis.register_script(_RELEASE)

    def of(self, model: str) -> "NamedLimit | None":
        return limit_of(model, self._limits)

    def acquire(self, limit: "NamedLimit", message: StepMessage, calls: Sequence[str], report: _Report) -> Permit:
        # A slot is held for twice the timeout, since a retry after an unusable reply uses the slot of the first call
        ask = {"step": _encode(message), "calls": calls, "hold_ms": round(2000 * self._call_timeout_s)}
        answer = self._run(self._acquire, limit, ask, report)
        if answer is None:
            return Permit(0, _UNAVAILABLE_WAIT_S)
        width, wait_ms, ahead = answer
        if width or wait_ms:
            return Permit(width, wait_ms / 1000)
        return Permit(0, min(_RECHECK_MAX_S, _RECHECK_S_EACH * ahead), is_queued=True)

    def release(self, limit: "NamedLimit", report: _Report, newcomer: StepMessage | None = None) -> list[StepMessage]:
        """Release slots, add the step `newcomer` to the queue, and return the waiting steps to notify."""
        if limit.calls_at_once is None and not report.made:
            return []
        ask = {"step": _encode(newcomer) if newcomer else ""}
        return [_decode(step) for step in self._run(self._release, limit, ask, report) or ()]

    def _run(
        self, script: Callable[..., Any], limit: "NamedLimit", ask: Mapping[str, Any], report: _Report
    ) -> list[Any] | None:
        """Run a script. Return None if Valkey fails, and for `_PAUSE_S` after that, so that few callers wait."""
        if time.monotonic() < self._paused_until:
            return None
        limits = {"at_once": limit.calls_at_once or 0, "per_minute": limit.requests_per_minute or 0}
        keys = [f"redraft:gate:{limit.name}:{part}" for part in ("slots", "starts", "later", "waiting")]
        try:
            return script(keys=keys, args=[json.dumps({**ask, **limits, **asdict(report), **_TIMES})])
        except (redis.RedisError, OSError) as error:
            log.warning("limits_unavailable", limit=limit.name, error=type(error).__name__)
            self._paused_until = time.monotonic() + _PAUSE_S
            return None

    def close(self) -> None:
        self._redis.close()


class LimiterSession:
    """The permits that a worker holds for one job."""

    def __init__(self, limits: _Limits, circuits: CircuitBreakers, notify: Callable[[StepMessage], object]) -> None:
        self._limits = limits
        self._circuits = circuits
        self._notify = notify
        self._held: dict[NamedLimit, _Report] = {}
        self._probed = ""

    def acquire(self, message: StepMessage, wanted: Mapping[str, Sequence[str]]) -> tuple[str, Permit]:
        """Acquire permits for all calls of a step, or for none of them. `wanted` has the ids of the calls by model.

        Returns the permit, and the model whose limit refused it. A step uses the slots of the previous step again.
        With several models no circuit breaker is used: one failing evaluator must not delay the others of a panel.
        """
        by_limit: dict[NamedLimit, list[str]] = {}
        models: dict[NamedLimit, str] = {}
        for model, calls in wanted.items():
            limit = self._limits.of(model)
            if limit:
                models.setdefault(limit, model)
                by_limit.setdefault(limit, []).extend(calls)
        self._release_limits([limit for limit in self._held if limit not in by_limit])
        model = next(iter(wanted))
        wait_s = self._probe(model) if len(wanted) == 1 else 0.0
        if wait_s:
            self.release_all()
            return model, Permit(0, wait_s)
        width = sum(len(calls) for calls in wanted.values())
        # All steps use the same order. Otherwise two steps could each hold a slot that the other one waits for
        for limit in sorted(by_limit, key=lambda limit: limit.name):
            permit = self._acquire(limit, message, by_limit[limit])
            if not permit.width:
                self.release_all()
                return models[limit], permit
            if permit.width < len(by_limit[limit]):
                width = min(width, permit.width)
        return model, Permit(width)

    def _probe(self, model: str) -> float:
        self._end_probe()
        wait_s, is_probe = self._circuits.acquire(model)
        self._probed = model if is_probe else ""
        return wait_s

    def _acquire(self, limit: "NamedLimit", message: StepMessage, calls: Sequence[str]) -> Permit:
        permit = self._limits.acquire(limit, message, calls, self._held.get(limit, _Report()))
        self._held[limit] = _Report(calls if permit.width else ())
        return permit

    def record(self, model: str, errors: Mapping[str, ProviderError | None]) -> None:
        """Record the outcomes of calls to a model, by the ids of the calls."""
        self._circuits.record(model, list(errors.values()), is_probe=self._probed == model)
        limit = self._limits.of(model)
        report = self._held.get(limit) if limit else None
        if limit and report and limit.requests_per_minute:
            # The step acquired no permit for its retries, but they count against the requests per minute
            unforeseen = [call for call in errors if call not in report.left]
            self._held[limit] = replace(report, made=[*report.made, *unforeseen])

    def release_all(self) -> None:
        """Release all permits, and notify the steps that wait for the slots."""
        self._end_probe()
        self._release_limits(list(self._held))

    def _release_limits(self, limits: Sequence["NamedLimit"]) -> None:
        for limit in limits:
            for notified in self._limits.release(limit, self._held.pop(limit)):
                self._notify(notified)

    def _end_probe(self) -> None:
        if self._probed:
            self._circuits.end_probe(self._probed)
        self._probed = ""


class RateLimiter:
    """The rate limiter of one process. It starts the sessions that acquire permits."""

    def __init__(self, settings: Settings, notify: Callable[[StepMessage], object], *, clock: Clock = CLOCK) -> None:
        self._notify = notify
        self._limits = _Limits(settings)
        self._circuits = CircuitBreakers(settings, clock)

    def must_acquire(self, model: str) -> bool:
        """Whether a call to this model needs a permit. The check makes no request."""
        return self._limits.of(model) is not None or self._circuits.is_open(model)

    @contextmanager
    def session(self) -> Generator[LimiterSession]:
        session = LimiterSession(self._limits, self._circuits, self._notify)
        try:
            yield session
        finally:
            session.release_all()

    def queue_for_slot(self, message: StepMessage, model: str) -> None:
        """Queue a step that is stored as waiting. The step is notified when a slot is free, perhaps at once."""
        limit = self._limits.of(model)
        if limit:
            for notified in self._limits.release(limit, _Report(), message):
                self._notify(notified)

    def close(self) -> None:
        self._limits.close()


@dataclass(frozen=True, slots=True)
class NamedLimit:
    """A rate limit. All calls under the same name count against it."""

    name: str
    requests_per_minute: int | None
    calls_at_once: int | None


def limit_of(model: str, limits: Mapping[str, ModelLimit]) -> NamedLimit | None:
    """Return the limit of this model, or else of the longest pattern that matches it, or None."""
    fitting = [name for name in limits if name.endswith("*") and model.startswith(name[:-1])]
    name = model if model in limits else max(fitting, key=len, default=None)
    return NamedLimit(name, limits[name].requests_per_minute, limits[name].calls_at_once) if name else None


def _encode(message: StepMessage) -> str:
    return f"{message.job_id}|{message.step.value}|{message.step_no}{'|bulk' if message.is_bulk else ''}"


def _decode(text: str) -> StepMessage:
    job_id, step, step_no, *bulk = text.split("|")
    return StepMessage(Step(step), job_id, int(step_no), bool(bulk))
