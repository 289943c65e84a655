"""The base class of the models of responses, and the properties of a job and of a run."""

from typing import Any

from pydantic import BaseModel, ConfigDict

_ENDED_JOB = frozenset({"succeeded", "failed", "canceled"})


class ResponseModel(BaseModel):
    """A part of a response. Fields that this version of the client does not know are kept."""

    # With `strict`, a text such as "yes" is not converted to a boolean
    model_config = ConfigDict(extra="allow", frozen=True, strict=True, protected_namespaces=(), populate_by_name=True)


class JobState(ResponseModel):
    """Properties that follow from the status of a job. A status that only a newer server knows is never a success."""

    @property
    def has_ended(self) -> bool:
        status, finished_at = _values(self, "status", "finished_at")
        is_known = status in _ENDED_JOB or status in {"queued", "running"}
        return status in _ENDED_JOB if is_known else finished_at is not None

    @property
    def is_accepted(self) -> bool:
        """Whether the job has an answer that the evaluation accepted."""
        status, result = _values(self, "status", "result")
        return status == "succeeded" and result is not None and result.success is True


class RunState(ResponseModel):
    """Properties that follow from the status of a run."""

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended and none of its jobs is running. Jobs of a canceled run may run on for a moment."""
        status, finished_at, counts = _values(self, "status", "finished_at", "counts")
        return status != "running" and finished_at is not None and counts.running == 0


def _values(model: ResponseModel, *names: str) -> list[Any]:
    return [getattr(model, name) for name in names]
