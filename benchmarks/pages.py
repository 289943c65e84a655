"""Measures the response times of pages, with 100,000 jobs on SQLite and a million jobs on PostgreSQL."""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from io import BytesIO
from tempfile import TemporaryDirectory
from urllib.parse import quote

from pydantic_core import to_json
from sqlalchemy import text

from api.app import create_app
from benchmarks.contenders import await_listeners, processes
from benchmarks.loads import CRITERIA, task_of
from benchmarks.parts import model_server, settings_for
from redraft.domain.bulk.run_requests import CreateRun
from redraft.domain.evaluation.rubrics import CriterionResult
from redraft.domain.jobs.requests import GenerateAnswer, dump
from redraft.operations.bulk import datasets, runs
from redraft.operations.cursors import write_cursor
from redraft.runtime import build_runtime
from redraft.settings import Settings
from redraft.storage.engine import schema
from redraft.storage.engine.unit_of_work import Database
from tests.support.api_server import ApiServer
from tests.support.processes import environment_of
from tests.support.valkey import ValkeyServer

_ROUNDS = 15
# The run that the worker executes while the pages of SQLite are measured
_ROWS = 2000
_IN_FLIGHT = 16
_ROWS_AT_ONCE = 20_000
_TASK = "Explain in two sentences why the sky is blue, part NUMBER. " + "The reader knows no physics. " * 20
_REQUEST = to_json(
    dump(GenerateAnswer(instruct=_TASK, eval_crit="Names scattering.", model="openai:w", evaluator_model="openai:j"))
).decode()
_NAMES = ("correct", "brief", "example", "tone")
_MET, _NOT_MET = (
    to_json(
        [
            asdict(
                CriterionResult(name, f"The answer is {name}.", "binary", 1, False, False, 1, name != failed, "Blue")
            )
            for name in _NAMES
        ]
    ).decode()
    for failed in ("", "brief")
)
_RESULT = '{"final_answer":"Blue light is scattered most.","success":true,"final_score":0.9}'
_CRITERIA_OF = (
    ("", ""),
    (" with a label", "?metadata.team=7"),
    (" with an old label", "?metadata.old=1"),
    (" of an outcome", "?outcome=not_accepted"),
    (" with a word", "?q=sky"),
)
# One job per second, the newest last. One job in ten and the 500 newest jobs have iterations and evaluations.
_JOBS = """
INSERT INTO jobs (id, kind, status, stop_reason, created_at, started_at, finished_at, deadline_at, request, metadata,
    warnings, model, evaluator_model, request_hash, step, step_no, step_attempt, step_claims, available_at, ring_count,
    lease_token, lost_leases, iteration, iteration_limit, first_iteration, continuations, best_score, best_iteration,
    result, calls, input_tokens, cached_input_tokens, output_tokens, cost_nano_usd, unpriced_calls, event_seq, version)
SELECT {id}, 'generate_answer', {status}, {reason}, {at}, {at}, CASE WHEN n % 10000 = 0 THEN NULL ELSE {ended} END,
    {at}, replace(:request, 'NUMBER', {number}), {metadata}, '[]', {model}, 'openai:judge', {hash}, 'evaluate', 6, 0, 0,
    {at}, 0, 0, 0, 3, 3, 1, 0, {score}, 3, :result, 6, 3000, 0, 900, 1000 * (n * 7919 % 100003), 0, 9, 9
FROM {series}
"""
_ITERATIONS = """
INSERT INTO iterations (id, job_id, number, candidate, generator_model, answer, created_at)
SELECT replace({id}, 'job_', 'itr_') || k.k, {id}, k.k, 1, 'openai:writer', :answer, {at}
FROM {series}, (SELECT 1 AS k UNION SELECT 2 UNION SELECT 3) AS k WHERE n % 10 = 0 OR n > :count - 500
"""
_EVALUATIONS = """
INSERT INTO evaluations (id, job_id, iteration_id, role, status, score, passed, reasoning, suggestions, profile,
    evaluator_model, criteria, created_at)
SELECT replace({id}, 'job_', 'eval_') || k.k, {id}, replace({id}, 'job_', 'itr_') || k.k, 'loop', 'ok', 0.3 * k.k,
    k.k = 3, :answer, '[]', 'criteria', 'openai:judge', CASE WHEN n / 10 % 4 = 0 THEN :not_met ELSE :met END, {at}
FROM {series}, (SELECT 1 AS k UNION SELECT 2 UNION SELECT 3) AS k WHERE n % 10 = 0 OR n > :count - 500
"""
_COMMON = {
    "status": "CASE WHEN n % 10000 = 0 THEN 'queued' WHEN n % 20 = 1 THEN 'failed' ELSE 'succeeded' END",
    "reason": "CASE WHEN n % 10000 = 0 THEN NULL WHEN n % 20 = 1 THEN 'error' WHEN n % 3 = 0 THEN 'iteration_limit' "
    "ELSE 'accepted' END",
    "score": "CASE WHEN n % 50 = 2 THEN NULL ELSE n * 7919 % 1009 / 1009.0 END",
    "model": "CASE WHEN n % 5000 = 0 THEN 'openai:rare' ELSE 'openai:writer' END",
}
_SQLITE = {
    "id": "'job_' || printf('%032x', n)",
    "number": "CAST(n AS TEXT)",
    "hash": "printf('%064x', n)",
    "at": "strftime('%Y-%m-%dT%H:%M:%fZ', '2026-01-01', n || ' seconds')",
    "ended": "strftime('%Y-%m-%dT%H:%M:%fZ', '2026-01-01', (n + n * 7919 % 1201) || ' seconds')",
    "metadata": """'{"env":"prod","team":"' || (n % 50) || '","row":"' || n || '","old":"' || """
    """(n < :count / 2) || '","cohort":"' || (n * 50 / (:count + 1)) || '"}'""",
    "series": "(WITH RECURSIVE s(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM s WHERE n < :last) "
    "SELECT n FROM s) AS s",
}
_POSTGRESQL = {
    "id": "'job_' || lpad(to_hex(n), 32, '0')",
    "number": "n::text",
    "hash": "lpad(to_hex(n), 64, '0')",
    "at": "timestamptz '2026-01-01 00:00:00Z' + n * interval '1 second'",
    "ended": "timestamptz '2026-01-01 00:00:00Z' + (n + n * 7919 % 1201) * interval '1 second'",
    "metadata": "jsonb_build_object('env', 'prod', 'team', (n % 50)::text, 'row', n::text, "
    "'old', (n < :count / 2)::int::text, 'cohort', (n * 50 / (:count + 1))::text)",
    "series": "generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS s(n)",
}


