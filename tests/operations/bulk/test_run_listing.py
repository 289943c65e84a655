"""Runs as people look at them: in a list, as they go on, item by item, row beside row."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event

from redraft.domain.bulk.row_alignment import Change
from redraft.domain.bulk.run_requests import ResumeRun
from redraft.domain.jobs.requests import ContinueJob
from redraft.errors import Invalid, NotFound
from redraft.operations.bulk import run_listing, run_results, runs
from redraft.operations.bulk.comparison_matrix import RowQuery, compare_runs
from redraft.operations.bulk.report_tables import run_tables
from redraft.operations.bulk.run_listing import ItemFilter, ItemLine
from redraft.operations.bulk.run_resources import Run
from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from redraft.reports.text import render_text
from redraft.settings import ModelPrice
from redraft.storage.admin import overview as stored_overview
from redraft.storage.bulk import runs as stored_runs
from redraft.storage.engine.columns import database_time
from tests.model_server import ModelServer, Reply
from tests.operations.bulk.test_runs import now, rows, start, under_way, work_off
from tests.operations.driving import Driver

ALL = ItemFilter()
PRICE = ModelPrice(input=1.0, output=10.0)


@pytest.fixture
def driver(make_driver: Callable[..., Driver]) -> Driver:
    return make_driver(prices={"openai:writer": PRICE, "openai:judge": PRICE})


@contextmanager
def told(driver: Driver) -> Iterator[list[str]]:
    """The statements that are executed meanwhile."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    engine = driver.services.database.engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", note)


@pytest.fixture
def mixed(driver: Driver, model_server: ModelServer) -> Run:
    """A run with an item of each fate: accepted after two, not accepted, failed, invalid."""
    model_server.script(generate=["one", "two"], evaluate=[0.4, 0.9], case="r0")
    model_server.script(generate=["no", "never"], evaluate=[0.4, 0.1], case="r1")
    model_server.script(generate=[Reply(status=400)], case="r2")
    data = rows(3, iter_max=2) + b"nonsense\n"
    return work_off(driver, start(driver, data, name="mixed"))


def items(driver: Driver, run: Run, chosen: ItemFilter = ALL, **place: int) -> list[ItemLine]:
    return run_listing.list_items(driver.services, run.id, chosen, **{"limit": 50, **place}).items


@pytest.mark.both_databases
def test_the_list_says_what_each_run_itself_says(driver: Driver, mixed: Run):
    start(driver, rows(2), max_in_flight=1, max_cost_usd=5)
    found, cursor = run_listing.list_runs(driver.services, cursor=None, limit=10)
    assert cursor is None
    for line in found:
        run = runs.get_run(driver.services, line.id)
        assert line.counts == run.counts
        assert line.cost_usd == run.usage.cost_usd
        assert (line.status, line.stop_reason, line.created_at) == (run.status, run.stop_reason, run.created_at)
    assert [line.dataset_name for line in found] == ["rows.jsonl"] * 2
    assert [line.max_cost_usd for line in found] == ["5", None]
    first, cursor = run_listing.list_runs(driver.services, cursor=None, limit=1)
    rest, _ = run_listing.list_runs(driver.services, cursor=cursor, limit=1)
    assert [*first, *rest] == found


def test_more_runs_and_items_take_no_more_statements(driver: Driver, mixed: Run):
    def looks() -> list[str]:
        with told(driver) as statements:
            run_listing.list_runs(driver.services, cursor=None, limit=20)
        return statements

    few = looks()
    for name in ("a", "b", "c"):
        start(driver, rows(1), name=name)
    assert len(looks()) == len(few)
    with told(driver) as for_one:
        assert len(items(driver, mixed, limit=1)) == 1
    with told(driver) as for_all:
        assert len(items(driver, mixed)) == 4
    assert len(for_one) == len(for_all)


def test_items_are_told_without_their_answers(driver: Driver, mixed: Run):
    accepted, missed, failed, invalid = items(driver, mixed)
    assert (accepted.scores, accepted.best_score, accepted.is_accepted) == ((0.4, 0.9), 0.9, True)
    assert (accepted.question, accepted.custom_id, accepted.score_threshold) == ("[[case:r0]]", "r0", 0.8)
    assert (missed.is_accepted, missed.stop_reason, missed.best_score) == (False, "iteration_limit", 0.4)
    assert (failed.error_code, failed.is_accepted, failed.scores) == ("provider_bad_request", None, ())
    assert (invalid.error_code, invalid.job_id, invalid.line, invalid.cost_usd) == ("invalid_row", None, 4, None)
    assert invalid.errors[0]["code"] == "invalid_row"


