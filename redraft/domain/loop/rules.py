"""The fields of a request that control the loop."""

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["revise", "fresh", "encourage"]


@dataclass(frozen=True, slots=True)
class Rules:
    """The fields of a request that control the loop.

    Attributes:
        iteration_limit: the highest number of an iteration. A continuation raises it.
        first_iteration: the number of the first iteration of the loop or of its latest continuation.
        prefers_latest: if scores are equal, the latest iteration is the best, as for yes/no evaluations.
        unchanged_patience: the loop stops after this number of successive iterations that repeat earlier answers.
    """

    iteration_limit: int
    first_iteration: int = 1
    plateau_patience: int = 2
    plateau_delta: float = 0.02
    strategy: Strategy = "revise"
    start_from: Literal["best", "last"] = "best"
    prefers_latest: bool = False
    unchanged_patience: int = 1
