"""The gate on a real Valkey: shared limits, calling those who wait, and the circuit."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from redraft.circuit_breaker import CircuitBreaker
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.states import Step
from redraft.errors import ProviderError
from redraft.messages import StepMessage
from redraft.rate_limiter import LimiterSession, NamedLimit, RateLimiter, limit_of
from redraft.settings import ModelLimit, Settings
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

SLOW_DOWN = ProviderError("provider_rate_limited", "slow down")
REFUSED = ProviderError("refused", "no")
MakeLimiter = Callable[..., RateLimiter]


class OwnSettings(Settings):
    model_config = SettingsConfigDict(env_file=None)


def due(step: Step = Step.GENERATE) -> StepMessage:
    return StepMessage(step, new_id("job"), 1)


class Notifier:
    """What a worker's queue would have sent."""

    def __init__(self) -> None:
        self.notified: list[StepMessage] = []

    def __call__(self, message: StepMessage) -> bool:
        self.notified.append(message)
        return True


@pytest.fixture
def notifier() -> Notifier:
    return Notifier()


@pytest.fixture
def model() -> str:
    """A model of the test's own: all tests share the server."""
    return f"openai:{new_id('job')}"


@pytest.fixture
def make_limiter(valkey: ValkeyServer, notifier: Notifier, model: str) -> Iterator[MakeLimiter]:
    made: list[RateLimiter] = []

    def make(limits: dict[str, Any] | None = None, **changes: Any) -> RateLimiter:
        own = {} if limits is None else {model: limits}
        made.append(RateLimiter(OwnSettings(**{"broker_url": valkey.url, "model_limits": own, **changes}), notifier))
        return made[-1]

    yield make
    for limiter in made:
        limiter.close()


@contextmanager
def sessions(limiter: RateLimiter, model: str, calls: int = 1) -> Iterator[tuple[LimiterSession, int]]:
    with limiter.session() as session:
        yield session, session.acquire(due(), {model: [new_id("call") for _ in range(calls)]})[1].width


def is_let_in(limiter: RateLimiter, model: str) -> bool:
    with sessions(limiter, model) as (_, width):
        return width > 0


def test_slots_are_shared_by_all_processes(make_limiter: MakeLimiter, model: str):
    here, there = make_limiter({"calls_at_once": 2}), make_limiter({"calls_at_once": 2})
    with (
        sessions(here, model) as (_, first),
        sessions(there, model) as (_, second),
        sessions(here, model) as (_, third),
    ):
        assert (first, second, third) == (1, 1, 0)
    with sessions(there, model, calls=2) as (_, width):
        assert width == 2, "who left has made room"


def test_a_step_takes_what_is_free_of_what_it_needs(make_limiter: MakeLimiter, model: str):
    limiter = make_limiter({"calls_at_once": 3})
    with sessions(limiter, model) as (_, one), sessions(limiter, model, calls=8) as (_, rest):
        assert (one, rest) == (1, 2)


def test_models_of_one_pattern_count_together_and_others_do_not(make_limiter: MakeLimiter, model: str):
    limiter = make_limiter(model_limits={f"{model}*": ModelLimit(calls_at_once=1)})
    assert limiter.must_acquire(f"{model}-a")
    assert not limiter.must_acquire("openai:other")
    with sessions(limiter, f"{model}-a") as (_, one), sessions(limiter, f"{model}-b") as (_, other):
        assert (one, other) == (1, 0)


def test_who_waits_for_a_slot_is_called_when_one_is_free_and_finds_it_kept(
    make_limiter: MakeLimiter, model: str, notifier: Notifier
):
    limiter = make_limiter({"calls_at_once": 1})
    first, second = due(), due()
    with sessions(limiter, model) as (_, width):
        assert width == 1
        for waiting in (second, first):
            with limiter.session() as session:
                permit = session.acquire(waiting, {model: ["call"]})[1]
                assert (permit.width, permit.is_queued) == (0, True)
            limiter.queue_for_slot(waiting, model)
        assert notifier.notified == []
    assert notifier.notified == [first], "the older job is called first"
    with sessions(limiter, model) as (_, width):
        assert width == 0, "the slot is kept for who was called"
    with limiter.session() as session:
        assert session.acquire(first, {model: ["call"]})[1].width == 1
        assert session.acquire(first, {model: ["next call"]})[1].width == 1, "the job goes on with its slot"
        assert notifier.notified == [first]
    assert notifier.notified == [first, second]


