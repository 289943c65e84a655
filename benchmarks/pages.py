"""Measures the response times of pages, with 100,000 jobs on SQLite and a million jobs on PostgreSQL."""

import statistics
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from pydantic import SecretStr
from pydantic_core import to_json
from sqlalchemy import text

from api.app import create_app
from redraft.domain.jobs.requests import GenerateAnswer, dump
from redraft.operations.cursors import Placed, write_cursor
from redraft.settings import Settings
from redraft.storage.engine import schema
from redraft.storage.engine.unit_of_work import Database
from tests.support.api_server import ApiServer
from tests.support.valkey import ValkeyServer

_ROUNDS = 30
_ROWS_AT_ONCE = 20_000
_TASK = "Explain in two sentences why the sky is blue, part NUMBER. " + "The reader knows no physics. " * 20
_REQUEST = to_json(
    dump(GenerateAnswer(instruct=_TASK, eval_crit="Names scattering.", model="openai:w", evaluator_model="openai:j"))
).decode()
_RESULT = '{"final_answer":"Blue light is scattered most.","success":true,"final_score":0.9}'
# One job per second, newest last. One job in ten has a history; all of the newest jobs have one.
_JOBS = """
INSERT INTO jobs (id, kind, status, stop_reason, created_at, started_at, finished_at, deadline_at, request, metadata,
    warnings, model, evaluator_model, request_hash, step, step_no, step_attempt, step_claims, available_at, ring_count,
    lease_token, lost_leases, iteration, iteration_limit, first_iteration, continuations, best_score, best_iteration,
    result, calls, input_tokens, cached_input_tokens, output_tokens, cost_nano_usd, unpriced_calls, event_seq, version)
SELECT {id}, 'generate_answer', {status}, {reason}, {at}, {at}, CASE WHEN n % 10000 = 0 THEN NULL ELSE {at} END, {at},
    replace(:request, 'NUMBER', {number}), {metadata}, '[]', {model}, 'openai:judge', {hash}, 'evaluate', 6, 0, 0,
    {at}, 0, 0, 0, 3, 3, 1, 0, 0.9, 3, :result, 6, 3000, 0, 900, 4120000, 0, 9, 9
FROM {series}
"""
_ITERATIONS = """
INSERT INTO iterations (id, job_id, number, candidate, generator_model, answer, created_at)
SELECT replace({id}, 'job_', 'itr_') || k.k, {id}, k.k, 1, 'openai:writer', :answer, {at}
FROM {series}, (SELECT 1 AS k UNION SELECT 2 UNION SELECT 3) AS k WHERE n % 10 = 0 OR n > :count - 500
"""
_EVALUATIONS = """
INSERT INTO evaluations (id, job_id, iteration_id, role, status, score, passed, reasoning, suggestions, profile,
    created_at)
SELECT replace({id}, 'job_', 'eval_') || k.k, {id}, replace({id}, 'job_', 'itr_') || k.k, 'loop', 'ok', 0.3 * k.k,
    k.k = 3, :answer, '[]', 'criteria', {at}
FROM {series}, (SELECT 1 AS k UNION SELECT 2 UNION SELECT 3) AS k WHERE n % 10 = 0 OR n > :count - 500
"""
_COMMON = {
    "status": "CASE WHEN n % 10000 = 0 THEN 'queued' WHEN n % 20 = 1 THEN 'failed' ELSE 'succeeded' END",
    "reason": "CASE WHEN n % 10000 = 0 THEN NULL WHEN n % 20 = 1 THEN 'error' WHEN n % 3 = 0 THEN 'iteration_limit' "
    "ELSE 'accepted' END",
    "model": "CASE WHEN n % 5000 = 0 THEN 'openai:rare' ELSE 'openai:writer' END",
}
_SQLITE = {
    "id": "'job_' || printf('%032x', n)",
    "number": "CAST(n AS TEXT)",
    "hash": "printf('%064x', n)",
    "at": "strftime('%Y-%m-%dT%H:%M:%fZ', '2026-01-01', n || ' seconds')",
    "metadata": """'{"team":"' || (n % 50) || '","row":"' || n || '"}'""",
    "series": "(WITH RECURSIVE s(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM s WHERE n < :last) "
    "SELECT n FROM s) AS s",
}
_POSTGRESQL = {
    "id": "'job_' || lpad(to_hex(n), 32, '0')",
    "number": "n::text",
    "hash": "lpad(to_hex(n), 64, '0')",
    "at": "timestamptz '2026-01-01 00:00:00Z' + n * interval '1 second'",
    "metadata": "jsonb_build_object('team', (n % 50)::text, 'row', n::text)",
    "series": "generate_series(CAST(:first AS int), CAST(:last AS int)) AS s(n)",
}


