"""The client: submits at a steady rate over HTTP, repeats what was not answered, cancels now and then."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.chaos.storms.load import JobPlan

_TIMEOUT_S = 6.0
_AGAIN_S = 0.2
_GIVE_UP_S = 300.0
_PASSING = frozenset({429, 503})


@dataclass(slots=True)
class Submitted:
    """What the client saw of one job."""

    plan: JobPlan
    job_ids: list[str] = field(default_factory=list[str])
    attempts: int = 0
    slowest_s: float = 0.0
    answers: Counter[str] = field(default_factory=Counter[str])
    surprises: list[str] = field(default_factory=list[str])
    is_cancel_answered: bool = False


class Driver:
    """`submit_all` returns when each job was accepted, or the client gave up on it."""

    def __init__(self, url: str, report: Callable[[int], None] = lambda _count: None) -> None:
        self._url = url
        self._report = report
        self._stopping = threading.Event()
        self._accepted = 0
        self._lock = threading.Lock()

    def submit_all(
        self, plans: list[JobPlan], *, every_s: float, is_due: Callable[[int], bool] = lambda _: True
    ) -> list[Submitted]:
        """One job every so many seconds, but none before it is due: the load lasts as long as the trouble does."""
        futures: list[Future[Submitted]] = []
        with ThreadPoolExecutor(max_workers=32, thread_name_prefix="client") as pool:
            for number, plan in enumerate(plans):
                self._stopping.wait(every_s)
                while not is_due(number):
                    self._stopping.wait(every_s)
                futures.append(pool.submit(self._serve, plan))
            return [future.result() for future in futures]

    def _serve(self, plan: JobPlan) -> Submitted:
        seen = Submitted(plan)
        with httpx2.Client(base_url=self._url, timeout=_TIMEOUT_S) as client:
            if plan.is_impatient:
                self._post(client, seen, timeout_s=0.03)
            if self._until(lambda: self._post(client, seen, timeout_s=_TIMEOUT_S)):
                with self._lock:
                    self._accepted += 1
                    self._report(self._accepted)
                self._cancel(client, seen)
                self._continue(client, seen)
        return seen

    def start_run(self, plans: list[JobPlan]) -> list[Submitted]:
        """Upload the rows and start them as a bulk run, however often that takes."""
        seen = [Submitted(plan) for plan in plans]
        rows = "\n".join(json.dumps({"id": plan.case, **plan.body}) for plan in plans)
        with httpx2.Client(base_url=self._url, timeout=_TIMEOUT_S) as client:
            dataset = self._insist(client, "/v1/datasets", content=rows, params={"name": "rows.jsonl"})
            body = {"dataset_id": dataset["id"], "max_in_flight": 6}
            self._insist(client, "/v1/runs", json=body, headers={"Idempotency-Key": f"run-{plans[0].case}"})
        return seen

    def _insist(self, client: httpx2.Client, route: str, **how: Any) -> dict[str, Any]:
        answers: list[httpx2.Response] = []

        def attempt() -> bool:
            try:
                answer = client.post(route, **how)
            except httpx2.TransportError:
                return False
            answers.append(answer)
            return answer.status_code not in _PASSING

        if not self._until(attempt) or not answers[-1].is_success:
            raise AssertionError(f"{route} answered {[answer.text for answer in answers[-1:]]}")
        return answers[-1].json()

    def _until(self, attempt: Callable[[], bool]) -> bool:
        give_up_at = time.monotonic() + _GIVE_UP_S
        while not attempt():
            if time.monotonic() > give_up_at:
                return False
            self._stopping.wait(_AGAIN_S)
        return True

    def _post(self, client: httpx2.Client, seen: Submitted, *, timeout_s: float) -> bool:
        headers = {"Idempotency-Key": f"key-{seen.plan.case}"}
        seen.attempts += 1
        started_at = time.monotonic()
        try:
            answer = client.post(seen.plan.route, json=seen.plan.body, headers=headers, timeout=timeout_s)
        except httpx2.TransportError as error:
            seen.answers[type(error).__name__] += 1
            return False
        seen.answers[str(answer.status_code)] += 1
        seen.slowest_s = max(seen.slowest_s, time.monotonic() - started_at)
        if answer.status_code in {200, 201, 202}:
            seen.job_ids.append(answer.json()["id"])
            return True
        if answer.status_code not in _PASSING:
            seen.surprises.append(f"POST answered {answer.status_code}: {answer.text[:200]}")
        return False

    def _continue(self, client: httpx2.Client, seen: Submitted) -> None:
        """Once the job has ended. A repetition after a lost answer may meet a job that goes on already."""
        if seen.plan.continuation is None:
            return
        path = f"/v1/jobs/{seen.job_ids[-1]}"

        def has_ended() -> bool:
            try:
                answer = client.get(path)
            except httpx2.TransportError:
                return False
            return answer.is_success and answer.json()["finished_at"] is not None

        def attempt() -> bool:
            try:
                answer = client.post(f"{path}/continue", json=seen.plan.continuation)
            except httpx2.TransportError:
                return False
            if answer.status_code not in {200, 202, 409, *_PASSING}:
                seen.surprises.append(f"continue answered {answer.status_code}: {answer.text[:200]}")
            return answer.status_code not in _PASSING

        if self._until(has_ended):
            self._until(attempt)

    def _cancel(self, client: httpx2.Client, seen: Submitted) -> None:
        if seen.plan.cancel_after_s is None:
            return
        self._stopping.wait(seen.plan.cancel_after_s)

        def attempt() -> bool:
            try:
                answer = client.post(f"/v1/jobs/{seen.job_ids[-1]}/cancel")
            except httpx2.TransportError:
                return False
            if answer.status_code not in {200, 202, *_PASSING}:
                seen.surprises.append(f"cancel answered {answer.status_code}: {answer.text[:200]}")
            return answer.status_code in {200, 202}

        seen.is_cancel_answered = self._until(attempt)