def test_who_begins_to_wait_when_a_slot_is_free_again_is_called_at_once(
    make_limiter: MakeLimiter, model: str, notifier: Notifier
):
    waiting = due()
    make_limiter({"calls_at_once": 1}).queue_for_slot(waiting, model)
    assert notifier.notified == [waiting]


def test_the_slots_of_a_lost_worker_come_free_when_its_calls_are_over(make_limiter: MakeLimiter, model: str):
    limiter = make_limiter({"calls_at_once": 1}, call_timeout_s=30)
    lost = LimiterSession(limiter._limits, limiter._circuits, limiter._notify)
    assert lost.acquire(due(), {model: ["call"]})[1].width == 1
    valkey, slots = limiter._limits._redis, f"redraft:gate:{model}:slots"
    [(_, until_ms)] = valkey.zrange(slots, 0, -1, withscores=True)
    assert 60 < until_ms / 1000 - valkey.time()[0] < 75
    valkey.zadd(slots, {"call": valkey.time()[0] * 1000})
    with sessions(limiter, model) as (_, width):
        assert width == 1


def test_a_minute_has_so_many_requests_and_those_over_it_wait_apart(make_limiter: MakeLimiter, model: str):
    limiter = make_limiter({"requests_per_minute": 3})
    waits: list[float] = []
    for _ in range(9):
        with limiter.session() as session:
            permit = session.acquire(due(), {model: [new_id("call")]})[1]
            assert not permit.is_queued
            waits.append(permit.wait_s)
    assert waits[:3] == [0, 0, 0]
    assert all(50 < wait <= 60 for wait in waits[3:6])
    assert all(110 < wait <= 120 for wait in waits[6:])


def test_calls_that_nobody_foresaw_count_too(make_limiter: MakeLimiter, model: str):
    limiter = make_limiter({"requests_per_minute": 2})
    with limiter.session() as session:
        assert session.acquire(due(), {model: ["first"]})[1].width == 1
        session.record(model, {"first": None, "repair": None})
    with sessions(limiter, model) as (_, width):
        assert width == 0


def test_a_step_of_more_calls_than_a_minute_has_begins_in_an_empty_one(make_limiter: MakeLimiter, model: str):
    limiter = make_limiter({"requests_per_minute": 2})
    with sessions(limiter, model, calls=5) as (_, width):
        assert width == 5
    with sessions(limiter, model) as (_, width):
        assert width == 0


def test_without_valkey_a_limited_model_waits_and_others_do_not_notice(make_limiter: MakeLimiter, model: str, tmp_path):
    limiter = make_limiter({"calls_at_once": 1}, broker_url=f"redis+socket://{tmp_path / 'none'}")
    with sessions(limiter, "openai:free") as (_, width):
        assert width == 1
    with limiter.session() as session:
        permit = session.acquire(due(), {model: ["call"]})[1]
        assert (permit.width, permit.is_queued) == (0, False)
        assert 0 < permit.wait_s < 10


def test_a_model_that_fails_again_and_again_is_left_alone_until_a_probe_comes_back(make_limiter: MakeLimiter):
    limiter = make_limiter(circuit_failures=3, circuit_wait_s=0.05)
    for _ in range(3):
        assert not limiter.must_acquire("m")
        with sessions(limiter, "m") as (session, width):
            assert width == 1
            session.record("m", {"call": SLOW_DOWN})
    assert limiter.must_acquire("m")
    assert not limiter.must_acquire("other")
    with sessions(limiter, "m") as (_, width):
        assert width == 0
    wait_until(lambda: limiter._circuits._circuits["m"]._until <= time.monotonic())
    with sessions(limiter, "m") as (probe, one), sessions(limiter, "m") as (_, other):
        assert (one, other) == (1, 0)
        probe.record("m", {"call": None})
    assert not limiter.must_acquire("m")


