"""What is submitted, and what the provider answers: all drawn from a seed."""

import itertools
import json
import random
from dataclasses import dataclass
from typing import Any

from tests.model_server.requests import Asked
from tests.model_server.scripts import Reply

_FAILURES = (Reply(status=429, raw={"error": {"message": "slow down"}}), Reply(status=503, raw={"error": {}}))


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job of the load. Its `case` stands in the task, so that the provider's log tells whose request it was."""

    case: str
    route: str
    body: dict[str, Any]
    is_impatient: bool
    """The client hears no answer to its first request, and repeats it."""
    cancel_after_s: float | None


def draw_job(seed: int, number: int) -> JobPlan:
    rng = random.Random(f"{seed}:job:{number}")
    case = f"{seed}-{number}"
    body: dict[str, Any] = {
        "instruct": f"[[case:{case}]] Write a line.",
        "eval_crit": "It is a line.",
        "limits": {"deadline_s": 900},
    }
    route = "/v1/generate-answer"
    if rng.random() < 0.1:
        route, body["answer"] = "/v1/evaluate-answer", f"A line of {case}."
    else:
        body |= {"iter_max": rng.randint(1, 4), "candidates": 2 if rng.random() < 0.1 else 1}
        body["stream"] = rng.random() < 0.1
    cancel_after_s = rng.uniform(0, 2.5) if rng.random() < 0.05 else None
    return JobPlan(case, route, body, rng.random() < 0.05, cancel_after_s)


class Provider:
    """The scripted provider: each text is unlike all others, so that no reply can pass for another."""

    def __init__(self, seed: int, *, slowness: float = 2.0, failing: float = 0.05) -> None:
        self._random = random.Random(f"{seed}:provider")
        self._numbers = itertools.count(1)
        self._slowness = slowness
        self._failing = failing

    def __call__(self, asked: Asked) -> Reply:
        chance = self._random.random()
        latency_s = self._random.uniform(0.05, 0.6) * self._slowness
        if chance < self._failing:
            return self._random.choice([*_FAILURES, Reply(fault="reset"), Reply(text="no verdict, no use")])
        if chance < self._failing + 0.02:
            latency_s = self._random.uniform(2, 4) * self._slowness
        number = next(self._numbers)
        if asked.role == "generate":
            return Reply(text=f"Line {number} for {asked.case}: it says something.", latency_s=latency_s)
        return Reply(text=json.dumps(self._verdict(number)), latency_s=latency_s)

    def _verdict(self, number: int) -> dict[str, Any]:
        score = round(self._random.uniform(0.3, 1.0), 3)
        return {
            "evaluation_reasoning": f"Judged as number {number}.",
            "improvement_suggestions": [] if score >= 0.8 else [f"Mend point {number}."],
            "meets_criteria": score >= 0.8,
            "score": score,
        }
