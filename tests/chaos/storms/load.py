"""What is submitted, and what the provider answers: all drawn from a seed."""

import itertools
import json
import random
from collections.abc import Callable, Mapping
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
    continuation: Mapping[str, Any] | None = None
    """With what the client continues the job when it has ended."""


_RUBRIC = [
    {"id": "line", "text": "It is a line."},
    {"id": "says", "text": "It says something.", "weight": 2},
    {"id": "short", "kind": "check", "check": {"kind": "max_words", "value": 60}},
]
_SOURCES = [{"content": f"Line {number} says something.", "chunk_id": f"c{number}"} for number in range(1, 4)]
_EXTRAS: tuple[Callable[[random.Random], dict[str, Any]], ...] = (
    lambda _: {},
    lambda _: {"rubric": _RUBRIC},
    lambda rng: {"evaluation": {"panel": ["openai:judge", "openai:other"], "samples": rng.randint(1, 2)}},
    lambda _: {"sources": _SOURCES, "grounding": {"require_grounding": False}},
    lambda rng: {"evaluation": {"samples": rng.randint(2, 4)}},
    lambda rng: {"limits": {"deadline_s": rng.uniform(1, 8)}},
    lambda _: {"evaluation": {"when": "overlap"}},
    lambda _: {"evaluation": {"audit": "openai:other"}},
    lambda rng: {"limits": {"deadline_s": 900, "max_tokens": rng.randint(800, 6000)}},
)


def draw_job(seed: int, number: int, *, webhook_url: str | None = None, canceled: float = 0.05) -> JobPlan:
    """One job. What it asks for beside the usual comes in turn, so that a small load has something of everything."""
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
    cancel_after_s = rng.uniform(0, 2.5) if rng.random() < canceled else None
    is_impatient = rng.random() < 0.05
    extra = _EXTRAS[number % len(_EXTRAS)](rng)
    if "answer" not in body or "when" not in extra.get("evaluation", {}):
        body |= extra
    if webhook_url and number % 5 == 0:
        body["webhook"] = {"url": webhook_url}
    is_continued = number % 9 == 0 and route == "/v1/generate-answer" and cancel_after_s is None
    return JobPlan(case, route, body, is_impatient, cancel_after_s, {"iter_max": 2} if is_continued else None)


def draw_run(seed: int, count: int) -> list[JobPlan]:
    """The rows of a bulk run."""
    cases = [f"{seed}-run-{number}" for number in range(1, count + 1)]
    return [JobPlan(case, "/v1/runs", _row_of(case), is_impatient=False, cancel_after_s=None) for case in cases]


def _row_of(case: str) -> dict[str, Any]:
    return {"instruct": f"[[case:{case}]] Write a line.", "eval_crit": "It is a line."}


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
        if "criteria" in (asked.schema or {}).get("properties", {}):
            return Reply(score=self._random.uniform(0.3, 1.0), latency_s=latency_s)
        return Reply(text=json.dumps(self._verdict(number)), latency_s=latency_s)

    def _verdict(self, number: int) -> dict[str, Any]:
        score = round(self._random.uniform(0.3, 1.0), 3)
        return {
            "evaluation_reasoning": f"Judged as number {number}.",
            "improvement_suggestions": [] if score >= 0.8 else [f"Mend point {number}."],
            "meets_criteria": score >= 0.8,
            "score": score,
        }