def test_failures_for_good_open_nothing_and_a_lost_probe_makes_way(make_limiter: MakeLimiter):
    limiter = make_limiter(circuit_failures=1, circuit_wait_s=0.01)
    with sessions(limiter, "m") as (session, _):
        session.record("m", {"call": REFUSED})
    assert not limiter.must_acquire("m")
    with sessions(limiter, "m") as (session, _):
        session.record("m", {"call": SLOW_DOWN})
    for _ in range(2):
        wait_until(lambda: is_let_in(limiter, "m"))


failing = st.tuples(st.floats(0, 200), st.floats(0, 300))


@given(st.integers(1, 6), st.floats(0.01, 30), st.lists(failing, max_size=30))
def test_waits_grow_to_a_minute_are_never_shorter_than_asked_and_let_one_probe_in(
    failures: int, first_s: float, story: list[tuple[float, float]]
):
    circuit, now, earlier = CircuitBreaker(failures, first_s), 1000.0, 0.0
    for number, (pause, asked) in enumerate(story, 1):
        now += pause
        is_probe = circuit.is_open and circuit.acquire(now) == 0
        assert not is_probe or circuit.acquire(now) > 0, "a second probe"
        circuit.fail(now, retry_after_s=asked, is_probe=is_probe)
        circuit.end_probe()
        assert circuit.is_open == (number >= failures)
        if circuit.is_open:
            wait = circuit.acquire(now)
            assert wait >= asked * 0.999999
            assert wait <= max(60.0, asked, earlier - now) * 1.000001
            assert not is_probe or wait >= min(60.0, first_s) * 0.999999
            earlier = now + wait


def test_each_probe_that_fails_doubles_the_wait():
    circuit, now, waits = CircuitBreaker(1, 2.0), 0.0, []
    circuit.fail(now)
    for _ in range(7):
        waits.append(circuit.acquire(now))
        now += waits[-1]
        assert circuit.acquire(now) == 0
        circuit.fail(now, is_probe=True)
        circuit.end_probe()
    assert waits == [2, 4, 8, 16, 32, 60, 60]


def test_late_failures_of_earlier_calls_do_not_add_up():
    circuit = CircuitBreaker(5, 2.0)
    for _ in range(60):
        circuit.fail(0.0)
    assert circuit.acquire(0.0) == 2.0


names = st.text("ab:*", min_size=1, max_size=5)


@given(names, st.lists(names, max_size=6, unique=True))
def test_the_exact_name_wins_then_the_longest_pattern(model: str, keys: list[str]):
    limits = {key: ModelLimit(calls_at_once=number) for number, key in enumerate(keys, 1)}
    found = limit_of(model, limits)
    if model in keys:
        assert found == NamedLimit(model, None, limits[model].calls_at_once)
        return
    fitting = [key for key in keys if key[-1] == "*" and model.startswith(key[:-1])]
    assert (found.name if found else None) == (max(fitting, key=len) if fitting else None)


@pytest.mark.parametrize("limit", [{"calls_at_once": 0}, {"requests_per_minute": -1}, {"calls": 3}])
def test_limits_that_make_no_sense_are_refused(limit: dict[str, int]):
    with pytest.raises(ValidationError):
        OwnSettings(model_limits={"openai:x": limit})  # pyright: ignore[reportArgumentType]


def test_the_more_wait_the_later_a_step_looks_again_by_itself(make_limiter: MakeLimiter, model: str):
    limiter = make_limiter({"calls_at_once": 1})
    waits: list[float] = []
    with sessions(limiter, model):
        for _ in range(3):
            waiting = due()
            with limiter.session() as session:
                permit = session.acquire(waiting, {model: ["call"]})[1]
            limiter.queue_for_slot(waiting, model)
            waits.append(permit.wait_s)
    assert waits == sorted(waits)
    assert 0 < waits[-1] < 60
