"""What to answer: rules of ready replies, counted apart for each case and role.

A script is JSON-able, so that another process can send it to `PUT /_script`.
"""

import itertools
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from tests.model_server.batch_script import BatchScript
from tests.model_server.quirks import Flavour, Quirk
from tests.model_server.requests import Asked, Dialect, Role

Fault = Literal[
    "hang",
    "reset",
    "reset_mid_body",
    "cut_body",
    "garbage",
    "trickle",
    # Of a streamed answer, when `after` pieces of its text are told.
    "stream_cut",
    "stream_reset",
    "stream_end",
    "stream_error",
    "stream_hang",
    # Of a request in a batch: what the results have in place of its line. It was executed and has a cost, but for the
    # first three.
    "line_expired",
    "line_canceled",
    "line_error",
    "line_missing",
    "line_malformed",
    "line_cut",
    "line_duplicate",
]


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `raw` (with `status`, `headers`) goes out as it is; else the dialect's body is built.

    `verdict` becomes the JSON text of an evaluator's reply; `score` fills whatever schema was asked for.

    A reply that `is_held` waits for `ModelServer.release`.

    When a stream is asked for, the same body goes out as events: its text in `pieces` (else by words), with
    `pause_s` before each. `stream_cut` breaks the connection after `after` pieces, `stream_reset` resets it,
    `stream_end` ends the stream without its terminator, `stream_error` sends `error` as an event (else
    "Overloaded"), and `stream_hang` falls silent. `events` goes out as it is: blocks of "data: …" lines.
    """

    text: str | None = None
    score: float | None = None
    verdict: Mapping[str, Any] | None = None
    status: int = 200
    raw: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    latency_s: float | None = None
    is_held: bool = False
    fault: Fault | None = None
    finish: str | None = None
    usage: Mapping[str, int] | None = None
    pieces: Sequence[str] | None = None
    events: Sequence[str] | None = None
    pause_s: float | None = None
    after: int = 1
    error: Any = None


def as_reply(item: Any) -> Reply:
    """A Reply from its short form: text, a score, a verdict (a mapping), or a Reply's fields as JSON."""
    if isinstance(item, Reply):
        return item
    if isinstance(item, str):
        return Reply(text=item)
    if isinstance(item, int | float) and not isinstance(item, bool):
        return Reply(score=float(item))
    if isinstance(item, Mapping):
        own = {f.name for f in fields(Reply)}
        return Reply(**item) if item.keys() <= own and item.keys() != {"score"} else Reply(verdict=item)
    raise TypeError(f"no reply can be made of {item!r}")


DRAFT: Mapping[str, Any] = {
    "reasoning": "The person wants to know a capital.",
    "instruct": "Name the capital of Switzerland.",
    "resp_format": "One sentence.",
    "eval_crit": "Names the city and nothing else.",
    "rubric": [
        {
            "id": "names-a-city",
            "text": "Names a city as the capital.",
            "kind": "binary",
            "required": True,
            "check": "none",
            "value": "",
            "level_0": "",
            "level_5": "",
        },
        {
            "id": "is-short",
            "text": "Has at most 20 words.",
            "kind": "check",
            "required": False,
            "check": "max_words",
            "value": "20",
            "level_0": "",
            "level_5": "",
        },
    ],
}
"""What is drafted without a script."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Replies for the requests that match; after the last one it stays with the last. None = any."""

    replies: Sequence[Any]
    role: Role | None = None
    case: str | None = None
    model: str | None = None
    dialect: Dialect | None = None

    def matches(self, asked: Asked) -> bool:
        return (
            self.role in {None, asked.role}
            and self.case in {None, asked.case}
            and self.model in {None, asked.model}
            and self.dialect in {None, asked.dialect}
        )


@dataclass(frozen=True, slots=True)
class Script:
    """The first matching rule answers; without one, generators say "draft N" and evaluators `scores`.

    `quirks` are what the server does not take (see `quirks.py`), told in the error bodies of `flavour`;
    a prompt beyond `context_tokens` is cut without a word, as Ollama does. `batch` is how batches behave; their
    requests get the replies of live ones.
    """

    rules: tuple[Rule, ...] = ()
    scores: tuple[float, ...] = (0.9,)
    latency_s: float = 0.0
    keep_log: bool = True
    pause_s: float = 0.0
    quirks: tuple[Quirk, ...] = ()
    flavour: Flavour = "openai"
    context_tokens: int | None = None
    batch: BatchScript = field(default_factory=BatchScript)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Script":
        rules = tuple(Rule(**rule) for rule in value.get("rules", ()))
        batch = BatchScript(**value.get("batch", {}))
        rest = {k: v for k, v in value.items() if k not in {"rules", "batch"}}
        rest = {k: tuple(v) if k in {"scores", "quirks"} else v for k, v in rest.items()}
        return cls(rules=rules, batch=batch, **rest)

    def to_json(self) -> dict[str, Any]:
        rules = [{**asdict(rule), "replies": [asdict(as_reply(r)) for r in rule.replies]} for rule in self.rules]
        return {**asdict(self), "rules": rules}


class Player:
    """A script being played: it knows how far each case has come."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._lock = threading.Lock()
        self._counters: dict[tuple[Any, ...], itertools.count[int]] = defaultdict(itertools.count)

    def next_reply(self, asked: Asked) -> Reply:
        for number, rule in enumerate(self.script.rules):
            if rule.matches(asked):
                return as_reply(self._pick(rule.replies, (number, asked.case, asked.role)))
        key = ("default", asked.case, asked.role)
        if asked.role == "evaluate":
            return as_reply(float(self._pick(self.script.scores, key)))
        if asked.role == "draft":
            return as_reply(DRAFT)
        return Reply(text=f"draft {self._turn(key) + 1}")

    def _turn(self, key: tuple[Any, ...]) -> int:
        with self._lock:
            return next(self._counters[key])

    def _pick(self, replies: Sequence[Any], key: tuple[Any, ...]) -> Any:
        return replies[min(self._turn(key), len(replies) - 1)]