def _time_of(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)


def job_id(number: int) -> str:
    return f"job_{number:032x}"


def measure_pages(
    valkey: ValkeyServer, count: int, *, database_url: str = "", call_s: float = 0.0
) -> dict[str, tuple[float, float, float]]:
    """Return the minimum, median and maximum response time in ms, by page. An empty URL means SQLite.

    If `call_s` is not 0, a worker executes a run at the same time, and each of its calls takes `call_s` seconds.
    """
    with TemporaryDirectory() as folder, model_server(call_s) as url:
        settings = settings_for(folder, url, valkey, database_url or f"sqlite:///{folder}/redraft.db")
        database = Database(settings.database_url)
        schema.upgrade(database)
        _fill(database, count)
        database.close()
        api = ApiServer(create_app(settings)).start()
        try:
            with _busy_run(settings) if call_s else nullcontext("") as run_id:
                client = api.client(headers={"Accept": "text/html"})
                paths = [*_paths(count), *_run_paths(run_id)]
                return {name: _measure(lambda path=path: client.get(path).raise_for_status()) for name, path in paths}
        finally:
            api.close()


@contextmanager
def _busy_run(settings: Settings) -> Iterator[str]:
    """Let a worker execute a run with `_IN_FLIGHT` calls in flight. Yields the id of the run."""
    with processes([[sys.executable, "-m", "worker"]], environment_of(settings)):
        await_listeners(settings.broker_url, 1)
        services = build_runtime(settings)
        lines = "".join(json.dumps({"custom_id": str(n), "instruct": task_of(n)}) + "\n" for n in range(_ROWS))
        dataset, _ = datasets.import_dataset(services, BytesIO(lines.encode()), "load.jsonl")
        body = CreateRun(dataset_id=dataset.id, defaults={"eval_crit": CRITERIA}, max_in_flight=_IN_FLIGHT)
        yield runs.create_run(services, body)[0].id
        services.close()


