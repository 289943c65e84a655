"""No query of the lists, the sweeper or a step reads a whole table: EXPLAIN says so on both databases."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, text

from redraft.domain.jobs.ids import new_id
from redraft.storage.admin import metrics, overview, profile_versions, ratings, retention, usage
from redraft.storage.admin.retention import EndedJob
from redraft.storage.admin.usage import UsageFilter
from redraft.storage.bulk import run_listing
from redraft.storage.engine import query_parts
from redraft.storage.engine.tables import calls as calls_table
from redraft.storage.engine.tables import jobs as table
from redraft.storage.engine.tables import metadata
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import calls, due_steps, events, history, job_lists, jobs, step_claims, transitions, webhooks
from redraft.storage.jobs.job_filters import JobFilter, Sort, positions
from redraft.storage.jobs.jobs import JobRecord
from tests.storage.conftest import job_values
from tests.support.databases.postgres import PostgresServer
from tests.support.databases.sqlite import create_sqlite

pytestmark = pytest.mark.both_databases

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
# So long ago that few have ended before it: of many, PostgreSQL rather reads the table.
LONG = timedelta(hours=28)
MANY = 1800


def fill(database: Database) -> None:
    """Thousands of jobs and calls that have ended, a few that have not."""
    rows = [
        job_values(
            created_at=NOW - timedelta(seconds=n),
            deadline_at=NOW,
            available_at=NOW,
            metadata={"n": str(n)},
            status="succeeded" if n % 600 else "queued",
            stop_reason="accepted" if n % 600 else None,
            finished_at=NOW - timedelta(minutes=n) if n % 600 else None,
            model=f"openai:{n % 50}",
            best_score=n % 101 / 101 if n % 3 else None,
            cost_nano_usd=n * 7919 % 1009,
        )
        for n in range(MANY)
    ]
    ledger = [
        {
            "id": new_id("call"),
            "job_id": rows[n]["id"],
            "type": "generate",
            "step": "generate",
            "iteration": 1,
            "candidate": 1,
            "seq": 0,
            "attempt": 1,
            "lease_token": 1,
            "provider": "openai",
            "model": "openai:writer",
            "request": {},
            "status": "ok" if n % 600 else "started",
            "started_at": NOW - timedelta(seconds=n),
            "finished_at": NOW - timedelta(minutes=n) if n % 600 else None,
        }
        for n in range(MANY)
    ]
    with database.write() as connection:
        connection.execute(insert(table), rows)
        connection.execute(insert(calls_table), ledger)
    # PostgreSQL vacuums by itself after some seconds, and then makes other plans
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE" if database.is_sqlite else "VACUUM ANALYZE")


@pytest.fixture(scope="module")
def filled_sqlite(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("filled") / "redraft.db"
    with closing(Database(create_sqlite(file))) as database:
        fill(database)
    return file.read_bytes()


@pytest.fixture(scope="module")
def filled_postgres(postgres: PostgresServer) -> Iterator[str]:
    name = postgres.create_database()
    with closing(Database(postgres.url_of(name))) as database:
        fill(database)
    yield name
    postgres.drop_database(name)


@pytest.fixture
def full(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[Database]:
    """A copy of a filled database: to fill one takes twenty times as long."""
    if database_url.startswith("sqlite"):
        (tmp_path / "full.db").write_bytes(request.getfixturevalue("filled_sqlite"))
        with closing(Database(f"sqlite:///{tmp_path / 'full.db'}")) as database:
            yield database
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = server.create_database(template=request.getfixturevalue("filled_postgres"))
    with closing(Database(server.url_of(name))) as database:
        yield database
    server.drop_database(name)


@contextmanager
def explained(connection: Connection, *, is_generic: bool = False) -> Iterator[list[str]]:
    """The plans of all statements that are executed meanwhile; if `is_generic`, those without values of parameters."""
    plans: list[str] = []
    prefix = "EXPLAIN QUERY PLAN " if connection.dialect.name == "sqlite" else "EXPLAIN "

    def explain(_conn: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith(("EXPLAIN", "BEGIN", "SET")):
            return
        if is_generic:
            cursor.execute(f"EXPLAIN (GENERIC_PLAN) {statement}", prepare=False)
        else:
            cursor.execute(prefix + statement, parameters)
        plans.append("\n".join(str(row[-1]) for row in cursor.fetchall()))

    event.listen(connection.engine, "before_cursor_execute", explain)
    try:
        yield plans
    finally:
        event.remove(connection.engine, "before_cursor_execute", explain)


_SCAN = rf"SCAN ({'|'.join(metadata.tables)})\b"


def whole_table_reads(plan: str) -> list[str]:
    """Lines that read a table of ours from end to end without an index."""
    lines = [line.strip(" ->") for line in plan.splitlines()]
    return [line for line in lines if line.startswith("Seq Scan") or (re.match(_SCAN, line) and "INDEX" not in line)]


def _job(connection: Connection) -> JobRecord:
    record = jobs.get(connection, query_parts.latest_id(connection, table) or "")
    assert record is not None
    return record


SORTS: tuple[Sort, ...] = ("best", "worst", "cost", "duration")

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
            # The tables beside `jobs` are empty here; PostgreSQL would read those from end to end.
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
    """The plans of the queries that are run under that name."""
    with database.write() as connection, explained(connection) as plans:
        STATEMENTS[name](connection)
    return "\n".join(plans)


def test_an_index_leads_to_the_place_of_a_page(full: Database):
    place = re.compile(r"\(created_at,\s*id\)\s*<|ROW\(created_at, .*id.*\) < ROW")
    found = {name: plan_of(full, name) for name in ("the next page", "lines of the next page")}
    assert {name: plan for name, plan in found.items() if not place.search(plan)} == {}


def test_few_jobs_of_a_kind_are_not_looked_for_among_all(full: Database):
    with full.write() as connection, explained(connection) as plans:
        for kind in ("evaluate_answer", "rescore_answers"):
            job_lists.page(connection, JobFilter(kind=kind))
            positions(connection, JobFilter(kind=kind, after=(NOW, "job_1"), newest_first=False))
    assert [plan for plan in plans if "ix_jobs_other_kinds" not in plan] == []
    assert len(plans) == 4


def test_jobs_of_an_outcome_are_found_in_its_index(full: Database):
    outcomes = ("failed", "not_accepted", "not_evaluated")
    with full.write() as connection:
        if not full.is_sqlite:
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        with explained(connection) as plans:
            job_lists.page(connection, JobFilter(outcomes=outcomes))
            positions(connection, JobFilter(outcomes=outcomes, after=(NOW, "job_1")))
            positions(connection, JobFilter(outcomes=outcomes, newest_first=False))
    # The continued jobs of each verdict are a query of their own
    assert len(plans) == 3 * 5
    assert [plan for plan in plans if "ix_jobs_outcome_created" not in plan] == []


def test_jobs_with_a_label_are_found_in_the_order_of_the_list(full: Database):
    with full.write() as connection, explained(connection) as plans:
        positions(connection, JobFilter(metadata={"n": "77"}))
        positions(connection, JobFilter(metadata={"n": "77"}, after=(NOW, "job_1")))
        positions(connection, JobFilter(metadata={"n": "77"}, newest_first=False))
    index = "job_labels USING PRIMARY KEY" if full.is_sqlite else "Index Only Scan.* using pk_job_labels"
    assert [plan for plan in plans if not re.search(index, plan) or re.search(r"Sort|B-TREE|\bjobs\b", plan)] == []
    assert len(plans) == 3


def test_jobs_with_labels_and_an_outcome_are_tested_in_the_order_of_the_label(full: Database):
    with full.write() as connection:
        if not full.is_sqlite:
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        with explained(connection) as plans:
            positions(connection, JobFilter(metadata={"n": "77"}, outcomes=("accepted",)))
    assert [plan for plan in plans if "job_labels" not in plan] == []
    # The first job of the label, the last one of its first jobs, and the page
    assert len(plans) == 3


@pytest.mark.parametrize("sort", SORTS)
def test_an_index_gives_the_order_of_all_jobs(full: Database, sort: Sort):
    with full.write() as connection:
        if not full.is_sqlite:
            # It is cheap to sort so few jobs
            connection.execute(text("SET LOCAL enable_sort = off"))
        with explained(connection) as plans:
            [row, *_] = job_lists.page_by(connection, sort, None, 50) or []
            job_lists.page_by(connection, sort, row.id, 50)
    first, next_page = plans[0], plans[3]
    assert f"ix_jobs_{sort}" in first
    assert re.search(rf"ix_jobs_{sort}.*(<|\n *Index Cond: .*<)", next_page)


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
    """As in a database that nobody has analyzed; PostgreSQL does that by itself."""
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
    """PostgreSQL may do so before it has statistics: with thousands of calls in flight a sweep took 30 s."""
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