class _Place(Placed):
    def __init__(self, number: int) -> None:
        self._number = number

    @property
    def id(self) -> str:
        return job_id(self._number)

    @property
    def created_at(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._number)


def job_id(number: int) -> str:
    return f"job_{number:032x}"


def measure_pages(valkey: ValkeyServer, count: int, *, database_url: str = "") -> dict[str, tuple[float, float]]:
    """Return the median and the maximum response time in ms, by page. An empty URL means SQLite."""
    with TemporaryDirectory() as folder, _served(Path(folder), valkey, count, database_url) as api:
        client = api.client(headers={"Accept": "text/html"})
        return {name: _measure(lambda path=path: client.get(path).raise_for_status()) for name, path in _paths(count)}


def _paths(count: int) -> list[tuple[str, str]]:
    deep = quote(write_cursor([_Place(count // 2)], more=True) or "")
    shown = ".".join(f"{count - at:032x}" for at in range(50))
    return [
        ("/jobs", "/jobs"),
        ("… as it looks again", f"/jobs?shown={shown}"),
        ("… in the middle", f"/jobs?after={deep}"),
        ("… failed", "/jobs?status=failed"),
        ("… live", "/jobs?status=queued&status=running"),
        ("… of a stop reason", "/jobs?stop_reason=accepted"),
        ("… of a rare model", "/jobs?model=openai%3Arare"),
        ("… with a common label", "/jobs?metadata.team=7"),
        ("… with a label of one job", "/jobs?metadata.row=77"),
        ("… none of a kind", "/jobs?kind=evaluate_answer"),
        ("delete all, asked", "/jobs/bulk?do=delete&filters="),
        ("/new", "/new"),
        ("/new from a job", f"/new?from={job_id(count - 1)}"),
        ("/jobs/ID", f"/jobs/{job_id(count - 1)}"),
    ]


@contextmanager
def _served(folder: Path, valkey: ValkeyServer, count: int, database_url: str) -> Generator[ApiServer]:
    settings = Settings(
        _env_file=None,  # pyright: ignore[reportCallIssue]
        data_dir=folder,
        database_url=database_url or f"sqlite:///{folder}/redraft.db",
        broker_url=valkey.url,
        openai_api_key=SecretStr("none"),
        log_level="WARNING",
    )
    database = Database(settings.database_url)
    schema.upgrade(database)
    _fill(database, count)
    database.close()
    api = ApiServer(create_app(settings)).start()
    try:
        yield api
    finally:
        api.close()


def _fill(database: Database, count: int) -> None:
    words = {**_COMMON, **(_SQLITE if database.is_sqlite else _POSTGRESQL)}
    given = {"count": count, "request": _REQUEST, "result": _RESULT, "answer": "Blue light is scattered most. " * 20}
    for first in range(1, count + 1, _ROWS_AT_ONCE):
        for statement in (_JOBS, _ITERATIONS, _EVALUATIONS):
            filled = statement.format(**words)
            part = {**given, "first": first, "last": min(count, first + _ROWS_AT_ONCE - 1)}
            with database.write() as connection:
                connection.execute(text(filled), {name: part[name] for name in part if f":{name}" in filled})
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in ("ANALYZE",) if database.is_sqlite else ("SET statement_timeout = 0", "VACUUM ANALYZE"):
            connection.exec_driver_sql(statement)


def _measure(ask: object) -> tuple[float, float]:
    assert callable(ask)
    found: list[float] = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        ask()
        found.append((time.perf_counter() - start) * 1000)
    return statistics.median(found), max(found)
