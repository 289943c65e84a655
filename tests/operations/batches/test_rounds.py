"""A run in rounds: its calls go into batches, and its jobs end as they do with live calls."""

from decimal import Decimal

from redraft.operations.bulk.report_tables import run_tables
from redraft.reports.run_report import run_report
from redraft.reports.wording import money
from tests.model_server import ModelServer
from tests.operations.batches.batching import BatchDriver


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
