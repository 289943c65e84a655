"""Message contracts: what is sent to workers, by name, with a typed payload. Ids only, never texts."""

from dataclasses import asdict, dataclass
from typing import Any

from redraft.domain.states import Step


@dataclass(frozen=True, slots=True)
class StepMessage:
    """A step of a job is due. Stale and duplicate messages are harmless: the claim compares `step_no`."""

    step: Step
    job_id: str
    step_no: int

    @property
    def task(self) -> str:
        return f"redraft.{self.step.value}"

    @property
    def payload(self) -> dict[str, Any]:
        values = asdict(self)
        del values["step"]
        return values


INTERACTIVE_QUEUE = "interactive"
