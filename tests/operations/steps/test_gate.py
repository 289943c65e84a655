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

from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.states import Step
from redraft.errors import ProviderError
from redraft.gate import Circuit, Gate, NamedLimit, Visit, limit_of
from redraft.jobs import StepMessage
from redraft.settings import ModelLimit, Settings
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

SLOW_DOWN = ProviderError("provider_rate_limited", "slow down")
REFUSED = ProviderError("refused", "no")
MakeGate = Callable[..., Gate]


class OwnSettings(Settings):
    model_config = SettingsConfigDict(env_file=None)


def due(step: Step = Step.GENERATE) -> StepMessage:
    return StepMessage(step, new_id("job"), 1)


class Bell:
    """What a worker's queue would have sent."""

    def __init__(self) -> None:
        self.rung: list[StepMessage] = []

    def __call__(self, message: StepMessage) -> bool:
        self.rung.append(message)
        return True


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def model() -> str:
    """A model of the test's own: all tests share the server."""
    return f"openai:{new_id('job')}"


@pytest.fixture
def make_gate(valkey: ValkeyServer, bell: Bell, model: str) -> Iterator[MakeGate]:
    made: list[Gate] = []

    def make(limits: dict[str, Any] | None = None, **changes: Any) -> Gate:
        own = {} if limits is None else {model: limits}
        made.append(Gate(OwnSettings(**{"broker_url": valkey.url, "model_limits": own, **changes}), bell))
        return made[-1]

    yield make
    for gate in made:
        gate.close()


@contextmanager
def visits(gate: Gate, model: str, calls: int = 1) -> Iterator[tuple[Visit, int]]:
    with gate.visit() as visit:
        yield visit, visit.enter(due(), {model: [new_id("call") for _ in range(calls)]})[1].width


def is_let_in(gate: Gate, model: str) -> bool:
    with visits(gate, model) as (_, width):
        return width > 0


def test_slots_are_shared_by_all_processes(make_gate: MakeGate, model: str):
    here, there = make_gate({"calls_at_once": 2}), make_gate({"calls_at_once": 2})
    with visits(here, model) as (_, first), visits(there, model) as (_, second), visits(here, model) as (_, third):
        assert (first, second, third) == (1, 1, 0)
    with visits(there, model, calls=2) as (_, width):
        assert width == 2, "who left has made room"


def test_a_step_takes_what_is_free_of_what_it_needs(make_gate: MakeGate, model: str):
    gate = make_gate({"calls_at_once": 3})
    with visits(gate, model) as (_, one), visits(gate, model, calls=8) as (_, rest):
        assert (one, rest) == (1, 2)


def test_models_of_one_pattern_count_together_and_others_do_not(make_gate: MakeGate, model: str):
    gate = make_gate(model_limits={f"{model}*": ModelLimit(calls_at_once=1)})
    assert gate.guards(f"{model}-a")
    assert not gate.guards("openai:other")
    with visits(gate, f"{model}-a") as (_, one), visits(gate, f"{model}-b") as (_, other):
        assert (one, other) == (1, 0)


def test_who_waits_for_a_slot_is_called_when_one_is_free_and_finds_it_kept(make_gate: MakeGate, model: str, bell: Bell):
    gate = make_gate({"calls_at_once": 1})
    first, second = due(), due()
    with visits(gate, model) as (_, width):
        assert width == 1
        for waiting in (second, first):
            with gate.visit() as visit:
                admission = visit.enter(waiting, {model: ["call"]})[1]
                assert (admission.width, admission.is_called) == (0, True)
            gate.wait_for_call(waiting, model)
        assert bell.rung == []
    assert bell.rung == [first], "the older job is called first"
    with visits(gate, model) as (_, width):
        assert width == 0, "the slot is kept for who was called"
    with gate.visit() as visit:
        assert visit.enter(first, {model: ["call"]})[1].width == 1
        assert visit.enter(first, {model: ["next call"]})[1].width == 1, "the job goes on with its slot"
        assert bell.rung == [first]
    assert bell.rung == [first, second]


def test_who_begins_to_wait_when_a_slot_is_free_again_is_called_at_once(make_gate: MakeGate, model: str, bell: Bell):
    waiting = due()
    make_gate({"calls_at_once": 1}).wait_for_call(waiting, model)
    assert bell.rung == [waiting]


def test_the_slots_of_a_lost_worker_come_free_when_its_calls_are_over(make_gate: MakeGate, model: str):
    gate = make_gate({"calls_at_once": 1}, call_timeout_s=30)
    lost = Visit(gate._limits, gate._circuits, gate._ring)
    assert lost.enter(due(), {model: ["call"]})[1].width == 1
    valkey, slots = gate._limits._redis, f"redraft:gate:{model}:slots"
    [(_, until_ms)] = valkey.zrange(slots, 0, -1, withscores=True)
    assert 60 < until_ms / 1000 - valkey.time()[0] < 75
    valkey.zadd(slots, {"call": valkey.time()[0] * 1000})
    with visits(gate, model) as (_, width):
        assert width == 1


