"""What goes wrong with batches: lines with errors, crashes, canceled runs, providers that are down."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from redraft.domain.bulk.run_requests import ResumeRun
from redraft.errors import Invalid
from redraft.operations import fault_points
from redraft.operations.bulk import runs
from redraft.operations.fault_points import FaultPoint
from tests.model_server import BatchScript, ModelServer, Reply
from tests.operations.batches.batching import JUDGE, BatchDriver
from tests.operations.driving import Killed

LINES = ["line_expired", "line_canceled", "line_error", "line_missing", "line_malformed", "line_cut", "line_duplicate"]


@contextmanager
def killed_at(point: FaultPoint) -> Generator[None]:
    """The worker is gone when it gets to the point for the first time."""

    left = [point]

    def kill(reached: FaultPoint, _job_id: str) -> None:
        if reached in left:
            left.clear()
            raise Killed

    fault_points.watch(kill)
    with pytest.raises(Killed):
        yield


@pytest.mark.parametrize("point", [FaultPoint.SUBMITTING, FaultPoint.SENT, FaultPoint.IMPORTING])
@pytest.mark.both_databases
def test_a_batch_is_submitted_once_and_imported_once(
    batches: BatchDriver, model_server: ModelServer, point: FaultPoint
):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = batches.start()
    batches.work(run)
    with killed_at(point):
        for _ in range(5):
            batches.deliver()
    batches.restart()
    ended = batches.run_all(run)
    assert (ended.counts.succeeded, ended.usage.calls) == (3, 6)
    assert len(model_server.batches()) == 2
    batches.ensure_once(run)


@pytest.mark.parametrize("fault", LINES)
def test_a_line_without_a_usable_result_follows_in_the_next_batch(
    batches: BatchDriver, model_server: ModelServer, fault: Any
):
    model_server.script(generate=["a"], evaluate=[0.9])
    model_server.script(generate=[Reply("b", fault=fault), "c"], case="r0", batch=BatchScript(foreign=2))
    run = batches.run_all(batches.start(2))
    assert run.counts.accepted == 2
    assert len(run.rounds) == (2 if fault == "line_duplicate" else 3)
    assert run.rounds[0].batches[0].odd_line_count >= 2
    batches.ensure_once(run)


@pytest.mark.parametrize(("fallback", "statuses"), [("live", (2, 0)), ("fail", (1, 1))])
def test_after_some_batches_a_call_is_live_or_fails(
    make_batches: Callable[..., BatchDriver], model_server: ModelServer, fallback: str, statuses: tuple[int, int]
):
    batches = make_batches(batch_attempts_max=2, batch_fallback=fallback)
    model_server.script(generate=["a"], evaluate=[0.9])
    model_server.script(generate=[*[Reply(status=503)] * 2, "c"], case="r0")
    run = batches.run_all(batches.start(2))
    assert (run.counts.succeeded, run.counts.failed) == statuses
    live = [entry for entry in model_server.requests() if not entry.batch_id]
    assert len(live) == (2 if fallback == "live" else 0)


def test_a_permanent_error_of_a_line_ends_its_job_alone(batches: BatchDriver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    model_server.script(generate=[Reply(status=400)], case="r0")
    run = batches.run_all(batches.start(2))
    assert (run.counts.succeeded, run.counts.failed, len(run.rounds)) == (1, 1, 2)


def test_an_unusable_verdict_is_asked_for_again_in_a_batch(batches: BatchDriver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=["no verdict", 0.9])
    run = batches.run_all(batches.start(2, defaults={"evaluation": {"panel": ["via-anthropic:a", "via-openai:b"]}}))
    assert run.counts.accepted == 2
    assert [entry for entry in model_server.requests() if not entry.batch_id] == []
    assert len(run.rounds) == 3
    batches.ensure_once(run)


def test_the_end_of_a_batch_at_the_provider_leads_to_the_next_one(batches: BatchDriver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9], batch=BatchScript(end="expired", done=2))
    run = batches.run_all(batches.start(3))
    assert run.counts.accepted == 3
    assert [each.total for each in run.rounds] == [3, 3, 1] or run.rounds[0].failed == 1
    batches.ensure_once(run)


def test_a_provider_that_is_down_only_delays_the_run(batches: BatchDriver, model_server: ModelServer):
    down: Any = [{"status": 503}, {"status": 429, "headers": {"retry-after": "1"}}]
    answers: Any = {"create": down, "read": down, "content": down, "results": down}
    model_server.script(generate=["a"], evaluate=[0.9], batch=BatchScript(answers=answers))
    run = batches.run_all(batches.start(2))
    assert (run.counts.accepted, len(model_server.batches())) == (2, 2)
    batches.ensure_once(run)


def test_a_lost_batch_is_not_taken_for_another_one_of_the_same_size(batches: BatchDriver, model_server: ModelServer):
    defaults = {"model": JUDGE}
    first, second = batches.start(defaults=defaults), batches.start(defaults=defaults)
    model_server.script(batch=BatchScript(is_held=True))
    batches.work(first)
    batches.deliver()
    model_server.script(batch=BatchScript(is_held=True, answers={"create": [Reply(status=503)]}))
    batches.work(second)
    batches.deliver()
    batches.deliver()
    assert len(model_server.batches()) == 2
    model_server.release()
    assert batches.run_all(first).counts.succeeded == batches.run_all(second).counts.succeeded == 3
    assert len(model_server.batches()) == 4


def test_a_canceled_run_keeps_and_pays_what_had_ended_and_resumes_without_it(
    batches: BatchDriver, model_server: ModelServer
):
    held = BatchScript(is_held=True, done=2)
    model_server.script(generate=["a"], evaluate=[0.9], batch=held)
    run = batches.start(3)
    batches.work(run)
    batches.deliver()
    runs.cancel_run(batches.services, run.id)
    for _ in range(4):
        batches.deliver()
    canceled = batches.now(run)
    assert (canceled.status, canceled.counts.canceled, canceled.usage.calls) == ("canceled", 3, 3)
    assert (canceled.rounds[0].succeeded, canceled.rounds[0].failed) == (2, 1)
    model_server.script(generate=["b"], evaluate=[0.9])
    runs.resume_run(batches.services, run.id, ResumeRun())
    ended = batches.run_all(run)
    assert ended.counts.accepted == 3
    assert sorted(row[5] for row in batches.results(run)) == ["a", "a", "b"]
    batches.ensure_once(run)


def test_a_run_that_is_canceled_before_its_round_is_sent_costs_nothing(batches: BatchDriver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = batches.start(2)
    batches.work(run)
    runs.cancel_run(batches.services, run.id)
    batches.deliver()
    assert (model_server.batches(), batches.now(run).usage.cost_usd) == ([], "0")
    assert [each.failed for each in batches.now(run).rounds] == [2]


def test_models_without_batches_are_refused_or_called_live(batches: BatchDriver, model_server: ModelServer):
    with pytest.raises(Invalid, match="openai has no batch endpoint"):
        batches.start(1, defaults={"model": "openai:writer"})
    chosen = [batches.start(1, "auto", defaults={"model": "openai:writer"}), batches.start(1, "auto")]
    assert [run.delivery for run in chosen] == ["live", "live"]
    assert "openai has no batch endpoint" in (chosen[0].delivery_reason or "")
    assert "REDRAFT_BATCH_MIN_ROWS" in (chosen[1].delivery_reason or "")


def test_auto_chooses_batches_for_a_large_run(make_batches: Callable[..., BatchDriver], model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    batches = make_batches(batch_min_rows=2)
    run = batches.run_all(batches.start(2, "auto", defaults={"stream": True, "cache": "use"}))
    assert (run.delivery, run.counts.accepted, len(run.rounds)) == ("batch", 2, 2)
    again = batches.run_all(batches.start(2, "auto", defaults={"cache": "use"}))
    assert (again.counts.accepted, len(again.rounds), again.usage.cost_usd) == (2, 0, "0")


def test_a_budget_counts_the_worst_case_at_the_batch_price(batches: BatchDriver, model_server: ModelServer):
    model_server.script(generate=[Reply("a", usage={"input": 100, "output": 100})], evaluate=[0.9])
    small: Any = {"sampling": {"max_output_tokens": 500}, "evaluator_sampling": {"max_output_tokens": 500}}
    run = batches.run_all(batches.start(2, defaults=small, max_cost_usd=0.012))
    assert run.counts.accepted == 2
    live = batches.run_all(batches.start(2, "live", defaults=small, max_cost_usd=0.002))
    assert live.stop_reason == "budget_exhausted"