@pytest.mark.both_databases
def test_what_waits_has_its_question_from_its_row(driver: Driver):
    run = start(driver, rows(2), max_in_flight=1)
    waiting = items(driver, run)[1]
    assert (waiting.status, waiting.question, waiting.job_id) == ("queued", "[[case:r1]]", None)


@pytest.mark.both_databases
def test_items_are_narrowed(driver: Driver, mixed: Run):
    for chosen, numbers in [
        (ItemFilter(statuses=("failed", "invalid")), [3, 4]),
        (ItemFilter(is_accepted=True), [1]),
        (ItemFilter(is_accepted=False), [2]),
        (ItemFilter(error_code="provider_bad_request"), [3]),
        (ItemFilter(error_code="invalid_row"), [4]),
        (ItemFilter(error_code="unknown"), []),
        (ItemFilter(custom_id="r1"), [2]),
        (ItemFilter(custom_id="line 4"), [4]),
        (ItemFilter(statuses=("succeeded",), error_code="invalid_row"), []),
    ]:
        assert [item.number for item in items(driver, mixed, chosen)] == numbers, chosen


@pytest.mark.both_databases
def test_each_error_group_of_the_report_is_found_as_items(driver: Driver, mixed: Run):
    groups = run_tables(driver.services, mixed.id).report.errors
    found = {group.code: len(items(driver, mixed, ItemFilter(error_code=group.code))) for group in groups}
    assert found == {group.code: group.count for group in groups} == {"provider_bad_request": 1, "invalid_row": 1}


def test_items_are_paged(driver: Driver, mixed: Run):
    def page(**place: int) -> tuple[list[int], bool, bool]:
        found = run_listing.list_items(driver.services, mixed.id, ALL, limit=2, **place)
        return [item.number for item in found.items], found.has_earlier, found.has_later

    assert page() == ([1, 2], False, True)
    assert page(after=1) == ([2, 3], True, True)
    assert page(after=3) == ([4], True, False)
    assert page(before=4) == ([2, 3], True, True)
    assert page(before=3) == ([1, 2], False, True)


def test_the_items_of_an_error_are_counted(driver: Driver, mixed: Run):
    chosen = ItemFilter(error_code="provider_bad_request")
    found = run_listing.list_items(driver.services, mixed.id, chosen, limit=1)
    assert ([item.custom_id for item in found.items], found.total) == (["r2"], 1)


def test_the_time_left_follows_from_what_has_ended(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["x"], evaluate=[0.9])
    run = start(driver, rows(3), max_in_flight=1)
    assert run_listing.view_run(driver.services, run.id).seconds_left is None
    driver.run(under_way(driver, run)[0])
    view = run_listing.view_run(driver.services, run.id)
    assert view.seconds_left is not None
    assert view.seconds_left > 0
    assert not view.has_ended
    ended = run_listing.view_run(driver.services, work_off(driver, run).id)
    assert (ended.seconds_left, ended.has_ended, ended.dataset.name) == (None, True, "rows.jsonl")


@pytest.mark.both_databases
def test_what_a_run_lay_still_is_in_no_time_of_it(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["x"], evaluate=[0.9])
    run = start(driver, rows(3), max_in_flight=1)
    driver.run(under_way(driver, run)[0])
    runs.cancel_run(driver.services, run.id)
    with driver.services.database.write() as connection:
        long_ago = {name: database_time(connection, ago_s=3600) for name in ("created_at", "finished_at")}
        stored_runs.change(connection, run.id, **long_ago)
    runs.resume_run(driver.services, run.id, ResumeRun())
    assert run_listing.view_run(driver.services, run.id).seconds_left is None
    driver.run(under_way(driver, run)[0])
    assert 0 < (run_listing.view_run(driver.services, run.id).seconds_left or 0) < 60
    assert 0 < (work_off(driver, run).usage.latency_ms or 0) < 60_000


