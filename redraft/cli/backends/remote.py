"""The backend of a remote server: its methods send requests to the API, and return the same resources."""

import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import redraft_client

from redraft.cli.backends.remote_errors import translated
from redraft.cli.backends.remote_requests import PAGE, RemoteRequests, entries_of
from redraft.datasets.formats import Format
from redraft.domain.bulk.comparison import compare
from redraft.domain.bulk.examples import Examples
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.run_requests import CreateRun, ResumeRun
from redraft.domain.bulk.schedule_requests import CreateSchedule
from redraft.domain.evaluation.ratings import RateEvaluation
from redraft.domain.jobs.drafts import RefineQuestion
from redraft.domain.jobs.ids import TraceParent
from redraft.domain.jobs.requests import ContinueJob, GenerateAnswer, RescoreJob
from redraft.domain.numbers.time_intervals import covered
from redraft.errors import Invalid
from redraft.messages import Delta
from redraft.operations.bulk import report_tables, run_results
from redraft.operations.bulk.dataset_checks import DatasetCheck
from redraft.operations.bulk.datasets import Dataset, DatasetItem
from redraft.operations.bulk.run_resources import Run
from redraft.operations.evaluation.ratings import CalibrationGroup, RatingFilter
from redraft.operations.jobs.iterations import CriteriaMatrix, Iteration
from redraft.operations.jobs.refine import Refinement
from redraft.operations.jobs.resources import Call, Event, Job, Rating, WebhookDelivery
from redraft.operations.resource_base import json_line
from redraft.operations.schedules.run_schedules import Schedule
from redraft.reports.tables import ComparisonTables, RunFacts, RunTables
from redraft.storage.jobs.job_filters import JobFilter

T = TypeVar("T")

_RETRIES = redraft_client.Retries(attempts=3)
_TIMEOUT_S = 60.0


@contextmanager
def connected(url: str) -> "Generator[Remote]":
    """Yield the backend of a server. Raises Invalid if its URL or the key in REDRAFT_API_KEY is malformed."""
    try:
        client = redraft_client.Redraft(url, timeout_s=_TIMEOUT_S, retries=_RETRIES)
    except ValueError as error:
        raise Invalid(f"{error} Check --server or REDRAFT_SERVER, and REDRAFT_API_KEY.") from error
    with client:
        yield Remote(client, url)


