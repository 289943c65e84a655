"""The fields of the form for a job: their labels, their order, and the conversion between texts and values."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast, get_args

from api.http.bodies import parse_json
from api.http.problems import HttpProblem
from api.pages.parts.forms import read_names, read_number
from redraft.domain.structured.named_schemas import StructureName

# Groups of fields that repeat: the noun of a group, and the parts of each of its items
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "criterion": ("Criterion", ("kind", "text", "value", "weight", "flags", "id", "anchors", "more")),
    "source": ("Source", ("title", "content", "more")),
    "turn": ("Turn", ("user", "assistant")),
}


def read_json(text: str) -> Any:
    """Parse JSON. Raises ValueError with the rest of a sentence after the label of the field."""
    try:
        return parse_json(text.encode("utf-8", "replace"))
    except HttpProblem as problem:
        raise ValueError(problem.detail.replace("The body", "this").rstrip(".")) from None


def read_object(text: str) -> dict[str, Any]:
    """Parse a JSON object; an empty text is an empty object. Raises ValueError as `read_json` does."""
    found: Any = read_json(text) if text.strip() else {}
    if not isinstance(found, dict):
        raise ValueError("this is not a JSON object")  # noqa: TRY004 - a value of a user
    return cast("dict[str, Any]", found)


def write_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _read_schema(text: str) -> Any:
    return text.strip() if text.strip() in get_args(StructureName) else read_json(text)


def _read_pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"write each line as KEY=VALUE, not as {line.strip()[:80]}")
        if key.strip() in found:
            raise ValueError(f"{key.strip()[:80]} is given twice")
        found[key.strip()] = value.strip()
    return found


def _read_panel(text: str) -> list[str]:
    found = read_names(text)
    return [found] if isinstance(found, str) else found


def _write_names(names: Any) -> str:
    return names if isinstance(names, str) else "\n".join(names)


def _read_answer(text: str) -> bool | str:
    return {"yes": True, "no": False}.get(text, text)


def _write_answer(value: bool) -> str:  # noqa: FBT001
    return "yes" if value else "no"


@dataclass(frozen=True, slots=True)
class Field:
    """A form field, the group of its request field, and functions that convert between text and value.

    The prefix of a name distinguishes fields that have the same name in two groups.
    """

    name: str
    label: str
    group: str = ""
    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str
    prefix: str = ""

    @property
    def path(self) -> tuple[str, ...]:
        own = self.name.removeprefix(self.prefix)
        return (self.group, own) if self.group else (own,)


def _number(name: str, label: str, group: str = "", prefix: str = "") -> Field:
    return Field(
        name, label, group, read_number, lambda value: str(int(value) if value == int(value) else value), prefix
    )


def _grounding(name: str, label: str, *, is_answer: bool = False) -> Field:
    convert = (_read_answer, _write_answer) if is_answer else (str, str)
    return Field(f"grounding_{name}", label, "grounding", *convert, "grounding_")


_EVALUATOR = "evaluator_"
_OF_EVALUATOR = "evaluator_sampling"

# In the order of the page, in which errors are listed
FIELDS = (
    Field("instruct", "Instruction"),
    Field("resp_format", "Response format"),
    Field("eval_crit", "Criteria"),
    _number("iter_max", "Maximum iterations"),
    _number("score_threshold", "Threshold"),
    Field("model", "Generator", "", read_names, _write_names),
    Field("evaluator_model", "Evaluator", "", str.strip),
    Field("stream", "Show the answer while it is generated", "", bool, lambda value: "on" if value else ""),
    Field("panel", "Panel", "evaluation", _read_panel, _write_names),
    _number("samples", "Calls per evaluator", "evaluation"),
    Field("audit", "Audit", "evaluation", str.strip),
    Field("skip", "Skip the evaluation", "evaluation"),
    Field("when", "The answer is evaluated", "evaluation"),
    _number("sample", "Sample", "evaluation"),
    _number("min_answer_chars", "Shortest evaluated answer, in characters", "evaluation"),
    Field("profile", "Profile", "", str.strip),
    _grounding("mode", "Mode"),
    _grounding("output_format", "Output format"),
    _grounding("template", "Grounding template"),
    _grounding("citation_style", "Style of citations"),
    _grounding("include_citations", "Cite the sources", is_answer=True),
    _grounding("require_grounding", "Every statement needs a source", is_answer=True),
    _grounding("annotate_unverified", "List unverified statements", is_answer=True),
    _number("candidates", "Candidates"),
    Field("strategy", "After a low score", "revision"),
    Field("revise_from", "Revise", "revision", prefix="revise_"),
    _number("plateau_patience", "Stop after iterations without a gain", "stop"),
    _number("plateau_delta", "Smallest gain of the score", "stop"),
    Field("system_instructions", "System instructions"),
    Field("generator_template", "Prompt template", "", str.strip),
    Field("vars", "Variables", "", read_json, write_json),
    Field("reference", "Reference"),
    Field("answer_schema", "Schema of the answer", "", _read_schema, write_json),
    _number("temperature", "Temperature", "sampling"),
    _number("max_output_tokens", "Maximum tokens of one answer", "sampling"),
    _number("top_p", "Top p", "sampling"),
    _number("seed", "Seed", "sampling"),
    Field("reasoning_effort", "Reasoning effort", "sampling", str.strip),
    _number("evaluator_temperature", "Evaluator temperature", _OF_EVALUATOR, _EVALUATOR),
    _number("evaluator_max_output_tokens", "Maximum tokens of one verdict", _OF_EVALUATOR, _EVALUATOR),
    _number("evaluator_top_p", "Evaluator top p", _OF_EVALUATOR, _EVALUATOR),
    _number("evaluator_seed", "Evaluator seed", _OF_EVALUATOR, _EVALUATOR),
    Field("evaluator_reasoning_effort", "Evaluator reasoning effort", _OF_EVALUATOR, str.strip, str, _EVALUATOR),
    _number("deadline_s", "Time limit of the job, in seconds", "limits"),
    _number("max_tokens", "Maximum tokens of the job", "limits"),
    _number("max_cost_usd", "Maximum cost of the job, in USD", "limits"),
    Field("cache", "Identical earlier calls"),
    Field("metadata", "Metadata", "", _read_pairs, lambda pairs: "\n".join(map("=".join, pairs.items()))),
)
BY_PATH = {each.path: each for each in FIELDS}
_OTHERS = {
    "rubric": "Rubric",
    "attachments": "Images and PDFs",
    "sources": "Sources",
    "conversation": "Conversation",
    "try_job": "Past answer",
    "more": "Further fields",
}
LABELS = {each.name: each.label for each in FIELDS} | _OTHERS
# An empty form shows these defaults, so that users see how the job will run
SHOWN_DEFAULTS = frozenset(
    ("iter_max", "score_threshold", "profile", "candidates", "strategy", "deadline_s", "cache", "when")
)

_PAGE = [each.name for each in FIELDS]
_PAGE.insert(_PAGE.index("iter_max"), "rubric")
_PAGE.insert(_PAGE.index("rubric") + 1, "try_job")
_PAGE.insert(_PAGE.index("profile") + 1, "sources")
_PAGE.insert(_PAGE.index("candidates"), "attachments")
_PAGE.insert(_PAGE.index("candidates"), "conversation")
ORDER = {name: number for number, name in enumerate([*_PAGE, "more"])}
_LIST_OF = {"criterion": "rubric", "source": "sources", "turn": "conversation"}


def place_of(field: str) -> tuple[int, int, int]:
    """Return a key that sorts fields by their place on the page. Names of row fields end with the row number."""
    if field in ORDER:
        return ORDER[field], 0, 0
    group, _, rest = field.partition("_")
    if group not in GROUPS:
        return len(ORDER), 0, 0
    part, number = rest.rsplit("_", 1)
    return ORDER[_LIST_OF[group]], int(number), GROUPS[group][1].index(part)


def label_of(field: str) -> str:
    """Return the label of a field, or "The request" if the error concerns the whole request."""
    group, _, rest = field.partition("_")
    if field not in LABELS and group in GROUPS:
        part, number = rest.rsplit("_", 1)
        return f"{GROUPS[group][0]} {number}, {part}"
    return LABELS.get(field, "The request")