def test_an_item_whose_job_was_deleted_is_counted_apart(driver: Driver, mixed: Run):
    answered, failed = (items(driver, mixed, ItemFilter((status,)))[0].job_id for status in ("succeeded", "failed"))
    before = run_tables(driver.services, mixed.id).report.costs
    for job_id in (answered, failed):
        assert job_id
        lifecycle.delete(driver.services, job_id)
    tables = run_tables(driver.services, mixed.id)
    counts, costs = tables.report.counts, tables.report.costs
    assert (counts.succeeded, counts.failed, counts.deleted, counts.deleted_answers) == (2, 1, 2, 1)
    assert (counts.judged, costs.total_usd, costs.unpriced) == (1, None, 0)
    assert 0 < costs.known_usd < before.known_usd
    assert [group.code for group in tables.report.errors] == ["invalid_row"]
    text = render_text(tables)
    assert "2 jobs of this run were deleted" in text
    assert "left out: 1 invalid, 2 deleted" in text
    assert f"at least ${costs.known_usd:f}"[:12] in text
    assert "unknown, at least" not in text
    assert run_listing.view_run(driver.services, mixed.id).deleted == {"succeeded": 1, "failed": 1}


@pytest.fixture
def both(driver: Driver, model_server: ModelServer) -> tuple[Run, Run]:
    """Two runs on the same rows, of which the first one does better in the second run."""
    model_server.script(generate=["old", "new"], evaluate=[0.2, 0.9], case="r0")
    model_server.script(generate=["same", "same"], evaluate=[0.9, 0.9], case="r1")
    first = work_off(driver, start(driver, rows(2, iter_max=1)))
    return first, work_off(driver, start(driver, rows(2, iter_max=1)))


@pytest.mark.both_databases
def test_runs_are_compared_row_by_row(driver: Driver, both: tuple[Run, Run]):
    ids = [each.id for each in both]
    found = compare_runs(driver.services, ids, RowQuery())
    assert [(row.pair.custom_id, row.pair.change.words) for row in found.rows] == [
        ("r0", "newly passing"),
        ("r1", "same"),
    ]
    cells = found.rows[0].cells
    assert [cell and (cell.outcome, cell.score, cell.answer) for cell in cells] == [
        ("not_accepted", 0.2, "old"),
        ("accepted", 0.9, "new"),
    ]
    assert found.rows[0].question == "[[case:r0]]"
    assert (found.number, dict(found.counts)) == (2, {Change.NEWLY_PASSING: 1, Change.SAME: 1})
    [against] = found.against
    assert against.comparison.newly_passing == ("r0",)
    assert "2 rows are too few to tell" in against.summary
    assert [(each.name, each.baseline, each.new) for each in against.metrics[:2]] == [
        ("Pass rate", 0.5, 1.0),
        ("Mean score", pytest.approx(0.55), pytest.approx(0.9)),
    ]
    with pytest.raises(Invalid):
        compare_runs(driver.services, [ids[0], ids[0]], RowQuery())
    with pytest.raises(Invalid):
        compare_runs(driver.services, [f"run_{n}" for n in range(6)], RowQuery())
    (_, old), (_, new) = run_listing.get_sides(driver.services, ids, "r0", 1)
    assert old
    assert new
    assert (old.answer, new.answer) == ("old", "new")
    assert (old.score, new.score, new.question) == (0.2, 0.9, "[[case:r0]]")
    assert new.evaluation
    assert new.evaluation.score == 0.9
    with pytest.raises(NotFound):
        run_listing.get_sides(driver.services, ids, "r9", 1)


@pytest.mark.both_databases
def test_rows_of_a_comparison_are_filtered_and_ordered(driver: Driver, model_server: ModelServer):
    data = b"".join(rows(1, custom_id=f"r{n}", instruct=f"[[case:r{n}]]", metadata={"n": str(n)}) for n in range(3))
    model_server.script(generate=["a"] * 3, evaluate=[0.9, 0.2, 0.9], case="r0")
    model_server.script(generate=["a"] * 3, evaluate=[0.9, 0.85, 0.9], case="r1")
    model_server.script(generate=["a"] * 3, evaluate=[0.3, 0.3, 0.9], case="r2")
    ids = [work_off(driver, start(driver, data, defaults={"eval_crit": "True.", "iter_max": 1})).id for _ in range(3)]

    def names(**query: Any) -> list[str]:
        return [row.pair.custom_id for row in compare_runs(driver.services, ids, RowQuery(**query)).rows]

    assert names() == ["r0", "r1", "r2"]
    assert names(changes=frozenset({Change.NEWLY_FAILING})) == ["r0"]
    assert names(metadata={"n": "1"}) == ["r1"]
    assert names(sort="score") == ["r0", "r2", "r1"]
    assert names(sort="row", after=1, limit=1) == ["r1"]
    assert len(compare_runs(driver.services, ids, RowQuery()).rows[0].cells) == 3


