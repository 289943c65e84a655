"""Runs that are delivered by batches: their rounds on the page, and the choice of the delivery in the form."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import insert, update

from redraft.operations.bulk import runs
from redraft.operations.services import Services
from redraft.storage.engine import bulk_tables
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import dataset, rows, start, work_off
from tests.operations.driving import Driver
from tests.support.html_pages import Reader, text_of, value_of

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)


def test_rounds_tell_what_is_sent_done_and_failed(reader: Reader, services: Services, model_server: ModelServer):
    driver = Driver(services)
    run = work_off(driver, start(driver, rows(2, iter_max=1), name="in batches"))
    common = {"run_id": run.id, "model": "openai:writer", "total": 2, "ready_at": NOW, "created_at": NOW}
    with services.database.write() as connection:
        connection.execute(update(bulk_tables.runs).values(delivery="batch").where(bulk_tables.runs.c.id == run.id))
    assert "The first round is being collected." in reader.go(f"/runs/{run.id}").text
    ended = {"status": "ended", "provider_batch_id": "batch_abc", "provider_status": "completed", "ended_at": NOW}
    sent = {"status": "sent", "provider_batch_id": "<b>x</b>", "done": 1, "expires_at": NOW + timedelta(days=1)}
    with services.database.write() as connection:
        connection.execute(
            insert(bulk_tables.batches).values(id="b1", round=1, succeeded=1, failed=1, **ended, **common)
        )
        connection.execute(insert(bulk_tables.batches).values(id="b2", round=2, **sent, **common))
    first, second = reader.go(f"/runs/{run.id}").texts("tbody/tr", reader.page.region("Rounds"))
    assert first.startswith("Round 1 openai:writer batch_abc ended completed 2 of 2 1")
    assert second.startswith("Round 2 openai:writer <b>x</b> sent 1 of 2 0")
    assert second.endswith("2026-12-01 06:00 UTC at the latest")


def test_a_form_chooses_the_delivery_and_a_copy_keeps_it(reader: Reader, services: Services):
    dataset(services, rows(2))
    reader.go("/runs/new")
    reader.press("Start …", {"#delivery": "auto", "#eval_crit": "True."})
    reader.press("Start")
    [run] = runs.list_runs(services, cursor=None, limit=9)[0]
    assert (run.delivery, bool(run.delivery_reason)) == ("live", True)
    reader.go(f"/runs/new?like={run.id}")
    assert value_of(reader.page.by_id("delivery")) == "auto"


def test_a_preview_refuses_batches_for_a_model_without_them(reader: Reader, services: Services):
    dataset(services, rows(2))
    reader.go("/runs/new")
    page = reader.press("Show the cost", {"#delivery": "batch", "#eval_crit": "True."})
    assert (page.status, runs.list_runs(services, cursor=None, limit=9)[0]) == (422, [])
    assert "openai has no batch endpoint" in text_of(page.by_id("delivery-error"))
    page = reader.press("Show the cost", {"#delivery": "auto"})
    assert "openai has no batch endpoint" in text_of(page.by_id("cost"))