def test_a_minute_has_so_many_requests_and_those_over_it_wait_apart(make_gate: MakeGate, model: str):
    gate = make_gate({"requests_per_minute": 3})
    waits: list[float] = []
    for _ in range(9):
        with gate.visit() as visit:
            admission = visit.enter(due(), {model: [new_id("call")]})[1]
            assert not admission.is_called
            waits.append(admission.wait_s)
    assert waits[:3] == [0, 0, 0]
    assert all(50 < wait <= 60 for wait in waits[3:6])
    assert all(110 < wait <= 120 for wait in waits[6:])


def test_calls_that_nobody_foresaw_count_too(make_gate: MakeGate, model: str):
    gate = make_gate({"requests_per_minute": 2})
    with gate.visit() as visit:
        assert visit.enter(due(), {model: ["first"]})[1].width == 1
        visit.tell(model, {"first": None, "repair": None})
    with visits(gate, model) as (_, width):
        assert width == 0


def test_a_step_of_more_calls_than_a_minute_has_begins_in_an_empty_one(make_gate: MakeGate, model: str):
    gate = make_gate({"requests_per_minute": 2})
    with visits(gate, model, calls=5) as (_, width):
        assert width == 5
    with visits(gate, model) as (_, width):
        assert width == 0


def test_without_valkey_a_limited_model_waits_and_others_do_not_notice(make_gate: MakeGate, model: str, tmp_path):
    gate = make_gate({"calls_at_once": 1}, broker_url=f"redis+socket://{tmp_path / 'none'}")
    with visits(gate, "openai:free") as (_, width):
        assert width == 1
    with gate.visit() as visit:
        admission = visit.enter(due(), {model: ["call"]})[1]
        assert (admission.width, admission.is_called) == (0, False)
        assert 0 < admission.wait_s < 10


def test_a_model_that_fails_again_and_again_is_left_alone_until_a_probe_comes_back(make_gate: MakeGate):
    gate = make_gate(circuit_failures=3, circuit_wait_s=0.05)
    for _ in range(3):
        assert not gate.guards("m")
        with visits(gate, "m") as (visit, width):
            assert width == 1
            visit.tell("m", {"call": SLOW_DOWN})
    assert gate.guards("m")
    assert not gate.guards("other")
    with visits(gate, "m") as (_, width):
        assert width == 0
    wait_until(lambda: gate._circuits._circuits["m"]._until <= time.monotonic())
    with visits(gate, "m") as (probe, one), visits(gate, "m") as (_, other):
        assert (one, other) == (1, 0)
        probe.tell("m", {"call": None})
    assert not gate.guards("m")


def test_failures_for_good_open_nothing_and_a_lost_probe_makes_way(make_gate: MakeGate):
    gate = make_gate(circuit_failures=1, circuit_wait_s=0.01)
    with visits(gate, "m") as (visit, _):
        visit.tell("m", {"call": REFUSED})
    assert not gate.guards("m")
    with visits(gate, "m") as (visit, _):
        visit.tell("m", {"call": SLOW_DOWN})
    for _ in range(2):
        wait_until(lambda: is_let_in(gate, "m"))


failing = st.tuples(st.floats(0, 200), st.floats(0, 300))


@given(st.integers(1, 6), st.floats(0.01, 30), st.lists(failing, max_size=30))
def test_waits_grow_to_a_minute_are_never_shorter_than_asked_and_let_one_probe_in(
    failures: int, first_s: float, story: list[tuple[float, float]]
):
    circuit, now, earlier = Circuit(failures, first_s), 1000.0, 0.0
    for number, (pause, asked) in enumerate(story, 1):
        now += pause
        is_probe = circuit.is_open and circuit.enter(now) == 0
        assert not is_probe or circuit.enter(now) > 0, "a second probe"
        circuit.fail(now, asked_s=asked, is_probe=is_probe)
        circuit.end_probe()
        assert circuit.is_open == (number >= failures)
        if circuit.is_open:
            wait = circuit.enter(now)
            assert wait >= asked * 0.999999
            assert wait <= max(60.0, asked, earlier - now) * 1.000001
            assert not is_probe or wait >= min(60.0, first_s) * 0.999999
            earlier = now + wait


def test_each_probe_that_fails_doubles_the_wait():
    circuit, now, waits = Circuit(1, 2.0), 0.0, []
    circuit.fail(now)
    for _ in range(7):
        waits.append(circuit.enter(now))
        now += waits[-1]
        assert circuit.enter(now) == 0
        circuit.fail(now, is_probe=True)
        circuit.end_probe()
    assert waits == [2, 4, 8, 16, 32, 60, 60]


def test_late_failures_of_earlier_calls_do_not_add_up():
    circuit = Circuit(5, 2.0)
    for _ in range(60):
        circuit.fail(0.0)
    assert circuit.enter(0.0) == 2.0


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


def test_the_more_wait_the_later_a_step_looks_again_by_itself(make_gate: MakeGate, model: str):
    gate = make_gate({"calls_at_once": 1})
    waits: list[float] = []
    with visits(gate, model):
        for _ in range(3):
            waiting = due()
            with gate.visit() as visit:
                admission = visit.enter(waiting, {model: ["call"]})[1]
            gate.wait_for_call(waiting, model)
            waits.append(admission.wait_s)
    assert waits == sorted(waits)
    assert 0 < waits[-1] < 60
