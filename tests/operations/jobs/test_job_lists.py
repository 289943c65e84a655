"""The list of jobs for people, and what is done to many of them."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, insert, select, update

from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.requests import RescoreJob
from redraft.errors import Invalid
from redraft.operations.cursors import write_cursor
from redraft.operations.evaluation import rescore
from redraft.operations.jobs import job_lists, lifecycle
from redraft.operations.services import Services
from redraft.storage.engine.tables import jobs as table
from redraft.storage.jobs import job_lists as stored
from redraft.storage.jobs.job_filters import JobFilter
from tests.model_server import ModelServer
from tests.operations.driving import Driver
from tests.storage.conftest import job_values

ALL = JobFilter(limit=50)


def lines(driver: Driver, criteria: JobFilter = ALL) -> list[job_lists.JobLine]:
    return job_lists.list_lines(driver.services, criteria).lines


@pytest.mark.both_databases
def test_a_line_tells_of_a_job_what_its_own_page_tells(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.4, 0.6, 0.9])
    job = driver.run_new(instruct="\n First line.\nSecond.", score_threshold=0.85, metadata={"a": "b"})
    [line] = lines(driver)
    assert (line.id, line.task, line.metadata, line.threshold) == (job.id, "First line.", {"a": "b"}, 0.85)
    assert line.scores == ((1, 0.4), (2, 0.6), (3, 0.9))
    assert (line.iteration, line.iter_max, line.best_score, line.is_accepted) == (3, 3, 0.9, True)
    assert (line.cost_usd, line.duration_ms) == (job.usage.cost_usd, job.usage.latency_ms)


@pytest.mark.both_databases
def test_candidates_count_by_their_best_and_a_rescoring_by_its_own_verdicts(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.3, 0.5])
    job = driver.run_new(candidates=2, iter_max=1)
    model_server.script(evaluate=[0.7])
    anew = rescore.rescore(driver.services, job.id, RescoreJob(), None).job.id
    driver.run(anew)
    scores = {line.id: line.scores for line in lines(driver)}
    assert scores[job.id] == ((1, 0.5),)
    assert [number for number, _ in scores[anew]] == [1]
    assert scores[anew] != scores[job.id]


HOSTILE = [
    ('"score_threshold":1, \\"score_threshold\\":1', '"score_threshold":1, \\"score_threshold\\":1'),
    ("x" * 5000, "x" * 300),
    ("\\" * 3000, "\\" * 300),
    ('"' * 3000, '"' * 300),
    ("\U0001f600" * 1500, "\U0001f600" * 300),
    *(("y" * fill + "\\\té\n" * 40, ("y" * fill)[:300]) for fill in range(1960, 1990, 3)),
]


@pytest.mark.both_databases
def test_the_beginning_of_a_request_is_read_wherever_it_is_cut(driver: Driver):
    filler = {"resp_format": "r" * 100_000, "score_threshold": 0.25}
    wanted = {driver.submit(instruct=instruct, **filler): task for instruct, task in HOSTILE}
    found = lines(driver)
    assert {line.id: line.task for line in found} == wanted
    assert {line.threshold for line in found} == {0.25}


def queries(services: Services, act: Any) -> int:
    told: list[str] = []

    def listener(*given: Any) -> None:
        told.append(given[2])

    event.listen(services.database.engine, "before_cursor_execute", listener)
    act()
    event.remove(services.database.engine, "before_cursor_execute", listener)
    return len([each for each in told if each.lstrip().upper().startswith("SELECT")])


def test_the_number_of_queries_does_not_depend_on_the_number_of_jobs(driver: Driver):
    one = driver.submit()
    before = queries(driver.services, lambda: lines(driver))
    ids = [one, *(driver.submit() for _ in range(12))]
    assert queries(driver.services, lambda: lines(driver)) == before == 3
    again = queries(driver.services, lambda: job_lists.refresh(driver.services, ALL, ids))
    assert again == 3


@pytest.mark.both_databases
def test_pages_follow_each_other_without_gaps(driver: Driver):
    ids = [driver.submit() for _ in range(5)]
    for newest_first in (True, False):
        seen = all_pages(driver, replace(ALL, limit=2, newest_first=newest_first))
        assert seen == (ids[::-1] if newest_first else ids)


def test_looking_again_shows_the_same_jobs_and_counts_the_others(driver: Driver):
    ids = [driver.submit() for _ in range(3)]
    running = JobFilter(statuses=("queued",), limit=50)
    lifecycle.cancel(driver.services, ids[0])
    later = driver.submit()
    found = job_lists.refresh(driver.services, running, ids)
    assert [(line.id, line.status) for line in found.lines] == [
        (ids[2], "queued"), (ids[1], "queued"), (ids[0], "canceled"),
    ]  # fmt: skip
    assert found.more == 1
    assert job_lists.refresh(driver.services, running, [*ids, later]).more == 0


def test_of_shown_jobs_all_may_be_gone(driver: Driver):
    for _ in range(3):
        driver.submit()
    found = job_lists.refresh(driver.services, replace(ALL, limit=2), ["job_" + "0" * 32])
    assert (found.lines, found.next_cursor, found.more) == ([], None, 2)


def do_all(driver: Driver, deed: job_lists.Action, criteria: JobFilter, batch: int) -> tuple[int, int, int]:
    done = kept = rounds = 0
    cursor = None
    while True:
        result = job_lists.act_on_matching(driver.services, deed, criteria, cursor, batch=batch)
        done, kept, rounds = done + result.done, kept + result.kept, rounds + 1
        cursor = result.cursor
        if cursor is None:
            return done, kept, rounds


def test_all_that_match_are_done_in_batches_and_those_that_come_later_are_not_meant(driver: Driver):
    ids = [driver.submit(metadata={"n": str(number % 2)}) for number in range(6)]
    odd = replace(ALL, metadata={"n": "1"})
    frozen = job_lists.freeze(driver.services, odd)
    later = driver.submit(metadata={"n": "1"})
    possible = job_lists.possible("cancel", frozen)
    assert possible
    assert job_lists.count(driver.services, possible) == 3
    assert job_lists.count(driver.services, possible, most=2) == 2
    assert do_all(driver, "cancel", frozen, batch=2) == (3, 0, 2)
    status = {line.id: line.status for line in lines(driver)}
    assert [status[each] for each in ids] == ["queued", "canceled"] * 3
    assert status[later] == "queued"
    assert do_all(driver, "delete", ALL, batch=2) == (3, 0, 2)
    assert len(lines(driver)) == 4


def test_what_cannot_be_done_is_counted_and_left(driver: Driver):
    ended, queued = driver.run_new().id, driver.submit()
    done = job_lists.act_on(driver.services, "cancel", [ended, queued, "job_" + "0" * 32])
    assert (done.done, done.kept) == (1, 2)
    assert job_lists.possible("cancel", replace(ALL, statuses=("failed",))) is None
    assert job_lists.act_on_matching(driver.services, "cancel", replace(ALL, statuses=("failed",))).done == 0


@pytest.mark.both_databases
def test_an_export_holds_every_job_that_matches(driver: Driver):
    ids = [driver.submit(instruct="a\u2028b") for _ in range(53)]
    text = "".join(job_lists.export_matching(driver.services, ALL))
    assert [json.loads(line)["id"] for line in text.splitlines()] == ids[::-1]
    some = "".join(job_lists.export(driver.services, [ids[0], "job_" + "0" * 32]))
    assert [json.loads(line)["request"]["instruct"] for line in some.splitlines()] == ["a\u2028b"]


def all_pages(driver: Driver, criteria: JobFilter) -> list[str]:
    seen, cursor = list[str](), None
    while True:
        found = job_lists.list_lines(driver.services, criteria, cursor)
        seen += [line.id for line in found.lines]
        cursor = found.next_cursor
        if cursor is None:
            return seen


@pytest.mark.both_databases
def test_all_ended_jobs_are_in_order_of_score_cost_and_duration(driver: Driver):
    ids = [driver.submit() for _ in range(6)]
    figures = {"best_score": [0.5, 0.1, 0.5, None, 0.1, 0.9], "cost_nano_usd": [3, 1, 2, 2, 0, 5]}
    with driver.services.database.write() as connection:
        for number, job_id in enumerate(ids):
            values = {name: each[number] for name, each in figures.items()}
            took = timedelta(seconds=(number * 5) % 7)
            row = connection.execute(select(table.c.created_at).where(table.c.id == job_id)).one()
            ended = {"status": "succeeded", "stop_reason": "plateau", "finished_at": row.created_at + took}
            connection.execute(update(table).where(table.c.id == job_id).values(**values, **ended))
    driver.submit()
    orders: dict[Any, list[int]] = {
        "best": [5, 2, 0, 4, 1],
        "worst": [4, 1, 2, 0, 5],
        "cost": [5, 0, 3, 2, 1, 4],
        "duration": [4, 1, 5, 2, 3, 0],
    }
    for sort, order in orders.items():
        assert all_pages(driver, JobFilter(sort=sort, limit=2)) == [ids[number] for number in order], sort
        with driver.services.database.read() as connection:
            rows = stored.page_by(connection, sort, ids[order[1]], 1) or []
        assert [row.id for row in rows] == [ids[number] for number in order[2:4]]


def test_an_order_does_not_go_on_after_a_job_that_is_gone(driver: Driver):
    with pytest.raises(Invalid, match="does not exist any more"):
        job_lists.list_lines(driver.services, JobFilter(sort="cost"), write_cursor(datetime.now(UTC), new_id("job")))


@pytest.mark.both_databases
def test_a_search_reads_parts_until_a_page_is_full(driver: Driver):
    now = datetime.now(UTC)
    number = stored.SCANNED_AT_ONCE + 2
    rows = [job_values(created_at=now - timedelta(seconds=each), deadline_at=now) for each in range(number)]
    for row in (rows[0], rows[-1]):
        row["request"] = {**row["request"], "instruct": "zebra"}
    with driver.services.database.write() as connection:
        connection.execute(insert(table), rows)
    assert all_pages(driver, JobFilter(words=("Zebra",))) == [rows[0]["id"], rows[-1]["id"]]
    assert all_pages(driver, JobFilter(words=("zebra",), limit=1)) == [rows[0]["id"], rows[-1]["id"]]
    first = job_lists.list_lines(driver.services, JobFilter(words=("zebra",), limit=1))
    assert first.next_cursor
