"""The load of every contender: jobs of two iterations, each with one generate call and one evaluate call."""

from collections.abc import Mapping
from dataclasses import dataclass, field

CALLS_PER_JOB = 4
SCORES = (0.4, 0.9)
TASK = "Explain in two sentences why the sky is blue."
CRITERIA = "Names scattering, and says why blue light is scattered most."
DRAFT = "Sunlight is scattered by the air, and blue light most of all since its waves are short."


def task_of(job: int) -> str:
    """Return the task of a job. It has the number of the job, by which the scripted server counts the job's scores."""
    return f"{TASK} [[case:{job}]]"


@dataclass(frozen=True, slots=True)
class Load:
    """The number of jobs, the number of calls in flight, and the duration of a call."""

    jobs: int
    in_flight: int
    latency_s: float

    @property
    def calls(self) -> int:
        return self.jobs * CALLS_PER_JOB


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a contender for a load.

    Attributes:
        seconds: from the first submission to the end of the last job.
        cpu_s: CPU seconds by process: "driver", "workers", "PostgreSQL", "Valkey".
        calls: the number of model calls.
        submit_ms: CPU milliseconds of the driver for one submission.
        idle_ms: CPU milliseconds per second by process, after all jobs have ended.
        rss_mb: memory of the workers when all jobs have ended.
    """

    seconds: float
    cpu_s: Mapping[str, float]
    calls: int
    submit_ms: float = 0.0
    idle_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    rss_mb: float = 0.0

    @property
    def calls_per_s(self) -> float:
        return self.calls / self.seconds

    @property
    def cpu_ms_per_call(self) -> float:
        return sum(self.cpu_s.values()) * 1000 / self.calls

    def ms_per_call(self, process: str) -> float:
        return self.cpu_s.get(process, 0.0) * 1000 / self.calls


def _about(job: int) -> str:
    return f"# Task\n\n{task_of(job)}\n\n# Criteria\n\n{CRITERIA}"


def generate_body(job: int) -> dict[str, object]:
    return {
        "model": "writer",
        "messages": [
            {"role": "system", "content": "You write the answer to a task."},
            {"role": "user", "content": _about(job)},
        ],
    }


def evaluate_body(job: int, answer: str) -> dict[str, object]:
    return {
        "model": "judge",
        "messages": [
            {"role": "system", "content": "You judge an answer to a task by given criteria."},
            {
                "role": "user",
                "content": f"{_about(job)}\n\n# Answer\n\n{answer}",
            },
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": VERDICT},
        },
    }


VERDICT = {
    "type": "object",
    "properties": {
        "evaluation_reasoning": {"type": "string"},
        "improvement_suggestions": {"type": "array", "items": {"type": "string"}},
        "meets_criteria": {"type": "boolean"},
        "score": {"type": "number"},
    },
    "required": ["evaluation_reasoning", "improvement_suggestions", "meets_criteria", "score"],
    "additionalProperties": False,
}
