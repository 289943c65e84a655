"""The engine: what it does with the calls that steps yield."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from redraft.errors import ProviderError
from redraft.operations.calls.step_work import ModelCall, Pace, Together, Work, together, wait_for
from redraft.operations.steps.engine import QUICK_THREADS, Engine
from redraft.providers.shared.protocol import ChatReply, Usage
from redraft.providers.shared.transport import CALLS_LOOP
from tests.support.waiting import patient, wait_until


class Model:
    """A provider that answers with the text it is sent, when it is let go."""

    name = "model"

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.at_once = self.at_once_max = 0
        self._may_answer = asyncio.Event()

    async def send(self, body: Mapping[str, Any], **_: Any) -> ChatReply:
        self.sent.append(body["text"])
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        try:
            await self._may_answer.wait()
        finally:
            self.at_once -= 1
        if body["text"] == "fails":
            raise ProviderError("provider_unavailable", "It is away.")
        return ChatReply(body["text"], "stop", Usage(), 200, {})

    def let_go(self) -> None:
        CALLS_LOOP.call_soon(self._may_answer.set)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"The engine needs no {name}.")


def ask(model: Model, text: str) -> Work[str]:
    reply = yield ModelCall(model, {"text": text}, timeout_s=patient(30))
    return reply.text


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def engine():
    made = Engine()
    yield made
    made.close()


@pytest.mark.parametrize(("width", "at_once"), [(None, 5), (2, 2)])
def test_parts_of_a_step_make_their_calls_together_as_far_as_they_may(
    engine: Engine, model: Model, width: int | None, at_once: int
):
    step = engine.start("job", together([ask(model, str(number)) for number in range(5)], width))
    wait_until(lambda: model.at_once == at_once, what="the calls")
    model.let_go()
    assert step.result(patient(30)) == ["0", "1", "2", "3", "4"]
    assert model.at_once_max == at_once


def test_a_call_holds_no_thread(engine: Engine, model: Model):
    steps = [engine.start(f"job{number}", ask(model, "x")) for number in range(40 * QUICK_THREADS)]
    wait_until(lambda: model.at_once == len(steps), what="all calls in flight")
    model.let_go()
    assert {step.result(patient(30)) for step in steps} == {"x"}


def test_the_failure_of_one_part_is_raised_after_all_have_ended(engine: Engine, model: Model):
    model.let_go()
    ended: list[str] = []

    def part(text: str) -> Work[None]:
        ended.append((yield from ask(model, text)))

    with pytest.raises(ProviderError, match="away"):
        engine.run("job", together([part("fails"), part("one"), part("two")]))
    assert sorted(ended) == ["one", "two"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
def test_a_step_that_raises_no_exception_fails_and_the_next_one_runs(
    engine: Engine, model: Model, kind: type[BaseException]
):
    def step() -> Work[None]:
        yield Pace.SLOW
        raise kind

    with pytest.raises(RuntimeError, match=kind.__name__):
        engine.start("one", step()).result(patient(30))
    model.let_go()
    assert engine.run("two", ask(model, "goes on")) == "goes on"


def test_an_aborted_job_is_resumed_with_an_error_and_sends_no_further_call(engine: Engine, model: Model):
    def step() -> Work[list[str]]:
        codes: list[str] = []
        for text in ("in flight", "later"):
            try:
                yield from ask(model, text)
            except ProviderError as error:
                codes.append(error.code)
        return codes

    aborted, other = engine.start("one", step()), engine.start("two", ask(model, "other"))
    wait_until(lambda: model.at_once == 2, what="both calls")
    engine.abort("one")
    assert aborted.result(patient(30)) == ["canceled", "canceled"]
    model.let_go()
    assert other.result(patient(30)) == "other"
    assert sorted(model.sent) == ["in flight", "other"]


def test_a_job_that_waits_in_its_code_does_not_hold_up_others(engine: Engine, model: Model):
    model.let_go()
    may_go_on = threading.Event()

    def slow() -> Work[bool]:
        yield Pace.SLOW
        return may_go_on.wait(patient(30))

    waiting = [engine.start(f"slow{number}", slow()) for number in range(QUICK_THREADS + 1)]
    assert engine.run("quick", ask(model, "x")) == "x"
    may_go_on.set()
    assert all(step.result(patient(30)) for step in waiting)


def test_an_exception_of_the_step_is_that_of_the_run(engine: Engine):
    def broken() -> Work[None]:
        raise LookupError("nothing there")
        yield Pace.SLOW

    with pytest.raises(LookupError):
        engine.run("job", broken())
    assert engine.is_responding()


def test_a_thread_can_wait_for_one_call_after_the_other_and_for_nothing_else(model: Model):
    model.let_go()
    assert wait_for(ask(model, "x")) == "x"
    with pytest.raises(ProviderError):
        wait_for(ask(model, "fails"))

    def many() -> Work[Any]:
        return (yield Together([ask(model, "x")], 1))

    with pytest.raises(TypeError):
        wait_for(many())