def test_a_row_without_an_id_is_named_by_its_line(driver: Driver, mixed: Run):
    other = start(driver, rows(1), name="other")
    (_, old), (_, new) = run_listing.get_sides(driver.services, [mixed.id, other.id], "line 4", 1)
    assert old
    assert (old.status, old.answer, new) == ("invalid", None, None)


def test_bad_rows_of_a_dataset(driver: Driver, mixed: Run):
    found = run_listing.list_bad_rows(driver.services, mixed.dataset_id, after=-1, limit=5)
    assert [(row.line, row.errors[0]["code"]) for row in found] == [(4, "invalid_row")]
    assert run_listing.list_bad_rows(driver.services, mixed.dataset_id, after=3, limit=5) == []


def test_nothing_is_listed_of_what_is_not_there(driver: Driver):
    looks: list[Callable[[], Any]] = [
        lambda: run_listing.view_run(driver.services, "run_none"),
        lambda: run_listing.list_items(driver.services, "run_none", ALL, after=0, limit=1),
        lambda: run_listing.list_bad_rows(driver.services, "ds_none", after=-1, limit=1),
    ]
    for look in looks:
        with pytest.raises(NotFound):
            look()


@pytest.mark.both_databases
def test_a_continued_job_that_stays_accepted_counts_as_accepted_wherever_acceptance_is_shown(
    driver: Driver, model_server: ModelServer
):
    """Item r0 is continued in vain, r1 with a threshold that it misses, r2 not at all."""
    model_server.script(generate=["GOOD", "WORSE"], evaluate=[0.9, 0.3], case="r0")
    model_server.script(generate=["GOOD", "WORSE"], evaluate=[0.9, 0.3], case="r1")
    model_server.script(generate=["GOOD"], evaluate=[0.9], case="r2")
    run = work_off(driver, start(driver, rows(3)))
    items = {
        item["custom_id"]: item["job_id"] for item in run_results.list_items(driver.services, run.id, after=0, limit=9)
    }
    for name, changes in (("r0", {}), ("r1", {"score_threshold": 0.95})):
        body = ContinueJob.model_validate({"iter_max": 1, **changes})
        lifecycle.continue_job(driver.services, items[name], body)
        assert driver.run(items[name]).stop_reason == "iteration_limit"
    services = driver.services
    assert now(driver, run).counts.accepted == 2
    [line] = run_listing.list_runs(services, cursor=None, limit=5)[0]
    assert line.counts.accepted == 2
    assert run_tables(services, run.id).report.counts.accepted == 2
    accepted = run_listing.list_items(services, run.id, ItemFilter(is_accepted=True), limit=9).items
    assert [item.custom_id for item in accepted] == ["r0", "r2"]
    assert numbers_of_overview(services) == 2
    for name in items:
        [(_, side)] = run_listing.get_sides(services, [run.id], name, 1)
        assert side is not None
        assert side.is_accepted is (name != "r1")
    exported = {line["custom_id"]: line["success"] for line in run_results.stream_results(services, run.id)}
    assert exported == {"r0": True, "r1": False, "r2": True}


def numbers_of_overview(services: Services) -> int:
    """How many jobs the overview counts as accepted today, which its lines agree with."""
    since = datetime.now(UTC) - timedelta(hours=1)
    with services.database.read() as connection:
        hours = stored_overview.sum_up_ended(connection, "hour", since=since)
        lines = stored_overview.last_ended(connection, limit=9)
    counted = sum(hour["accepted"] for hour in hours)
    assert counted == sum(bool(line["is_accepted"]) for line in lines)
    return counted


def test_a_copy_of_a_run_gets_the_next_free_number_and_keeps_a_year(driver: Driver):
    for name in ("mine", "mine (2)", "plan (2024)"):
        start(driver, rows(1), name=name)
    copies = [runs.name_of_copy(driver.services, name) for name in ("mine", "mine (2)", "plan (2024)")]
    assert copies == ["mine (3)", "mine (3)", "plan (2024) (2)"]
