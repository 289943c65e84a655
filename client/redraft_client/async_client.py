"""The asynchronous client."""

from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

import httpx2

from redraft_client import requests
from redraft_client._address import Address
from redraft_client._async_driver import AsyncDriver
from redraft_client._events import Follower
from redraft_client._operations import Operations, Rows, path, upload
from redraft_client._protocol import Request, Response, Retries, Steps, get, new_key, post
from redraft_client.models import (
    CalibrationReport,
    CallList,
    Comparison,
    CriteriaMatrix,
    Dataset,
    DatasetCheck,
    DatasetItemPage,
    DatasetPage,
    Evaluation,
    EventPage,
    Iteration,
    IterationList,
    Job,
    JobEstimate,
    JobPage,
    ModelList,
    ProfileList,
    Rating,
    RatingList,
    Refinement,
    Run,
    RunItemPage,
    RunPage,
    RunReport,
)
from redraft_client.results import Answer, StreamedEvent

T = TypeVar("T")
ReportFormat = Literal["json", "html", "markdown", "junit", "text"]
ComparisonFormat = Literal["json", "html", "markdown", "text"]


class AsyncRedraft:
    """A connection to a Redraft server. Use it with `async with`, or call `aclose` at the end.

    Args:
        server: the server's URL, with the path under which Redraft is served; by default REDRAFT_SERVER, or
            http://127.0.0.1:8000.
        api_key: the API key; by default REDRAFT_API_KEY. A server on loopback needs no key.
        timeout_s: the time to wait for a connection and for each response. A long poll adds its own wait.
        retries: when to repeat a request that failed.
        http_client: an HTTP client with your own proxy, certificates or transport. You close it yourself.
    """

    def __init__(
        self,
        server: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retries: Retries | None = None,
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
        self._address = Address.of(server, api_key, timeout_s)
        self._driver = AsyncDriver(self._address, http_client)
        self._operations = Operations(retries or Retries())
        parts = (self._driver, self._operations)
        self.jobs = AsyncJobs(*parts)
        self.datasets = AsyncDatasets(*parts)
        self.runs = AsyncRuns(*parts)
        self.ratings = AsyncRatings(*parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._driver.aclose()

    async def _run(self, steps: Steps[T]) -> T:
        return await self._driver.run(steps)

    async def submit(self, *, idempotency_key: str | None = None, **fields: Unpack[requests.GenerateAnswer]) -> Job:
        """Submit a job that generates an answer, and return the job at once. `jobs.wait` waits for its end."""
        request = post("/v1/generate-answer", fields, idempotency_key=idempotency_key or new_key())
        return await self._run(self._operations.fetch(request, Job))

    async def submit_evaluation(
        self, *, idempotency_key: str | None = None, **fields: Unpack[requests.EvaluateAnswer]
    ) -> Job:
        """Submit a job that evaluates a given answer, and return the job at once."""
        request = post("/v1/evaluate-answer", fields, idempotency_key=idempotency_key or new_key())
        return await self._run(self._operations.fetch(request, Job))

    async def generate_answer(
        self,
        *,
        timeout_s: float = 900.0,
        idempotency_key: str | None = None,
        **fields: Unpack[requests.GenerateAnswer],
    ) -> Answer:
        """Submit a job, wait for it, and return its answer, accepted or not. Raises JobFailed or WaitTimeout."""
        return await self._run(self._operations.generate(fields, idempotency_key, timeout_s))

    async def evaluate_answer(
        self,
        *,
        timeout_s: float = 900.0,
        idempotency_key: str | None = None,
        **fields: Unpack[requests.EvaluateAnswer],
    ) -> Evaluation:
        """Evaluate a given answer, and return the verdict. Raises JobFailed or WaitTimeout."""
        return await self._run(self._operations.evaluate(fields, idempotency_key, timeout_s))

    async def estimate(self, **fields: Unpack[requests.GenerateAnswer]) -> JobEstimate:
        """Validate a request and return its maximum number of calls. Nothing is stored and no model is called."""
        request = post("/v1/generate-answer", fields, {"validate_only": True}, is_repeatable=True)
        return await self._run(self._operations.fetch(request, JobEstimate))

    async def refine_question(self, **fields: Unpack[requests.RefineQuestion]) -> Refinement:
        """Let a model draft a job from a rough question. After the request was sent, it is never repeated."""
        return await self._run(self._operations.fetch(post("/v1/refine-question", fields), Refinement))

    async def models(self) -> ModelList:
        return await self._run(self._operations.fetch(get("/v1/models"), ModelList))

    async def profiles(self) -> ProfileList:
        return await self._run(self._operations.fetch(get("/v1/profiles"), ProfileList))

    async def request(
        self, method: str, path: str, *, params: Mapping[str, Any] | None = None, json: Any = None
    ) -> bytes:
        """Send any other request, such as `request("GET", "/v1/usage")`, and return the body of its response."""
        return (await self.exchange(method, path, params=params, json=json)).content

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        is_repeatable: bool = False,
    ) -> Response:
        """Send any request, and return the response with its status and its headers.

        The body is `content`, or else `json`. A POST request that may have arrived is repeated only with
        `is_repeatable` or a header Idempotency-Key.
        """
        made = post(path, json, params)
        sent = {**made.headers, **(headers or {})}
        repeats = is_repeatable or method.upper() in {"GET", "PUT", "DELETE", "HEAD"} or "Idempotency-Key" in sent
        body = made.content if content is None else content
        found = Request(method.upper(), path, made.params, sent, body, is_repeatable=repeats)
        return await self._run(self._operations.raw(found))


class _Part:
    def __init__(self, driver: AsyncDriver, operations: Operations) -> None:
        self._driver = driver
        self._operations = operations

    async def _run(self, steps: Steps[T]) -> T:
        return await self._driver.run(steps)


class AsyncJobs(_Part):
    """Jobs, by their ids."""

    async def get(self, job_id: str, *, include: Literal["iterations"] | None = None) -> Job:
        return await self._run(self._operations.fetch(get(path("jobs", job_id), {"include": include}), Job))

    async def list(self, **filters: Unpack[requests.ListJobs]) -> JobPage:
        """List jobs, newest first; `after=page.next_cursor` continues.

        The filters are those of `GET /v1/jobs`, such as `status="failed"`, `limit=100` or `metadata={"team": "docs"}`.
        """
        return await self._run(self._operations.fetch(get("/v1/jobs", filters), JobPage))

    async def iterate(self, **filters: Unpack[requests.ListJobs]) -> AsyncGenerator[Job]:
        """Yield all jobs that the filters select."""
        page = await self.list(**filters)
        while True:
            for job in page.data:
                yield job
            if page.next_cursor is None:
                return
            page = await self.list(**{**filters, "after": page.next_cursor})

    async def wait(self, job_id: str, *, timeout_s: float = 900.0) -> Job:
        """Wait until a job has succeeded, failed or been canceled, and return the job. Raises WaitTimeout."""
        return await self._run(self._operations.wait_for_job(job_id, timeout_s))

    def events(self, job_id: str, *, after: int = 0) -> AsyncGenerator[StreamedEvent]:
        """Follow the events of a job live, until it has ended. An interrupted stream is resumed."""
        return self._driver.follow(Follower(path("jobs", job_id, "events"), after, self._operations.retries))

    async def event_page(self, job_id: str, *, after: int = 0) -> EventPage:
        """Get the stored events after the number `after`, without waiting. After the last event, a page has no data."""
        return await self._run(self._operations.event_page(job_id, after))

    async def cancel(self, job_id: str) -> Job:
        request = post(path("jobs", job_id, "cancel"), is_repeatable=True)
        return await self._run(self._operations.fetch(request, Job))

    async def continue_(self, job_id: str, **fields: Unpack[requests.ContinueJob]) -> Job:
        """Let an ended job make further iterations. After the request was sent, it is never repeated."""
        return await self._run(self._operations.fetch(post(path("jobs", job_id, "continue"), fields), Job))

    async def rescore(
        self, job_id: str, *, idempotency_key: str | None = None, **fields: Unpack[requests.RescoreJob]
    ) -> Job:
        """Create a job that evaluates the answers of an ended job again."""
        request = post(path("jobs", job_id, "rescore"), fields, idempotency_key=idempotency_key or new_key())
        return await self._run(self._operations.fetch(request, Job))

    async def delete(self, job_id: str) -> None:
        await self._run(self._operations.nothing(Request("DELETE", path("jobs", job_id), is_repeatable=True)))

    async def iterations(self, job_id: str) -> "list[Iteration]":
        return (await self._run(self._operations.fetch(get(path("jobs", job_id, "iterations")), IterationList))).data

    async def calls(self, job_id: str, *, full: bool = False) -> CallList:
        return await self._run(self._operations.fetch(get(path("jobs", job_id, "calls"), {"full": full}), CallList))

    async def criteria(self, job_id: str) -> CriteriaMatrix:
        """Get the criteria that each iteration met."""
        return await self._run(self._operations.fetch(get(path("jobs", job_id, "criteria")), CriteriaMatrix))


class AsyncDatasets(_Part):
    """Files of rows."""

    async def upload(
        self, rows: Rows, *, name: str = "", format: str | None = None, map: Mapping[str, str] | None = None
    ) -> Dataset:
        """Upload a file (JSON lines, a JSON array, CSV, TSV or Parquet), its bytes, or rows as dicts.

        `map` names the column that fills a field, such as `{"instruct": "question"}`. The file is read into memory.
        A dataset with the same rows is not stored twice.
        """
        params = {"format": format, "map": map}
        return await self._run(self._operations.fetch(upload(rows, name, params), Dataset))

    async def check(
        self, rows: Rows, *, name: str = "", format: str | None = None, map: Mapping[str, str] | None = None
    ) -> DatasetCheck:
        """Report how a run reads a file, and store nothing."""
        params = {"format": format, "map": map, "validate_only": True}
        return await self._run(self._operations.fetch(upload(rows, name, params), DatasetCheck))

    async def list(self, *, limit: int = 20, after: str | None = None) -> DatasetPage:
        return await self._run(
            self._operations.fetch(get("/v1/datasets", {"limit": limit, "after": after}), DatasetPage)
        )

    async def get(self, dataset_id: str) -> Dataset:
        return await self._run(self._operations.fetch(get(path("datasets", dataset_id)), Dataset))

    async def items(self, dataset_id: str, *, limit: int = 20, after: str | None = None) -> DatasetItemPage:
        request = get(path("datasets", dataset_id, "items"), {"limit": limit, "after": after})
        return await self._run(self._operations.fetch(request, DatasetItemPage))

    async def delete(self, dataset_id: str) -> None:
        await self._run(self._operations.nothing(Request("DELETE", path("datasets", dataset_id), is_repeatable=True)))


class AsyncRuns(_Part):
    """Runs, each with a job for every row of a dataset."""

    async def start(self, *, idempotency_key: str | None = None, **fields: Unpack[requests.CreateRun]) -> Run:
        request = post("/v1/runs", fields, idempotency_key=idempotency_key or new_key())
        return await self._run(self._operations.fetch(request, Run))

    async def wait(self, run_id: str, *, timeout_s: float = 86_400.0) -> Run:
        """Wait until all jobs of a run have ended, and return the run. Raises WaitTimeout."""
        return await self._run(self._operations.wait_for_run(run_id, timeout_s))

    def events(self, run_id: str) -> AsyncGenerator[StreamedEvent]:
        """Follow the progress of a run until its end."""
        return self._driver.follow(Follower(path("runs", run_id, "events"), 0, self._operations.retries))

    async def get(self, run_id: str) -> Run:
        return await self._run(self._operations.fetch(get(path("runs", run_id)), Run))

    async def list(self, *, limit: int = 20, after: str | None = None) -> RunPage:
        return await self._run(self._operations.fetch(get("/v1/runs", {"limit": limit, "after": after}), RunPage))

    async def items(self, run_id: str, **filters: Unpack[requests.ListRunItems]) -> RunItemPage:
        """List items with their results. Filters: `status` and `limit`; `after=page.next_cursor` continues."""
        return await self._run(self._operations.fetch(get(path("runs", run_id, "items"), filters), RunItemPage))

    async def results(self, run_id: str, format: Literal["jsonl", "csv"] = "jsonl", *, bom: bool = False) -> str:
        """Get all results as the text of a file."""
        request = get(path("runs", run_id, "results"), {"format": format, "bom": bom}, Accept="*/*")
        return await self._run(self._operations.text(request))

    async def report(self, run_id: str) -> RunReport:
        return await self._run(self._operations.fetch(get(path("runs", run_id, "report")), RunReport))

    async def report_as(self, run_id: str, format: ReportFormat) -> str:
        request = get(path("runs", run_id, "report"), {"format": format}, Accept="*/*")
        return await self._run(self._operations.text(request))

    async def compare(self, run_id: str, baseline: str) -> Comparison:
        """Compare a run with a baseline, row by row."""
        request = get(path("runs", run_id, "compare"), {"baseline": baseline})
        return await self._run(self._operations.fetch(request, Comparison))

    async def compare_as(self, run_id: str, baseline: str, format: ComparisonFormat) -> str:
        request = get(path("runs", run_id, "compare"), {"baseline": baseline, "format": format}, Accept="*/*")
        return await self._run(self._operations.text(request))

    async def cancel(self, run_id: str) -> Run:
        return await self._run(self._operations.fetch(post(path("runs", run_id, "cancel"), is_repeatable=True), Run))

    async def resume(self, run_id: str, **fields: Unpack[requests.ResumeRun]) -> Run:
        """Execute the open items of an ended run. After the request was sent, it is never repeated."""
        return await self._run(self._operations.fetch(post(path("runs", run_id, "resume"), fields), Run))

    async def delete(self, run_id: str) -> None:
        await self._run(self._operations.nothing(Request("DELETE", path("runs", run_id), is_repeatable=True)))


class AsyncRatings(_Part):
    """Ratings of evaluations by people."""

    async def rate(self, job_id: str, iteration: int, **fields: Unpack[requests.RateEvaluation]) -> Rating:
        """Rate an evaluation. A later rating with the same API key replaces the earlier rating."""
        request = post(path("jobs", job_id, "iterations", iteration, "ratings"), fields, is_repeatable=True)
        return await self._run(self._operations.fetch(request, Rating))

    async def list(self, job_id: str) -> RatingList:
        return await self._run(self._operations.fetch(get(path("jobs", job_id, "ratings")), RatingList))

    async def calibration(self, **filters: Unpack[requests.GetCalibration]) -> CalibrationReport:
        """Measure how far evaluators agree with people. The filters are those of `GET /v1/calibration`."""
        return await self._run(self._operations.fetch(get("/v1/calibration", filters), CalibrationReport))
