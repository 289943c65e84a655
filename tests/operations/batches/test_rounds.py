"""A run in rounds: its calls go into batches, and its jobs end as they do with live calls."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from pydantic import SecretStr

from redraft.domain.bulk.run_requests import CreateRun
from redraft.errors import Invalid
from redraft.operations.admin.deliveries import Deliverer
from redraft.operations.bulk import scheduler
from redraft.operations.bulk.report_tables import run_tables
from redraft.operations.bulk.run_previews import preview_start
from redraft.reports.run_report import run_report
from redraft.reports.wording import money
from tests.model_server import ModelServer
from tests.operations.batches.batching import DEFAULTS, JUDGE, BatchDriver
from tests.support.receiver import LOOPBACK, SECRET, Receiver, verify


def test_a_run_ends_as_it_does_live_at_half_the_cost(batches: BatchDriver, model_server: ModelServer):
    model_server.script(generate=["one", "two", "three"], evaluate=[0.4, 0.6, 0.9])
    live = batches.run_all(batches.start(delivery="live"))
    expected = batches.results(live)
    model_server.script(generate=["one", "two", "three"], evaluate=[0.4, 0.6, 0.9])
    run = batches.run_all(batches.start())
    assert batches.results(run) == expected
    assert Decimal(run.usage.cost_usd or 0) * 2 == Decimal(live.usage.cost_usd or 0)
    assert run.saved_usd == run.usage.cost_usd
    assert [(each.number, each.total, each.succeeded, each.failed) for each in run.rounds] == [
        (number, 3, 3, 0) for number in range(1, 7)
    ]
    assert len(model_server.batches()) == 6
    batches.ensure_once(run)
    facts = dict(run_report(run_tables(batches.services, run.id)).facts)
    assert facts["Saved by batches"] == money(Decimal(run.saved_usd or 0))
    assert len(facts["Rounds"].split(", ")) == 6


def test_a_receiver_gets_the_end_of_each_round_and_of_the_run(
    make_batches: Callable[..., BatchDriver], model_server: ModelServer
):
    model_server.script(generate=["a"], evaluate=[0.9])
    batches = make_batches(webhook_secret=SecretStr(SECRET), webhook_allow_private=LOOPBACK)
    with Receiver() as receiver:
        webhook = {"url": receiver.url, "events": ["run.round_finished", "run.finished"]}
        run = batches.run_all(batches.start(2, webhook=webhook))
        deliverer = Deliverer(batches.services)
        # A receiver gets two at a time
        for _ in range(2):
            deliverer.send_due()
            assert deliverer.finish(30)
        payloads = sorted(map(verify, receiver.hits), key=lambda payload: payload["data"]["seq"])
    assert [payload["type"] for payload in payloads] == ["run.round_finished", "run.round_finished", "run.finished"]
    first, second, _ = (payload["data"]["event"] for payload in payloads)
    assert [each["round"]["number"] for each in (first, second)] == [1, 2]
    assert first["round"] == run.rounds[0].model_dump(mode="json")
    assert first["message"].startswith("Round 1: 2 calls succeeded, 0 failed. 0 of 2 items have ended")


def test_warnings_about_requests_are_those_of_a_live_run(batches: BatchDriver, model_server: ModelServer):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    fields = {"model": JUDGE, "answer_schema": schema, "sampling": {"seed": 7}, "evaluator_sampling": {"seed": 7}}
    warnings: list[Any] = []
    for delivery in ("live", "batch"):
        model_server.script(generate=['{"n": 1}'], evaluate=[0.4, 0.9])
        run = batches.run_all(batches.start(1, delivery, defaults=fields))
        warnings.append(batches.job(batches.job_ids(run)[0]).warnings)
    assert warnings[0] == warnings[1]
    assert {each.code for each in warnings[1]} >= {"schema_not_enforced", "parameter_not_sent"}


def test_the_preview_of_a_run_has_the_price_of_batches_and_refuses_models_without_them(batches: BatchDriver):
    run = batches.start(3)

    def preview(delivery: str, **defaults: Any) -> Any:
        body = {"dataset_id": run.dataset_id, "delivery": delivery, "defaults": {**DEFAULTS, **defaults}}
        return preview_start(batches.services, CreateRun.model_validate(body))

    live, batch = preview("live"), preview("batch")
    assert live.cost.usd == 2 * batch.cost.usd
    assert preview("auto").cost == live.cost
    assert "REDRAFT_BATCH_MIN_ROWS" in preview("auto").delivery_reason
    with pytest.raises(Invalid, match="openai has no batch endpoint"):
        preview("batch", model="openai:writer")


def test_the_end_of_a_batch_resumes_no_more_jobs_than_the_run_may_work_on(
    batches: BatchDriver, model_server: ModelServer
):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = batches.start(5, max_in_flight=2)
    batches.work(run)
    while batches.now(run).rounds[0].ended_at is None:
        batches.deliver()
    scheduler.schedule_all(batches.services)
    waiting = [job_id for job_id in batches.job_ids(run) if batches.is_parked(job_id)]
    assert len(waiting) == 3
    # Their deadlines stand still
    assert all(batches.row(job_id).deadline_at.year >= 9000 for job_id in waiting)
    assert batches.run_all(run).counts.accepted == 5
    assert len(model_server.batches()) == 2
