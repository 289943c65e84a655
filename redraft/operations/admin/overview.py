"""Collects the data of the overview page: running and ended jobs, workers, problems of the installation.

The number of queries is fixed, and each query uses an index.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from redraft.domain.calls.model_names import ModelRef, parse_model
from redraft.domain.jobs.states import outcome_of
from redraft.errors import Invalid
from redraft.operations.admin.readiness import Check, check_readiness
from redraft.operations.resource_base import cost_usd
from redraft.operations.services import Services
from redraft.providers.catalog import DEFAULT_LOCAL
from redraft.storage.admin import overview, workers
from redraft.storage.bulk import run_items, runs
from redraft.storage.bulk.runs import RunRecord
from redraft.storage.engine.columns import Period, database_time

_JOBS = 8
_RUNS = 5
_SUMMED = (
    *("ended", "succeeded", "failed", "canceled", "accepted", "not_evaluated"),
    *("cost_nano_usd", "unpriced_calls"),
)
_HISTORY: Mapping[Period, tuple[int, timedelta]] = {"hour": (24, timedelta(hours=1)), "day": (14, timedelta(days=1))}
_LABELS: Mapping[Period, str] = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d"}
_STARTER = {True: "redraft serve", False: "redraft worker"}


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of the installation, with a remedy. The problem blocks jobs unless `is_note` is true."""

    words: str
    remedy: str
    command: str = ""
    is_note: bool = False


_TINY = Problem(
    "No key of a provider is set, so the bundled tiny model generates answers. It is only suitable for a first try.",
    "Set OPENAI_API_KEY or ANTHROPIC_API_KEY, in the environment or in .env, and start Redraft again.",
    is_note=True,
)


@dataclass(frozen=True, slots=True)
class EndedJobs:
    """The jobs that ended in an hour or on a day, in UTC, by outcome.

    `succeeded` is the sum of the outcomes with an answer. `cost_usd` is None if the price of any call is unknown.
    """

    begin: datetime
    ended: int
    succeeded: int
    failed: int
    canceled: int
    accepted: int
    not_evaluated: int
    cost_usd: str | None

    @property
    def not_accepted(self) -> int:
        return self.succeeded - self.accepted - self.not_evaluated


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures at the top of the page. Today begins at midnight UTC.

    Attributes:
        oldest_wait_s: the longest time that a step of a queued job has been due; None if none is due.
        history: the ended jobs of each of the last hours or days, earliest first.
    """

    queued: int
    running: int
    oldest_wait_s: float | None
    today: EndedJobs
    history: Sequence[EndedJobs]


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run. `ended` is the number of ended items of a running run, and None for other runs."""

    run: RunRecord
    ended: int | None


@dataclass(frozen=True, slots=True)
class Activity:
    """Jobs, runs and workers. A job is a row of `storage/admin/overview.py` with `iteration_now` and `cost_usd`."""

    figures: Figures
    running: Sequence[Mapping[str, Any]]
    last_jobs: Sequence[Mapping[str, Any]]
    last_runs: Sequence[RunLine]
    workers: Sequence[Mapping[str, Any]]

    @property
    def is_new(self) -> bool:
        """Whether there is no job and no run."""
        return not (self.running or self.last_jobs or self.last_runs or self.figures.queued)


@dataclass(frozen=True, slots=True)
class Overview:
    """The whole page; `activity` is None while the database cannot be used."""

    problems: Sequence[Problem]
    checks: Sequence[Check]
    activity: Activity | None


def view_overview(services: Services, period: Period = "hour") -> Overview:
    """Collect the data of the page. Its charts show the last 24 hours or the last 14 days."""
    checks = check_readiness(services)
    # The queries of the page fail if the schema is missing, and the page must still name the problem
    can_read = all(check.is_ready for check in checks if check.name in {"database", "migrations"})
    # Unready parts come first, since they block all jobs
    problems = [_problem_of(services, check) for check in checks if not check.is_ready] + _model_problems(services)
    return Overview(problems, checks, _activity(services, period) if can_read else None)


def _problem_of(services: Services, check: Check) -> Problem:
    starter = _STARTER[services.settings.is_embedded_broker]
    remedies = {
        "database": ("Check that the database runs and that REDRAFT_DATABASE_URL names it.", "redraft doctor"),
        "migrations": ("Upgrade the schema.", "redraft db upgrade"),
        "workers": ("Jobs wait until one is started.", starter),
        "broker": ("Check that the broker runs and that REDRAFT_BROKER_URL names it.", "redraft doctor"),
    }
    remedy, command = remedies[check.name]
    words = "No worker is alive." if check.name == "workers" else check.detail
    return Problem(words, remedy, command)


