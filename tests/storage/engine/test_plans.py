"""No query of the lists, the sweeper or a step reads a whole table: EXPLAIN says so on both databases."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from redraft.storage.admin import metrics, overview, profile_versions, ratings, retention, usage
from redraft.storage.admin.retention import EndedJob
from redraft.storage.admin.usage import UsageFilter
from redraft.storage.bulk import run_listing
from redraft.storage.engine import query_parts
from redraft.storage.engine.tables import jobs as table
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import calls, due_steps, events, history, job_lists, jobs, step_claims, transitions, webhooks
from redraft.storage.jobs.job_filters import JobFilter, positions
from redraft.storage.jobs.jobs import JobRecord
from tests.storage.engine.conftest import NOW, SORTS
from tests.support.databases.plans import explained, whole_table_reads

pytestmark = pytest.mark.both_databases

DAY = timedelta(days=1)
# Few jobs have ended so long ago. If many have, PostgreSQL reads the whole table.
LONG = timedelta(hours=28)


def _job(connection: Connection) -> JobRecord:
    record = jobs.get(connection, query_parts.latest_id(connection, table) or "")
    assert record is not None
    return record


STATEMENTS: dict[str, Callable[[Connection], Any]] = {
    "the newest jobs": lambda c: jobs.list_page(c, JobFilter()),
    "the oldest jobs": lambda c: jobs.list_page(c, JobFilter(newest_first=False)),
    "the next page": lambda c: jobs.list_page(c, JobFilter(after=(NOW, "job_1"))),
    "jobs of a status": lambda c: jobs.list_page(c, JobFilter(statuses=("queued",))),
    "jobs of two statuses": lambda c: jobs.list_page(c, JobFilter(statuses=("queued", "running"))),
    "jobs of a stop reason": lambda c: jobs.list_page(c, JobFilter(stop_reason="plateau")),
    "jobs of a model": lambda c: jobs.list_page(c, JobFilter(model="openai:7")),
    "jobs of a kind": lambda c: jobs.list_page(c, JobFilter(kind="generate_answer")),
    "jobs of a time": lambda c: jobs.list_page(c, JobFilter(created_after=NOW - timedelta(seconds=9))),
    "jobs with metadata": lambda c: jobs.list_page(c, JobFilter(metadata={"n": "77"})),
    "a job by the beginning of its id": lambda c: query_parts.ids_where(c, table, table.c.id.startswith("job_0190")),
    "a job by its key": lambda c: jobs.find_by_key(c, "me", "key"),
    "the latest job": lambda c: query_parts.latest_id(c, table),
    "what is due": lambda c: due_steps.take_due(c, pause_s=3, limit=100),
    "what is overdue": lambda c: due_steps.overdue(c, slack_s=5, limit=100),
    "a claim": lambda c: step_claims.claim(c, "job_1", "generate", 1, owner="wrk_1", lease_s=30),
    "a move": lambda c: transitions.advance(c, "job_1", 1, {"step": "evaluate"}),
    "a heartbeat": lambda c: transitions.extend_leases(c, "wrk_1", ["job_1", "job_2"], 30),
    "a shutdown": lambda c: transitions.release_leases(c, "wrk_1"),
    "whether a webhook is due": webhooks.has_due,
    "a webhook that is due": lambda c: webhooks.claim(c, lease_s=9, except_receivers=("a.example:443",)),
    "a job's webhooks": lambda c: webhooks.list_of(c, "job_1"),
    "the latest webhooks": lambda c: webhooks.latest(c, only_failed=False, after=None, limit=9),
    "more of the latest webhooks": lambda c: webhooks.latest(c, only_failed=False, after=(NOW, "whd_1"), limit=9),
    "the latest failed webhooks": lambda c: webhooks.latest(c, only_failed=True, after=None, limit=9),
    "more failed webhooks": lambda c: webhooks.latest(c, only_failed=True, after=(NOW, "whd_1"), limit=9),
    "a run's webhooks": lambda c: webhooks.list_of(c, "run_1"),
    "a webhook again": lambda c: webhooks.redeliver(c, "job_1", "whd_1"),
    "a run's webhook again": lambda c: webhooks.redeliver(c, "run_1", "whd_1"),
    "a job's history": lambda c: history.iterations_of(c, _job(c)),
    "what others say of it": lambda c: history.evaluations_outside_loop(c, ["itr_1", "itr_2"]),
    "what was audited": lambda c: history.audit_scores(c, "job_1", "openai:7"),
    "a job's calls": lambda c: calls.of_job(c, "job_1"),
    "what calls took": lambda c: usage.total(c, UsageFilter(NOW - timedelta(seconds=9), NOW)),
    "what calls took by day": lambda c: usage.by_day_and_model(c, UsageFilter(NOW - timedelta(seconds=9), NOW), 9),
    "what calls of a kind took": lambda c: usage.total(c, UsageFilter(NOW, NOW, kind="generate_answer")),
    "the calls of its page": lambda c: calls.summaries_of_job(c, "job_1", 501),
    "evaluations to rate": ratings.latest_evaluations,
    "which of them are rated": lambda c: ratings.rated_ids(c, ["eval_1", "eval_2"], "local"),
    "the tasks of those": lambda c: ratings.tasks_of(c, ["job_1", "job_2"]),
    "one evaluation to rate": lambda c: ratings.rated_answer(c, "eval_1"),
    "what was said of it": lambda c: ratings.latest_rating(c, "eval_1", "local"),
    "a step's memo": lambda c: calls.recorded_replies(c, "job_1", "generate", 1, with_failures=True),
    "what a job has spent": lambda c: calls.usage_of_job(c, "job_1"),
    "a reusable reply": lambda c: calls.find_reusable(c, "key"),
    "lost calls": lambda c: calls.close_lost(c, "job_1", 2),
    "abandoned calls": lambda c: calls.close_abandoned(c, after_s=200, ended_s=30, limit=100),
    "a job's events": lambda c: events.after(c, "job_1", 5),
    "what runs came to": lambda c: run_listing.totals(c, ["run_1", "run_2"]),
    "what of a run ended last": lambda c: run_listing.latest_ends(c, "run_1", within_s=600, limit=50),
    "a deletion": lambda c: jobs.remove(c, "job_1"),
    "jobs too old": lambda c: retention.count_ended(c, NOW - LONG, ()),
    "the first jobs too old": lambda c: retention.find_ended(c, NOW - DAY, (), after=None, limit=9),
    "more jobs too old": lambda c: retention.find_ended(c, NOW - DAY, (), after=EndedJob(NOW - 2 * DAY, "j"), limit=9),
    "failed jobs too old": lambda c: retention.find_ended(c, NOW - DAY, ("failed",), after=None, limit=9),
    "a removal": lambda c: retention.remove_ended(c, ["job_1", "job_2"], NOW - DAY),
    "calls of drafts too old": lambda c: retention.count_jobless(c, NOW - DAY),
    "a removal of calls of drafts": lambda c: retention.remove_jobless(c, NOW - DAY, limit=9),
    "live steps": metrics.live_steps,
    "jobs that ended lately": lambda c: metrics.ended_jobs(c, within_s=300),
    "calls that ended lately": lambda c: metrics.closed_calls(c, within_s=300),
    "open calls": metrics.open_calls,
    "webhooks to send": metrics.deliveries,
    "running jobs for the overview": lambda c: overview.running(c, limit=8),
    "ended jobs for the overview": lambda c: overview.last_ended(c, limit=8),
    "whether a profile's version is kept": lambda c: profile_versions.is_stored(c, "criteria", "1"),
    "a profile's versions": lambda c: profile_versions.list_of(c, "criteria", limit=9),
    "what a version said": lambda c: profile_versions.texts_of(c, "criteria", "1"),
    "jobs that ended by hour": lambda c: overview.sum_up_ended(c, "hour", since=NOW - timedelta(hours=1)),
    "jobs that ended by day": lambda c: overview.sum_up_ended(c, "day", since=NOW - timedelta(hours=1)),
    "how many are queued and running": overview.count_live,
    "the oldest wait": overview.waiting_s,
    "steps in flight": overview.steps_in_flight,
    "lines of the newest jobs": lambda c: job_lists.page(c, JobFilter()),
    "lines of two statuses": lambda c: job_lists.page(c, JobFilter(statuses=("queued", "failed"))),
    "lines of the next page": lambda c: job_lists.page(c, JobFilter(after=(NOW, "job_1"))),
    "the same lines again": lambda c: job_lists.by_ids(c, ["job_1", "job_2"], newest_first=True),
    "places of jobs": lambda c: positions(c, JobFilter(model="openai:7")),
    **{f"all jobs by {sort}": lambda c, sort=sort: job_lists.page_by(c, sort, None, 50) for sort in SORTS},
    "jobs of a status by cost": lambda c: job_lists.search(c, JobFilter(statuses=("failed",), sort="cost")),
    "jobs with a word": lambda c: job_lists.search(
        c, JobFilter(words=("zebra",), created_after=NOW - timedelta(seconds=9))
    ),
    "evaluations of a label to rate": lambda c: ratings.latest_evaluations(c, JobFilter(metadata={"n": "77"})),
    "scores of jobs": lambda c: job_lists.scores(c, ["job_1", "job_2"]),
    "how many failed": lambda c: job_lists.count(c, JobFilter(statuses=("failed",)), most=100),
}


def test_no_statement_reads_a_whole_table(full: Database):
    found: dict[str, list[str]] = {}
    with full.write() as connection:
        if not full.is_sqlite:
            # PostgreSQL would read the empty tables from end to end: only `jobs` and `calls` have rows here
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        for name, run in STATEMENTS.items():
            with explained(connection) as plans:
                run(connection)
            assert plans, name
            found[name] = [line for plan in plans for line in whole_table_reads(plan)]
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_no_plan_depends_on_parameters(full: Database):
    """Workers let PostgreSQL plan a statement once for all parameters."""
    if full.is_sqlite:
        pytest.skip("SQLite always plans without the values of parameters")
    found: dict[str, list[str]] = {}
    with full.write() as connection:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        for name, run in STATEMENTS.items():
            with explained(connection, is_generic=True) as plans:
                run(connection)
            assert plans, name
            found[name] = [line for plan in plans for line in whole_table_reads(plan)]
    assert {name: lines for name, lines in found.items() if lines} == {}


def plan_of(database: Database, name: str) -> str:
    """Return the plans of the statements that have that name in `STATEMENTS`."""
    with database.write() as connection, explained(connection) as plans:
        STATEMENTS[name](connection)
    return "\n".join(plans)


def test_an_index_leads_to_the_place_of_a_page(full: Database):
    place = re.compile(r"\(created_at,\s*id\)\s*<|ROW\(created_at, .*id.*\) < ROW")
    found = {name: plan_of(full, name) for name in ("the next page", "lines of the next page")}
    assert {name: plan for name, plan in found.items() if not place.search(plan)} == {}


def test_the_sweeper_looks_at_open_jobs_and_open_calls_only(full: Database):
    names = ["the oldest wait", "live steps", "what is overdue", "a shutdown", "what is due"]
    found = {name: plan_of(full, name) for name in names}
    assert {name: plan for name, plan in found.items() if "ix_jobs_open" not in plan} == {}
    assert "ix_calls_started" in plan_of(full, "abandoned calls")


RECENT = ["jobs too old", "the first jobs too old", "more jobs too old"]
RECENT += ["jobs that ended lately", "jobs that ended by hour", "jobs that ended by day", "calls that ended lately"]


@pytest.mark.parametrize("state", ["analyzed", "as made"])
def test_pruning_and_metrics_look_only_at_the_time_they_tell_of(full: Database, state: str):
    if state == "as made":
        forget_statistics(full)
    found = {name: plan_of(full, name) for name in RECENT}
    assert {name: plan for name, plan in found.items() if not uses_the_time(plan, name, full)} == {}


def uses_the_time(plan: str, name: str, database: Database) -> bool:
    index = "ix_calls_finished" if "calls" in name else "ix_jobs_ended"
    used = rf"SEARCH {index[3:].partition('_')[0]} USING (COVERING )?INDEX {index} \(finished_at[<>]"
    if not database.is_sqlite:
        used = rf"{index}.*\n *Index Cond: .*finished_at [<>]"
    return re.search(used, plan) is not None


def forget_statistics(database: Database) -> None:
    """Remove the statistics of SQLite, as in a database that nobody has analyzed. PostgreSQL analyzes by itself."""
    if not database.is_sqlite:
        pytest.skip("PostgreSQL keeps its own")
    with database.write() as connection:
        connection.exec_driver_sql("DELETE FROM sqlite_stat1")
        connection.exec_driver_sql("ANALYZE sqlite_schema")


def test_the_plan_check_itself_sees_a_whole_table_read(full: Database):
    with full.read() as connection, explained(connection) as plans:
        connection.execute(text("SELECT * FROM jobs WHERE request_hash = 'x'"))
    assert whole_table_reads(plans[0])


def test_no_change_repeats_a_query_with_a_limit_for_each_of_its_rows(full: Database):
    """PostgreSQL may repeat the query before it has statistics: with thousands of open calls, a sweep took 30 s."""
    repeated = re.compile(r"^\s*(?:UPDATE|DELETE)\b.*\bIN \(\s*SELECT\b.*\bLIMIT\b", re.DOTALL)
    sent: dict[str, list[str]] = {}
    with full.write() as connection:
        for name, run in STATEMENTS.items():
            statements = sent[name] = list[str]()

            def note(_conn: Any, _cursor: Any, statement: str, *_: Any, statements: list[str] = statements) -> None:
                statements.append(statement)

            event.listen(connection.engine, "before_cursor_execute", note)
            run(connection)
            event.remove(connection.engine, "before_cursor_execute", note)
    assert all(sent.values())
    assert {name for name, statements in sent.items() if any(map(repeated.match, statements))} == set()