def _paths(count: int) -> list[tuple[str, str]]:
    deep = quote(write_cursor(_time_of(count // 2), job_id(count // 2)))
    shown = ".".join(f"{count - at:032x}" for at in range(50))
    with_history = job_id(count // 10 * 10 - 10)
    return [
        ("/", "/"),
        ("/jobs", "/jobs"),
        ("… as it looks again", f"/jobs?shown={shown}"),
        ("… in the middle", f"/jobs?after={deep}"),
        *(
            (f"… {outcome}", f"/jobs?outcome={outcome}")
            for outcome in ("failed", "accepted", "not_accepted", "canceled")
        ),
        ("… of two outcomes", "/jobs?outcome=failed&outcome=not_evaluated"),
        ("… live", "/jobs?status=queued&status=running"),
        ("… of a stop reason", "/jobs?stop_reason=accepted"),
        ("… of a rare model", "/jobs?model=openai%3Arare"),
        ("… with a common label", "/jobs?metadata.team=7"),
        ("… with a label of all jobs", "/jobs?metadata.env=prod"),
        ("… with a label of the older half", "/jobs?metadata.old=1"),
        ("… with a label of the oldest 2%", "/jobs?metadata.cohort=0"),
        ("… with a label of one job", "/jobs?metadata.row=77"),
        ("… with a label of no job", "/jobs?metadata.row=none"),
        ("… failed, with a label", "/jobs?metadata.team=1&outcome=failed"),
        ("… none of a kind", "/jobs?kind=evaluate_answer"),
        ("… with a word of all jobs", "/jobs?q=sky"),
        ("… with a word of no job", "/jobs?q=zebra"),
        ("… with a word of no job, failed", "/jobs?q=zebra&outcome=failed"),
        ("… with a word of no job and a label", "/jobs?q=zebra+team%3D7"),
        ("… that do not meet a criterion", "/jobs?not_met=brief"),
        ("… that do not meet a criterion, with a label", "/jobs?not_met=brief&metadata.team=7"),
        ("… that do not meet an unknown criterion", "/jobs?not_met=none"),
        ("… with two labels of old jobs", "/jobs?metadata.old=1&metadata.team=7"),
        ("… accepted, with a label of the older half", "/jobs?metadata.old=1&outcome=accepted"),
        ("… accepted, with a label of the oldest 2%", "/jobs?metadata.cohort=0&outcome=accepted"),
        *((f"… all by {sort}", f"/jobs?sort={sort}") for sort in ("best", "worst", "cost", "duration")),
        ("… all by cost, in the middle", f"/jobs?sort=cost&after={deep}"),
        ("… accepted, by cost", "/jobs?sort=cost&outcome=accepted"),
        ("… with a label, by cost", "/jobs?sort=cost&metadata.team=7"),
        *((f"/jobs/criteria{words}", f"/jobs/criteria{query}") for words, query in _CRITERIA_OF),
        ("delete all, asked", "/jobs/bulk?do=delete&filters="),
        ("/new", "/new"),
        ("/new from a job", f"/new?from={job_id(count - 1)}"),
        ("/jobs/ID", f"/jobs/{with_history}"),
        *((f"/jobs/ID/{tab}", f"/jobs/{with_history}/{tab}") for tab in ("iterations", "calls", "events", "request")),
        ("/ratings", "/ratings"),
        ("… with a label", "/ratings?label=team%3D7"),
        ("/settings", "/settings"),
    ]


def _run_paths(run_id: str) -> list[tuple[str, str]]:
    pages = ["/runs", "/runs/new", "/datasets", f"/runs/{run_id}", f"/runs/{run_id}/items"] if run_id else []
    return [(path.replace(run_id, "ID"), path) for path in pages]


def _fill(database: Database, count: int) -> None:
    words = {**_COMMON, **(_SQLITE if database.is_sqlite else _POSTGRESQL)}
    given = {
        "met": _MET,
        "not_met": _NOT_MET,
        "count": count,
        "request": _REQUEST,
        "result": _RESULT,
        "answer": "Blue light is scattered most. " * 20,
    }
    for first in range(1, count + 1, _ROWS_AT_ONCE):
        for statement in (_JOBS, _ITERATIONS, _EVALUATIONS):
            filled = statement.format(**words)
            part = {**given, "first": first, "last": min(count, first + _ROWS_AT_ONCE - 1)}
            with database.write() as connection:
                connection.execute(text(filled), {name: part[name] for name in part if f":{name}" in filled})
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in ("ANALYZE",) if database.is_sqlite else ("SET statement_timeout = 0", "VACUUM ANALYZE"):
            connection.exec_driver_sql(statement)


def _measure(ask: Callable[[], object]) -> tuple[float, float, float]:
    found: list[float] = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        ask()
        found.append((time.perf_counter() - start) * 1000)
    return min(found), statistics.median(found), max(found)