def _model_problems(services: Services) -> list[Problem]:
    settings = services.settings
    named: dict[str, Callable[[], ModelRef]] = {"REDRAFT_MODEL": services.providers.default_model}
    if settings.evaluator_model:
        named["REDRAFT_EVALUATOR_MODEL"] = lambda: parse_model(settings.evaluator_model, "/evaluator_model")
    found: list[Problem] = []
    for setting, read in named.items():
        try:
            services.providers.check_configured(read(), "/model")
        except Invalid as error:
            remedy = f"Then start Redraft again. {setting}=provider:name chooses another model."
            found.append(Problem(error.message, remedy, "redraft models"))
    if not found and services.providers.default_model() == DEFAULT_LOCAL and not settings.local_model:
        return [_TINY]
    return found


def list_workers(services: Services) -> list[dict[str, Any]]:
    """List the workers that are alive. `in_flight` is the number of steps that a worker executes."""
    with services.database.read() as connection:
        return _workers(connection, services)


def _workers(connection: Connection, services: Services) -> list[dict[str, Any]]:
    in_flight = overview.steps_in_flight(connection)
    alive = workers.alive(connection, within_s=3 * services.settings.heartbeat_s)
    return [{**each, "in_flight": in_flight.get(each["id"], 0)} for each in alive]


def _activity(services: Services, period: Period) -> Activity:
    with services.database.read() as connection:
        return Activity(
            figures=_figures(connection, period),
            running=[_job_line(row) for row in overview.running(connection, limit=_JOBS)],
            last_jobs=[_job_line(row) for row in overview.last_ended(connection, limit=_JOBS)],
            last_runs=_runs(connection),
            workers=_workers(connection, services),
        )


def _job_line(row: Mapping[str, Any]) -> dict[str, Any]:
    # The row counts only finished iterations, so the iteration that is being generated is added
    iteration_now = row["iteration"] + (row["step"] == "generate")
    is_evaluated = row["best_score"] is not None
    outcome = outcome_of(row["status"], is_accepted=bool(row["is_accepted"]), is_evaluated=is_evaluated)
    return {
        **row,
        "outcome": outcome,
        "iteration_now": iteration_now,
        "cost_usd": cost_usd(row["cost_nano_usd"], row["unpriced_calls"]),
    }


def _figures(connection: Connection, period: Period) -> Figures:
    now = database_time(connection, ago_s=0).astimezone(UTC)
    number, span = _HISTORY[period]
    last = now.replace(hour=0 if period == "day" else now.hour, minute=0, second=0, microsecond=0)
    begins = [last - span * ago for ago in reversed(range(number))]
    rows = {row["period"]: row for row in overview.sum_up_ended(connection, period, since=begins[0])}
    found = [(begin, rows.get(begin.strftime(_LABELS[period]))) for begin in begins]
    # Both spans contain all of today
    today = [row for begin, row in found if row and begin.date() == now.date()]
    live = overview.count_live(connection)
    return Figures(
        queued=live.get("queued", 0),
        running=live.get("running", 0),
        oldest_wait_s=overview.waiting_s(connection),
        today=_ended(last.replace(hour=0), today),
        history=[_ended(begin, [row] if row else []) for begin, row in found],
    )


def _ended(begin: datetime, rows: Sequence[Mapping[str, Any]]) -> EndedJobs:
    sums = {name: sum(row[name] for row in rows) for name in _SUMMED}
    cost = cost_usd(sums.pop("cost_nano_usd"), sums.pop("unpriced_calls"))
    return EndedJobs(begin, **sums, cost_usd=cost)


def _runs(connection: Connection) -> list[RunLine]:
    records = runs.list_page(connection, after=None, limit=_RUNS)[:_RUNS]
    # Counting is slow, and the counts of ended runs are not shown
    counts = run_items.count(connection, [run.id for run in records if run.status == "running"])
    ended = {
        run_id: sum(number for status, number in by_status.items() if status not in {"queued", "running"})
        for run_id, by_status in counts.items()
    }
    return [RunLine(run, ended.get(run.id)) for run in records]
