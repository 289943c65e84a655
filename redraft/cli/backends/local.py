"""The backend of this installation: its methods call the operations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Literal

from redraft.cli import sessions
from redraft.cli.backends import local_events
from redraft.datasets.csv_export import csv_lines, jsonl_lines
from redraft.datasets.formats import Format
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.run_requests import CreateRun, ResumeRun
from redraft.domain.bulk.schedule_requests import CreateSchedule
from redraft.domain.evaluation.ratings import RateEvaluation
from redraft.domain.jobs.drafts import RefineQuestion
from redraft.domain.jobs.ids import TraceParent
from redraft.domain.jobs.requests import ContinueJob, GenerateAnswer, RescoreJob
from redraft.messages import Delta
from redraft.operations.admin import readiness
from redraft.operations.bulk import dataset_checks, datasets, deletion, report_tables, run_results, runs
from redraft.operations.bulk.dataset_checks import DatasetCheck
from redraft.operations.bulk.datasets import Dataset, DatasetItem
from redraft.operations.bulk.run_resources import Run
from redraft.operations.evaluation import ratings, rescore
from redraft.operations.evaluation.ratings import CalibrationGroup, RatingFilter
from redraft.operations.jobs import job_lists, lifecycle, queries, references, refine, submit, views, webhooks
from redraft.operations.jobs.iterations import CriteriaMatrix, Iteration
from redraft.operations.jobs.refine import Refinement
from redraft.operations.jobs.resources import Call, Event, Job, Rating, WebhookDelivery, job_resource
from redraft.operations.schedules import run_schedules as schedules
from redraft.operations.schedules.run_schedules import Schedule
from redraft.operations.services import Services
from redraft.reports.tables import ComparisonTables, RunTables
from redraft.storage.jobs.job_filters import JobFilter

RATER = "cli"
_FIND = {"job": references.find_job_id, "run": references.find_run_id, "dataset": references.find_dataset_id}


class Local:
    """Commands on the database of this installation. Its methods raise the errors of the operations."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def find(self, noun: str, text: str) -> str:
        return _FIND[noun](self._services, text)

    # Jobs

    def get_job(self, job_id: str, *, with_iterations: bool = False) -> Job:
        return queries.get_job(self._services, job_id, with_iterations=with_iterations)

    def list_jobs(self, criteria: JobFilter, cursor: str | None = None) -> tuple[list[Job], str | None]:
        return queries.list_jobs(self._services, criteria, cursor)

    def export_jobs(self, criteria: JobFilter) -> Iterator[str]:
        return job_lists.export_matching(self._services, criteria)

    def iterations(self, job_id: str, number: int | None = None) -> list[Iteration]:
        return queries.list_iterations(self._services, job_id, number)

    def criteria_matrix(self, job_id: str) -> CriteriaMatrix:
        return queries.criteria_matrix(self._services, job_id)

    def list_calls(self, job_id: str) -> list[Call]:
        return queries.list_calls(self._services, job_id)

    def get_call(self, job_id: str, call_id: str) -> Call:
        return queries.get_call(self._services, job_id, call_id, full=True)

    def events(self, job_id: str, after: int) -> tuple[list[Event], bool]:
        return queries.list_events(self._services, job_id, after)

    def follow(
        self,
        job_id: str,
        after: int,
        keep_alive: Callable[[], None],
        deadline_s: float | None = None,
        on_delta: Callable[[Delta], None] | None = None,
    ) -> Iterator[Event]:
        return local_events.follow(self._services, job_id, after, keep_alive, deadline_s, on_delta)

    def times(self, job_id: str) -> tuple[float, int]:
        """Return the seconds in model calls, and the milliseconds of the pauses before continuations."""
        view = views.view_calls(self._services, job_id)
        return view.called_s, view.facts.idle_ms

    def continuations(self, job_id: str) -> list[Event]:
        return views.view_request(self._services, job_id).continued

    def check_request(self, request: GenerateAnswer) -> None:
        submit.normalise(self._services, request)

    def submit(self, request: GenerateAnswer, trace: TraceParent | None) -> Job:
        return job_resource(submit.submit(self._services, request, traceparent=trace).job)

    def cancel_job(self, job_id: str) -> tuple[str, bool]:
        """Cancel a job, and return its status, and whether this call has ended it."""
        record, is_new = lifecycle.cancel(self._services, job_id)
        return record.status, is_new

    def continue_job(self, job_id: str, change: ContinueJob) -> None:
        lifecycle.continue_job(self._services, job_id, change)

    def delete_job(self, job_id: str) -> None:
        lifecycle.delete(self._services, job_id)

    def prepare_rescore(self, job_id: str, change: RescoreJob, *, drops_rubric: bool) -> Callable[[], Job]:
        """Check a rescoring, and return the function that submits it."""
        request = rescore.request_for(self._services, job_id, change, drops_rubric=drops_rubric)
        submit.normalise(self._services, request)
        return lambda: job_resource(submit.submit(self._services, request).job)

    def refine(self, asked: RefineQuestion) -> Refinement:
        # Valkey stores the rate limits of models, so a model with limits needs the broker
        with self.worker_beside() if refine.must_acquire(self._services, asked) else nullcontext():
            return refine.refine(self._services, asked)

    def list_deliveries(self, noun: str, owner_id: str) -> list[WebhookDelivery]:  # noqa: ARG002
        return webhooks.list_deliveries(self._services, owner_id)

    def redeliver(self, noun: str, owner_id: str, delivery_id: str) -> WebhookDelivery:  # noqa: ARG002
        return webhooks.redeliver(self._services, owner_id, delivery_id)

    def redeliver_all(self) -> int:
        """Send all failed deliveries again, and return their number."""
        return webhooks.redeliver_all(self._services)

    def rate(self, job_id: str, number: int, body: RateEvaluation) -> Rating:
        return ratings.rate(self._services, job_id, number, body, RATER)

    def list_ratings(self, job_id: str) -> list[Rating]:
        return ratings.list_ratings(self._services, job_id)

    def calibration(self, criteria: RatingFilter, precision: float) -> tuple[list[CalibrationGroup], int]:
        return ratings.calibration(self._services, criteria, precision=precision)

    # Datasets and runs

    def list_datasets(self, cursor: str | None, limit: int) -> tuple[list[Dataset], str | None]:
        return datasets.list_datasets(self._services, cursor=cursor, limit=limit)

    def get_dataset(self, dataset_id: str) -> Dataset:
        return datasets.get_dataset(self._services, dataset_id)

    def list_rows(self, dataset_id: str, after: int, limit: int) -> list[DatasetItem]:
        return datasets.list_items(self._services, dataset_id, after=after, limit=limit)

    def check_dataset(
        self,
        stream: BinaryIO,
        name: str,
        folder: Path | None,
        file_format: Format | None,
        mapping: Mapping[str, str],
        layers: Mapping[str, Mapping[str, Any]],
    ) -> DatasetCheck:
        """Check a file. `layers` are the defaults and the overrides of a run."""
        options: dict[str, Any] = {"file_format": file_format, "mapping": mapping, "folder": folder, **layers}
        return dataset_checks.check_resource(dataset_checks.check_dataset(self._services, stream, name, **options))

    def import_dataset(
        self,
        stream: BinaryIO,
        name: str,
        folder: Path | None,
        file_format: Format | None,
        mapping: Mapping[str, str],
    ) -> tuple[Dataset, bool]:
        """Store a file. Return the dataset, and whether it is new."""
        return datasets.import_dataset(
            self._services, stream, name, folder=folder, file_format=file_format, mapping=mapping
        )

    def delete_dataset(self, dataset_id: str) -> None:
        deletion.delete_dataset(self._services, dataset_id)

    def list_runs(self, cursor: str | None, limit: int) -> tuple[list[Run], str | None]:
        return runs.list_runs(self._services, cursor=cursor, limit=limit)

    def get_run(self, run_id: str) -> Run:
        return runs.get_run(self._services, run_id)

    def list_items(self, run_id: str, after: int, limit: int, statuses: Sequence[str] = ()) -> list[dict[str, Any]]:
        return run_results.list_items(self._services, run_id, after=after, limit=limit, statuses=statuses)

    def create_run(self, request: CreateRun) -> Run:
        return runs.create_run(self._services, request)[0]

    def cancel_run(self, run_id: str) -> tuple[Run, bool]:
        return runs.cancel_run(self._services, run_id)

    def resume_run(self, run_id: str, body: ResumeRun) -> Run:
        return runs.resume_run(self._services, run_id, body)

    def delete_run(self, run_id: str) -> None:
        deletion.delete_run(self._services, run_id)

    def list_schedules(self, cursor: str | None, limit: int) -> tuple[list[Schedule], str | None]:
        return schedules.list_schedules(self._services, cursor=cursor, limit=limit)

    def get_schedule(self, schedule_id: str) -> Schedule:
        return schedules.get_schedule(self._services, schedule_id)

    def create_schedule(self, body: CreateSchedule) -> Schedule:
        return schedules.create_schedule(self._services, body)

    def change_schedule(self, schedule_id: str, change: Literal["pause", "resume"]) -> Schedule:
        chosen = schedules.pause_schedule if change == "pause" else schedules.resume_schedule
        return chosen(self._services, schedule_id)

    def delete_schedule(self, schedule_id: str) -> None:
        schedules.delete_schedule(self._services, schedule_id)

    def baseline_of(self, run_id: str) -> str | None:
        return runs.find_baseline_id(self._services, run_id)

    def run_tables(self, run_id: str) -> RunTables:
        return report_tables.run_tables(self._services, run_id)

    def comparison_tables(self, baseline_id: str, run_id: str) -> ComparisonTables:
        return report_tables.comparison_tables(self._services, baseline_id, run_id)

    def outcomes(self, run_id: str) -> Sequence[ItemOutcome]:
        return run_results.outcomes(self._services, run_id)

    def results(self, run_id: str, form: str, *, bom: bool) -> Iterator[str]:
        """Yield the lines of a file with all results."""
        if form == "csv":
            columns, rows = run_results.stream_table(self._services, run_id)
            return csv_lines(rows, columns, bom=bom)
        return jsonl_lines(run_results.stream_results(self._services, run_id), run_results.RESULT_COLUMNS)

    def say_spent(self, run_id: str) -> str:
        return runs.say_spent(self._services, run_id)

    # Workers

    def worker_beside(self) -> AbstractContextManager[Callable[[], None]]:
        return sessions.worker_beside(self._services)

    def is_worker_alive(self) -> bool:
        return readiness.alive_workers(self._services) > 0

    def starters(self, watch: str) -> str:
        starter = "redraft serve" if self._services.settings.is_embedded_broker else "redraft worker"
        return f"`{starter}`, or with: {watch}"

    @property
    def cancels(self) -> bool:
        """Whether Ctrl-C cancels the job or run that a command has started and waits for."""
        return True
