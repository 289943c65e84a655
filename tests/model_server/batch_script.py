"""How the batch APIs behave; what their requests are answered is the script of live calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Operation = Literal["upload", "content", "delete", "create", "read", "list", "cancel", "results"]


@dataclass(frozen=True, slots=True)
class BatchScript:
    """A batch ends when it was read or listed `polls` times and is `seconds` old, unless batches are held.

    Attributes:
        polls: how often a batch is read or listed before it has ended; 0: it has ended as soon as it is created.
        is_held: no batch ends before `ModelServer.release`.
        unlisted: how many lists a batch is missing from, because the list of the server lags.
        state: what a running batch says of its state, in place of the state that it has.
        end: how batches end: `failed` batches (OpenAI's) are refused as a whole.
        done: how many requests are answered when a batch expires or is canceled.
        error: why batches fail.
        is_ordered: whether the results have the order of the requests; else they are shuffled.
        foreign: how many lines with ids of nobody are among the results.
        requests_max, bytes_max: the limits; None: those of the vendor.
        results_url: the address of the results that an ended batch of Anthropic tells; None: the true one.
        answers: what the next requests of an operation are answered, a `Reply` as JSON or None for the true answer.
            With a status, nothing is done; with a fault alone, it is done and the true answer is broken. If it is
            held, it is done, and the true answer waits for `ModelServer.release`.
    """

    polls: int = 1
    seconds: float = 0.0
    is_held: bool = False
    unlisted: int = 0
    state: str | None = None
    end: Literal["completed", "failed", "expired"] = "completed"
    done: int = 0
    error: str = "The file is no valid JSONL."
    is_ordered: bool = False
    foreign: int = 0
    requests_max: int | None = None
    bytes_max: int | None = None
    results_url: str | None = None
    answers: Mapping[Operation, Sequence[Any]] = field(default_factory=dict[Operation, Sequence[Any]])
