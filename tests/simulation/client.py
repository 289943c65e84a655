"""The users: they submit jobs through the API, cancel some and continue others, and repeat what was not answered."""

from collections.abc import Callable
from typing import Any

from redraft.domain.jobs.requests import ContinueJob, EvaluateAnswer, GenerateAnswer
from redraft.errors import Conflict, Unavailable
from redraft.operations.jobs import lifecycle
from redraft.operations.jobs.submit import Idempotency, submit
from redraft.operations.services import Services
from tests.chaos.driver import Submitted
from tests.chaos.storms.load import JobPlan
from tests.simulation.site import Site
from tests.simulation.world import NOTHING, Process

_UNANSWERED = object()
# Virtual time, which does not depend on the machine
_REQUEST_TIMEOUT_S = 6.0


class Client:
    """A user with one job."""

    def __init__(self, site: Site, plan: JobPlan, number: int, *, starts_after: float) -> None:
        self._site = site
        self._world = site.world
        self._name = f"user {number}"
        self._number = number
        self.seen = Submitted(plan)
        self.is_done = False
        site.world.spawn(Process(self._name, site.world), self._live, after=starts_after)

    def _live(self) -> None:
        plan = self.seen.plan
        kind = EvaluateAnswer if plan.route == "/v1/evaluate-answer" else GenerateAnswer
        request = kind.model_validate(plan.body)
        key = Idempotency("simulation", plan.case)
        job_id = self._ask("submits", lambda services: submit(services, request, key).job.id)
        self.seen.job_ids.append(job_id)
        if plan.cancel_after_s is not None:
            self._world.sleep(plan.cancel_after_s)
            self._ask("cancels", lambda services: self._site.variant.cancel(services, job_id))
            self.seen.is_cancel_answered = True
        self._await_end(job_id)
        if plan.continuation:
            change = ContinueJob.model_validate(plan.continuation)
            self._ask("continues", lambda services: _continue(services, job_id, change))
            self._await_end(job_id)
        self.is_done = True

    def _await_end(self, job_id: str) -> None:
        while not self._site.observer.has_ended(job_id):
            self._world.sleep(0.3)

    def _ask(self, what: str, operation: Callable[[Services], Any]) -> Any:
        """Do an operation in a process of the API, again until it is answered."""
        self._world.note(self._name, what)
        while True:
            answer = self._try(operation)
            if answer is not _UNANSWERED:
                return answer
            self._world.sleep(self._world.random.uniform(0.1, 2.0))

    def _try(self, operation: Callable[[Services], Any]) -> Any:
        process = Process(f"api {self._number}", self._world)
        services = self._site.services_of(process)
        waiting = self._world.current
        is_waiting = True

        def work() -> None:
            try:
                answer = operation(services)
            except Unavailable:
                answer = _UNANSWERED
            if is_waiting:
                self._world.resume(waiting, answer)

        self._world.spawn(process, work)
        # A process that was killed or suspended gives no answer
        answer = self._world.wait(timeout=_REQUEST_TIMEOUT_S)
        is_waiting = False
        return _UNANSWERED if answer is NOTHING else answer


def _continue(services: Services, job_id: str, change: ContinueJob) -> bool:
    try:
        lifecycle.continue_job(services, job_id, change)
    except Conflict:
        # An earlier request, which was not answered, has continued it
        return False
    return True
