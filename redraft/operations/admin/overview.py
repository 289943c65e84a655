"""The overview page: running jobs, the results of today, workers, and problems of the installation.

It makes a fixed number of short queries, each from an index.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection

from redraft.domain.calls.models import ModelRef, parse_model
from redraft.errors import Invalid
from redraft.operations.admin.health import Check, check_readiness
from redraft.operations.resource_base import cost_usd
from redraft.operations.services import Services
from redraft.providers.catalog import DEFAULT_LOCAL
from redraft.storage.admin import overview, workers
from redraft.storage.bulk import run_items, runs
from redraft.storage.bulk.runs import RunRecord
from redraft.storage.engine.columns import moment

_ROWS = 8
_STARTER = {True: "redraft serve", False: "redraft worker"}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A problem that blocks jobs, or a note about one that does not, with its remedy."""

    words: str
    remedy: str
    command: str = ""
    is_note: bool = False


_TINY = Trouble(
    "No key of a provider is set, so the bundled tiny model writes: for trying out only.",
    "Set OPENAI_API_KEY or ANTHROPIC_API_KEY, in the environment or in .env, and start Redraft again.",
    is_note=True,
)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures at the top of the page.

    Attributes:
        oldest_wait_s: the longest time that a step of a queued job has been due; None if none is due.
        ended_today: the jobs that ended since midnight UTC, like all following figures.
        cost_today: the cost of these jobs in USD; None if the price of any call is unknown.
    """

    queued: int
    running: int
    oldest_wait_s: float | None
    ended_today: int
    succeeded_today: int
    failed_today: int
    canceled_today: int
    accepted_today: int
    cost_today: str | None

    @property
    def accepted_percent(self) -> int | None:
        """The share of accepted jobs, rounded down, since 99.9 % must not read as all; None without jobs."""
        return 100 * self.accepted_today // self.succeeded_today if self.succeeded_today else None


@dataclass(frozen=True, slots=True)
class Worker:
    """A live worker, and the number of its steps in flight."""

    id: str
    host: str
    pid: int
    version: str
    concurrency: int
    in_flight: int
    started_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class JobLine:
    """One line about a job; `task` is the beginning of its instruction."""

    id: str
    kind: str
    status: str
    stop_reason: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    model: str | None
    step: str
    iteration: int
    iteration_limit: int
    best_score: float | None
    cost_nano_usd: int
    unpriced_calls: int
    task: str
    score_threshold: float
    is_accepted: bool

    @property
    def iteration_now(self) -> int:
        """The iteration that is being worked on."""
        return self.iteration + (self.step == "generate")

    @property
    def cost_usd(self) -> str | None:
        return None if self.unpriced_calls else cost_usd(self.cost_nano_usd)


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run; `ended` is the number of ended items while it is running, otherwise None."""

    run: RunRecord
    ended: int | None


@dataclass(frozen=True, slots=True)
class Activity:
    figures: Figures
    running: Sequence[JobLine]
    last_jobs: Sequence[JobLine]
    last_runs: Sequence[RunLine]
    workers: Sequence[Worker]

    @property
    def is_new(self) -> bool:
        """Whether there is no job and no run."""
        return not (self.running or self.last_jobs or self.last_runs or self.figures.queued)


@dataclass(frozen=True, slots=True)
class Overview:
    """The whole page; `activity` is None while the database cannot be used."""

    troubles: Sequence[Trouble]
    checks: Sequence[Check]
    activity: Activity | None


def view_overview(services: Services) -> Overview:
    """Collect the whole page."""
    checks = check_readiness(services)
    can_read = all(check.is_ready for check in checks if check.name in {"database", "migrations"})
    return Overview(find_troubles(services, checks), checks, _activity(services) if can_read else None)


def find_troubles(services: Services, checks: Sequence[Check]) -> list[Trouble]:
    """The problems of the installation with their remedies, the worst first."""
    found = [_trouble(services, check) for check in checks if not check.is_ready]
    return found + _model_troubles(services)


def _trouble(services: Services, check: Check) -> Trouble:
    starter = _STARTER[services.settings.is_embedded_broker]
    remedies = {
        "database": ("Check that it runs and that REDRAFT_DATABASE_URL names it.", "redraft doctor"),
        "migrations": ("Bring it up to date.", "redraft db upgrade"),
        "workers": ("Jobs wait until one is started.", starter),
        "broker": ("Check that it runs and that REDRAFT_BROKER_URL names it.", "redraft doctor"),
    }
    remedy, command = remedies[check.name]
    words = "No worker is alive." if check.name == "workers" else check.detail
    return Trouble(words, remedy, command)


def _model_troubles(services: Services) -> list[Trouble]:
    settings = services.settings
    named: dict[str, Callable[[], ModelRef]] = {"REDRAFT_MODEL": services.providers.default_model}
    if settings.evaluator_model:
        named["REDRAFT_EVALUATOR_MODEL"] = lambda: parse_model(settings.evaluator_model, "/evaluator_model")
    errors = {setting: error for setting, read in named.items() if (error := _field_error(services, read))}
    if not errors and services.providers.default_model() == DEFAULT_LOCAL and not settings.local_model:
        return [_TINY]
    return [
        Trouble(error, f"Then start Redraft again. {setting}=provider:name chooses another model.", "redraft models")
        for setting, error in errors.items()
    ]


def _field_error(services: Services, read: Callable[[], ModelRef]) -> str | None:
    try:
        services.providers.check_configured(read(), "/model")
    except Invalid as error:
        return error.message
    return None


def list_workers(services: Services) -> list[Worker]:
    """The workers that are alive."""
    with services.database.read() as connection:
        return _workers(connection, services)


def _workers(connection: Connection, services: Services) -> list[Worker]:
    in_flight = overview.steps_in_flight(connection)
    alive = workers.alive(connection, within_s=3 * services.settings.heartbeat_s)
    return [Worker(**each, in_flight=in_flight.get(each["id"], 0)) for each in alive]


def _activity(services: Services) -> Activity:
    with services.database.read() as connection:
        return Activity(
            figures=_figures(connection),
            running=[JobLine(**row) for row in overview.running(connection, limit=_ROWS)],
            last_jobs=[JobLine(**row) for row in overview.last_ended(connection, limit=_ROWS)],
            last_runs=_runs(connection),
            workers=_workers(connection, services),
        )


def _figures(connection: Connection) -> Figures:
    now = moment(connection, ago_s=0).astimezone(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    live = overview.count_live(connection)
    today = overview.sum_up_ended(connection, since=midnight)
    return Figures(
        queued=live.get("queued", 0),
        running=live.get("running", 0),
        oldest_wait_s=overview.waiting_s(connection),
        ended_today=today["ended"],
        succeeded_today=today["succeeded"],
        failed_today=today["failed"],
        canceled_today=today["canceled"],
        accepted_today=today["accepted"],
        cost_today=None if today["unpriced_calls"] else cost_usd(today["cost_nano_usd"]),
    )


def _runs(connection: Connection) -> list[RunLine]:
    records = runs.list_page(connection, after=None, limit=_ROWS - 3)[: _ROWS - 3]
    # Counting is slow, and the counts of ended runs are not shown
    counts = run_items.count(connection, [run.id for run in records if run.status == "running"])
    return [RunLine(run, _ended(counts.get(run.id))) for run in records]


def _ended(counts: dict[str, int] | None) -> int | None:
    if counts is None:
        return None
    return sum(number for status, number in counts.items() if status not in {"queued", "running"})
