"""The arms: requests that spend at most the same number of model calls in different ways."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.evidence.tasks import Task

Row = dict[str, Any]
CALLS = 4
"""The model calls that a job may make, besides retries of failed calls."""


def _by_checks(task: Task) -> Row:
    return task.row()


def _by_model(task: Task) -> Row:
    row = task.row()
    return {**row, "rubric": [{**each, "kind": "binary", "check": None} for each in row["rubric"]]}


def _by_both(task: Task) -> Row:
    row = task.row()
    follows = {"id": "follows", "text": "The answer follows the task.", "kind": "binary"}
    return {**row, "rubric": [*row["rubric"], follows]}


def _told_by_feedback(task: Task) -> Row:
    row = task.row()
    shown = {"hidden": False}
    unnamed = [{**each, **shown, "text": f"It meets rule {number}"} for number, each in enumerate(row["rubric"], 1)]
    return {**row, "instruct": task.brief, "rubric": unnamed}


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """One way to spend the calls. `rows` makes the row of a task; `fields` replace the fields of each row."""

    name: str
    words: str
    fields: Row
    rows: Callable[[Task], Row] = field(default=_by_checks)


def _loop(iterations: int = CALLS, **fields: Any) -> Row:
    # The bundled model's own default is `short`
    return {"iter_max": iterations, "stop": {"plateau_patience": 0}, "generator_template": "standard", **fields}


_FRESH: Row = {"revision": {"strategy": "fresh"}}
_SHORT: Row = {"generator_template": "short"}
ARMS = [
    Arm("first", "the first answer", _loop(1)),
    Arm("best_of", f"the best of {CALLS} answers", _loop(1, candidates=CALLS)),
    Arm("revise", "the loop; revises the best answer", _loop(revision={"strategy": "revise"})),
    Arm("fresh", "the loop; writes anew with feedback", _loop(**_FRESH)),
    Arm("encourage", "the loop; asks for a better answer", _loop(revision={"strategy": "encourage"})),
    Arm(
        "feedback_only",
        "the loop; the criteria are told only by feedback",
        _loop(revision={"strategy": "revise"}),
        _told_by_feedback,
    ),
    Arm("model", "the loop; a model evaluates", _loop(CALLS // 2), _by_model),
    Arm("best_of_model", "the best answer by a model", _loop(1, candidates=CALLS // 2), _by_model),
    Arm(
        "both",
        "the loop; checks, and a model for what passes them",
        _loop(CALLS // 2, evaluation={"skip": "when_checks_fail"}),
        _by_both,
    ),
    Arm("pairs", "two answers, then two with feedback", _loop(CALLS // 2, candidates=2, **_FRESH)),
    Arm("short_first", "the first answer, with a short prompt", _loop(1, **_SHORT)),
    Arm("short_best_of", f"the best of {CALLS} answers, with a short prompt", _loop(1, candidates=CALLS, **_SHORT)),
    Arm("short_revise", "the loop; revises, with a short prompt", _loop(**_SHORT)),
    Arm("short_fresh", "the loop; writes anew with feedback, with a short prompt", _loop(**_FRESH, **_SHORT)),
]