class Remote(RemoteRequests):
    """Commands with a remote server. Its methods raise the errors that `Local` raises, and those of the connection."""

    def find(self, noun: str, text: str) -> str:
        return self._part(str, self._send("GET", f"ids/{noun}", params={"reference": text.strip()}), "id")

    # Jobs

    def get_job(self, job_id: str, *, with_iterations: bool = False) -> Job:
        return self._get(Job, f"jobs/{job_id}", include="iterations" if with_iterations else None)

    def list_jobs(self, criteria: JobFilter, cursor: str | None = None) -> tuple[list[Job], str | None]:
        return self._page(
            Job,
            "jobs",
            status=list(criteria.statuses),
            outcome=list(criteria.outcomes),
            stop_reason=criteria.stop_reason,
            kind=criteria.kind,
            model=criteria.model,
            metadata=criteria.metadata,
            limit=criteria.limit,
            after=cursor,
        )

    def export_jobs(self, criteria: JobFilter) -> Iterator[str]:
        found = entries_of(partial(self.list_jobs, replace(criteria, limit=PAGE)))
        return (json_line(job, exclude={"iterations"}) for job in found)

    def iterations(self, job_id: str, number: int | None = None) -> list[Iteration]:
        return self._listed(Iteration, f"jobs/{job_id}/iterations" + (f"/{number}" if number else ""))

    def criteria_matrix(self, job_id: str) -> CriteriaMatrix:
        return self._get(CriteriaMatrix, f"jobs/{job_id}/criteria")

    def list_calls(self, job_id: str) -> list[Call]:
        return self._listed(Call, f"jobs/{job_id}/calls")

    def get_call(self, job_id: str, call_id: str) -> Call:
        return self._get(Call, f"jobs/{job_id}/calls/{call_id}", full=True)

    def events(self, job_id: str, after: int) -> tuple[list[Event], bool]:
        response = self._send("GET", f"jobs/{job_id}/events", params={"after": after or None})
        # The job has ended, and there is no event after this number
        if response.status == 204:
            return [], True
        return self._part(list[Event], response, "data"), self._part(bool, response, "is_over")

    def follow(
        self,
        job_id: str,
        after: int,
        keep_alive: Callable[[], None],  # noqa: ARG002 - the server keeps its workers alive
        deadline_s: float | None = None,  # noqa: ARG002 - the server ends the job at its deadline
        on_delta: Callable[[Delta], None] | None = None,
    ) -> Iterator[Event]:
        with translated(self._url):
            for each in self._client.jobs.events(job_id, after=after):
                data = each.data.model_dump(mode="json", exclude_unset=True)
                if each.id is not None:
                    yield Event(seq=each.id, type=each.type, data=data)
                # Text deltas are not stored, so they have no id
                elif each.type == "answer.delta" and on_delta:
                    on_delta(_delta(data))

    def times(self, job_id: str) -> tuple[float, int]:
        """Return the seconds in model calls, and the milliseconds of the pauses before continuations."""
        rested, ended = timedelta(), None
        for event in self._all_events(job_id):
            at = datetime.fromisoformat(event.data["at"])
            if event.type == "done":
                ended = at
            elif event.type == "job.continued" and ended is not None:
                rested, ended = rested + (at - ended), None
        return covered(call.interval for call in self.list_calls(job_id)), round(rested.total_seconds() * 1000)

    def continuations(self, job_id: str) -> list[Event]:
        return [event for event in self._all_events(job_id) if event.type == "job.continued"]

    def _all_events(self, job_id: str) -> Iterator[Event]:
        after = 0
        while page := self.events(job_id, after)[0]:
            yield from page
            after = page[-1].seq

    def check_request(self, request: GenerateAnswer) -> None:
        """Do nothing, because the server checks the request when it is submitted."""

    def submit(self, request: GenerateAnswer, trace: TraceParent | None) -> Job:
        headers = {"traceparent": str(trace)} if trace else {}
        return self._create(Job, "generate-answer", _body(request), **headers)

    def cancel_job(self, job_id: str) -> tuple[str, bool]:
        """Cancel a job, and return its status, and whether this call has ended it."""
        response = self._send("POST", f"jobs/{job_id}/cancel", is_repeatable=True)
        return self._part(str, response, "status"), response.status == 202

    def continue_job(self, job_id: str, change: ContinueJob) -> None:
        self._send("POST", f"jobs/{job_id}/continue", json=_body(change))

    def delete_job(self, job_id: str) -> None:
        self._send("DELETE", f"jobs/{job_id}")

    def prepare_rescore(self, job_id: str, change: RescoreJob, *, drops_rubric: bool) -> Callable[[], Job]:
        """Return the function that submits a rescoring. The server checks the rescoring then."""
        if drops_rubric:
            words = "--no-rubric works only on the installation itself. Use --profile or --rubric."
            raise Invalid(words, code="not_remote")
        return lambda: self._create(Job, f"jobs/{job_id}/rescore", _body(change))

    def refine(self, asked: RefineQuestion) -> Refinement:
        return self._ask(Refinement, "POST", "refine-question", json=_body(asked))

    def list_deliveries(self, noun: str, owner_id: str) -> list[WebhookDelivery]:
        return self._listed(WebhookDelivery, f"{noun}s/{owner_id}/webhook-deliveries")

    def redeliver(self, noun: str, owner_id: str, delivery_id: str) -> WebhookDelivery:
        return self._ask(WebhookDelivery, "POST", f"{noun}s/{owner_id}/webhook-deliveries/{delivery_id}/redeliver")

    def redeliver_all(self) -> int:
        """Send all failed deliveries again, and return their number."""
        return self._part(int, self._send("POST", "webhook-deliveries/redeliver"), "redelivered")

    def rate(self, job_id: str, number: int, body: RateEvaluation) -> Rating:
        path = f"jobs/{job_id}/iterations/{number}/ratings"
        return self._ask(Rating, "POST", path, json=_body(body), is_repeatable=True)

    def list_ratings(self, job_id: str) -> list[Rating]:
        return self._listed(Rating, f"jobs/{job_id}/ratings")

    def calibration(self, criteria: RatingFilter, precision: float) -> tuple[list[CalibrationGroup], int]:
        params = {
            "evaluator_model": criteria.evaluator_model,
            "profile": criteria.profile,
            "criterion": criteria.criterion,
            "precision": precision,
        }
        response = self._send("GET", "calibration", params=params)
        return self._part(list[CalibrationGroup], response, "data"), self._part(int, response, "left_out")

    # Datasets and runs

    def list_datasets(self, cursor: str | None, limit: int) -> tuple[list[Dataset], str | None]:
        return self._page(Dataset, "datasets", after=cursor, limit=limit)

    def get_dataset(self, dataset_id: str) -> Dataset:
        return self._get(Dataset, f"datasets/{dataset_id}")

    def list_rows(self, dataset_id: str, after: int, limit: int) -> list[DatasetItem]:
        # The API refuses negative values. Without the parameter, the list begins with the first row
        return self._first(DatasetItem, f"datasets/{dataset_id}/items", None if after < 0 else after, limit)

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
        texts = {field: json.dumps(layer) for field, layer in layers.items() if layer}
        response = self._upload(stream, name, folder, file_format, mapping, validate_only=True, **texts)
        return self._parse(DatasetCheck, response)

    def import_dataset(
        self,
        stream: BinaryIO,
        name: str,
        folder: Path | None,
        file_format: Format | None,
        mapping: Mapping[str, str],
    ) -> tuple[Dataset, bool]:
        """Upload a file. Return the dataset, and whether it is new."""
        response = self._upload(stream, name, folder, file_format, mapping)
        return self._parse(Dataset, response), response.status == 201

    def _upload(
        self,
        stream: BinaryIO,
        name: str,
        _folder: Path | None,
        file_format: Format | None,
        mapping: Mapping[str, str],
        **params: Any,
    ) -> redraft_client.Response:
        pairs = [f"{field}={column}" for field, column in mapping.items()]
        sent = {"name": name, "format": file_format, "map": pairs, **params}
        headers = {"Content-Type": "application/octet-stream"}
        # Files with equal rows are the same dataset, so a repeated upload stores nothing twice
        return self._send("POST", "datasets", params=sent, content=stream.read(), headers=headers, is_repeatable=True)

    def delete_dataset(self, dataset_id: str) -> None:
        self._send("DELETE", f"datasets/{dataset_id}")

    def list_runs(self, cursor: str | None, limit: int) -> tuple[list[Run], str | None]:
        return self._page(Run, "runs", after=cursor, limit=limit)

    def get_run(self, run_id: str) -> Run:
        return self._get(Run, f"runs/{run_id}")

    def list_items(self, run_id: str, after: int, limit: int, statuses: Sequence[str] = ()) -> list[dict[str, Any]]:
        return self._first(dict[str, Any], f"runs/{run_id}/items", after or None, limit, status=list(statuses))

    def create_run(self, request: CreateRun) -> Run:
        return self._create(Run, "runs", _body(request))

    def cancel_run(self, run_id: str) -> tuple[Run, bool]:
        response = self._send("POST", f"runs/{run_id}/cancel", is_repeatable=True)
        return self._parse(Run, response), response.status == 202

    def resume_run(self, run_id: str, body: ResumeRun) -> Run:
        return self._ask(Run, "POST", f"runs/{run_id}/resume", json=_body(body))

    def delete_run(self, run_id: str) -> None:
        self._send("DELETE", f"runs/{run_id}")

    def list_schedules(self, cursor: str | None, limit: int) -> tuple[list[Schedule], str | None]:
        return self._page(Schedule, "schedules", after=cursor, limit=limit)

    def get_schedule(self, schedule_id: str) -> Schedule:
        return self._get(Schedule, f"schedules/{schedule_id}")

    def create_schedule(self, body: CreateSchedule) -> Schedule:
        return self._ask(Schedule, "POST", "schedules", json=_body(body))

    def change_schedule(self, schedule_id: str, change: Literal["pause", "resume"]) -> Schedule:
        return self._ask(Schedule, "POST", f"schedules/{schedule_id}/{change}")

    def delete_schedule(self, schedule_id: str) -> None:
        self._send("DELETE", f"schedules/{schedule_id}")

    def baseline_of(self, run_id: str) -> str | None:
        """Return the newest earlier run on the same rows that finished all its items."""
        newest_first = entries_of(partial(self.list_runs, limit=PAGE))
        run = next((each for each in newest_first if each.id == run_id), None)
        # The search above has used up the newer runs, so this one yields only earlier runs
        found = (each for each in newest_first if run and each.dataset_id == run.dataset_id)
        return next((each.id for each in found if each.stop_reason == "finished"), None)

    def _outcomes(self, run_id: str) -> tuple[RunFacts, list[ItemOutcome], Examples]:
        response = self._send("GET", f"runs/{run_id}/outcomes")
        facts, items = self._part(RunFacts, response, "run"), self._part(list[ItemOutcome], response, "items")
        return facts, items, self._part(Examples, response, "examples")

    def run_tables(self, run_id: str) -> RunTables:
        run, (facts, items, examples) = self.get_run(run_id), self._outcomes(run_id)
        report = run_results.report_of(run.defaults, run.overrides, items, has_only_checks=facts.has_only_checks)
        return RunTables(facts, report, (), items, examples)

    def comparison_tables(self, baseline_id: str, run_id: str) -> ComparisonTables:
        report_tables.ensure_different((baseline_id, run_id))
        (baseline, before, _), (new, after, _) = self._outcomes(baseline_id), self._outcomes(run_id)
        return ComparisonTables(baseline, new, compare(before, after, name=baseline.name))

    def outcomes(self, run_id: str) -> Sequence[ItemOutcome]:
        return self._outcomes(run_id)[1]

    def results(self, run_id: str, form: str, *, bom: bool) -> Iterator[str]:
        """Yield the lines of a file with all results."""
        params, accepted = {"format": form, "bom": bom}, {"Accept": "*/*"}
        response = self._send("GET", f"runs/{run_id}/results", params=params, headers=accepted)
        yield from re.findall(r"[^\n]*\n|[^\n]+", response.content.decode())

    def say_spent(self, run_id: str) -> str:
        return f"The budget of run {run_id} is used up. A larger budget continues the run."

    # Workers

    def worker_beside(self) -> AbstractContextManager[Callable[[], None]]:
        return nullcontext(lambda: None)

    def is_worker_alive(self) -> bool:
        """Return True: the operator of the server takes care of its workers."""
        return True

    def starters(self, watch: str) -> str:
        return watch

    @property
    def cancels(self) -> bool:
        """Whether Ctrl-C cancels the job or run that a command has started and waits for."""
        return False


def _body(request: Any) -> dict[str, Any]:
    return request.model_dump(mode="json", exclude_unset=True, by_alias=True)


def _delta(data: Mapping[str, Any]) -> Delta:
    return Delta(**{name: data[name] for name in ("iteration", "candidate", "attempt", "offset", "text")})
