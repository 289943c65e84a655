"""Turns the assertions of promptfoo into criteria."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from redraft.importing.criteria import Part, binary, check, escaped, scale
from redraft.importing.openai_graders import similar
from redraft.importing.texts import NotCarried, in_words
from redraft.importing.values import Fields, as_list, as_object, is_number

Render = Callable[[str], str]
Load = Callable[[str], Any]

_EFFECT_FREE = {"type", "value", "weight", "metric", "provider", "threshold"}
_CODE = ("javascript", "python", "ruby", "webhook")
_CELL_PREFIXES = {
    **dict.fromkeys(("javascript:", "fn:", "eval:"), "javascript"),
    **dict.fromkeys(("grade:", "llm-rubric:"), "llm-rubric"),
    "python:": "python",
}
_LISTS = ("contains-all", "contains-any", "icontains-all", "icontains-any")
# The defaults of promptfoo
_G_EVAL_THRESHOLD = 0.7
_SIMILAR_THRESHOLD = 0.75


def assertion_in(cell: str) -> dict[str, Any]:
    """Return the assertion that the text of a cell `__expected` in a CSV file means."""
    for prefix, kind in _CELL_PREFIXES.items():
        if cell.startswith(prefix):
            return {"type": kind, "value": cell.removeprefix(prefix).strip()}
    found = _IN_CELL.fullmatch(cell)
    if found is None:
        return {"type": "equals", "value": cell}
    value: Any = found[4]
    if found[2] in _LISTS and value is not None:
        value = [each.strip() for each in value.split(",")]
    # White space is a part of the text that an answer must equal
    elif value is not None and found[2] != "equals":
        value = value.strip()
    spec = {"type": (found[1] or "") + found[2], "value": value, "threshold": found[3] and float(found[3])}
    return {name: each for name, each in spec.items() if each is not None}


def parts_of(assertion: Fields, render: Render, load: Load) -> Iterator[Part]:
    """Yield the criteria of an assertion. Raises NotCarried if the assertion cannot be carried over.

    `load` returns the content of a file that a value names by `file://`.
    """
    kind = assertion.get("type")
    if not isinstance(kind, str):
        raise NotCarried("it has no type")
    if kind == "assert-set":
        yield from _set(assertion, render, load)
        return
    _ensure_plain(assertion)
    base = kind.removeprefix("not-")
    if base not in _KINDS:
        raise NotCarried(_reason(base))
    value = _value(assertion.get("value"), render, load)
    threshold = assertion.get("threshold")
    weight = assertion.get("weight", 1)
    if not is_number(weight) or not 0 <= weight <= 1000:
        raise NotCarried("its weight is no number from 0 to 1000")
    name = assertion.get("metric")
    name = render(name) if isinstance(name, str) else kind
    if kind == base:
        yield Part(name, _KINDS[base](value, threshold), weight)
    elif base in _NEGATED:
        yield Part(name, _NEGATED[base](value), weight)
    # A fault is a criterion of negative weight, so a fault without weight is not possible
    elif not weight:
        raise NotCarried("a negation without weight has no counterpart")
    else:
        yield Part(name, _KINDS[base](value, threshold), weight, is_fault=True)


def notes_on(assertion: Fields) -> Iterator[str]:
    """Yield how the criterion differs from its assertion."""
    kind = str(assertion.get("type")).removeprefix("not-")
    if kind == "similar":
        yield "the evaluator rates the similarity, which promptfoo computed from embeddings"
    if kind == "g-eval" or (kind == "llm-rubric" and assertion.get("threshold") is not None):
        yield "the evaluator chooses one of six levels instead of any number"


def _ensure_plain(assertion: Fields) -> None:
    for name in sorted(set(assertion) - _EFFECT_FREE):
        what = "changes the answer by code" if name in ("transform", "contextTransform") else "has no counterpart"
        raise NotCarried(f"its `{name}` {what}")


def _set(assertion: Fields, render: Render, load: Load) -> Iterator[Part]:
    if "threshold" in assertion:
        raise NotCarried("a set of assertions with a threshold has a score of its own")
    if set(assertion) - {"type", "assert", "metric"}:
        raise NotCarried("the set has fields without a counterpart")
    for each in as_list(assertion.get("assert")):
        yield from parts_of(as_object(each), render, load)


def _value(value: Any, render: Render, load: Load) -> Any:
    if isinstance(value, str):
        return load(value) if value.startswith("file://") else render(value)
    if isinstance(value, list):
        entries = as_list(value)
        if any(isinstance(each, str) and each.startswith("file://") for each in entries):
            raise NotCarried("an entry of its value is a file")
        return [render(each) if isinstance(each, str) else each for each in entries]
    return value


def _text(value: Any) -> str:
    if isinstance(value, dict | list) or value is None or value == "":
        raise NotCarried("its value is no text")
    return in_words(value)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        value = _split(value)
    if not as_list(value):
        raise NotCarried("its value is no list of texts")
    return [_text(each) for each in as_list(value)]


def _split(text: str) -> list[str]:
    """Split a list in one text at its commas. A comma within quotes would be ambiguous, so quotes are refused."""
    if '"' in text:
        raise NotCarried("its list is one text with quotes; write it as a list")
    return [each.strip() for each in text.split(",") if each.strip()]


def _equals(value: Any) -> dict[str, Any]:
    if isinstance(value, dict | list):
        return check("json_schema", {"const": value})
    return check("equals", _text(value))


def _is_json(value: Any) -> dict[str, Any]:
    if value is None or value == "":
        return check("is_json")
    if not isinstance(value, dict):
        raise NotCarried("its schema is no object")
    return check("json_schema", as_object(value))


def _word_count(value: Any) -> dict[str, Any]:
    bounds = as_object(value) or {"min": value, "max": value}
    low, high = (_count(bounds.get(name)) for name in ("min", "max"))
    if low is None and high is None:
        raise NotCarried("its value has no number of words")
    # promptfoo counts texts between white space as words, unlike the checks min_words and max_words
    words = f"{{{low or 0},{'' if high is None else high}}}"
    return {**check("regex", rf"^\s*(?:\S+(?:\s+|$)){words}$"), "text": f"The number of words is {_bounds(low, high)}"}


def _count(value: Any) -> int | None:
    if value is None:
        return None
    if not (text := in_words(value)).isdecimal():
        raise NotCarried("its value has no number of words")
    return int(text)


def _bounds(low: Any, high: Any) -> str:
    return " and ".join(
        [*([f"at least {low}"] if low is not None else []), *([f"at most {high}"] if high is not None else [])]
    )


def _rubric(value: Any, threshold: Any) -> dict[str, Any]:
    text = _text(value)
    return binary(text) if threshold is None else _graded(text, threshold)


def _g_eval(value: Any, threshold: Any) -> dict[str, Any]:
    lines = _texts(value) if isinstance(value, list) else [_text(value)]
    return _graded("\n".join(lines), _G_EVAL_THRESHOLD if threshold is None else threshold)


def _graded(text: str, threshold: Any) -> dict[str, Any]:
    if not is_number(threshold) or not 0 <= threshold <= 1:
        raise NotCarried("its threshold is not from 0 to 1")
    return scale(text, "a score of 0", f"a score of {threshold:g}", "a score of 1")


_KINDS: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "equals": lambda value, _: _equals(value),
    "contains": lambda value, _: check("contains", _text(value)),
    "icontains": lambda value, _: check("contains", _text(value), ignore_case=True),
    "contains-all": lambda value, _: check("contains_all", _texts(value)),
    "contains-any": lambda value, _: check("contains_any", _texts(value)),
    "icontains-all": lambda value, _: check("contains_all", _texts(value), ignore_case=True),
    "icontains-any": lambda value, _: check("contains_any", _texts(value), ignore_case=True),
    "starts-with": lambda value, _: check("starts_with", _text(value)),
    "regex": lambda value, _: check("regex", _text(value)),
    "is-json": lambda value, _: _is_json(value),
    "word-count": lambda value, _: _word_count(value),
    "llm-rubric": _rubric,
    "model-graded-closedqa": lambda value, _: binary(_text(value)),
    "factuality": lambda value, _: binary(
        f"The answer agrees with this statement, and contradicts none of it: {_text(value)}"
    ),
    "model-graded-factuality": lambda value, _: binary(
        f"The answer agrees with this statement, and contradicts none of it: {_text(value)}"
    ),
    "g-eval": _g_eval,
    "similar": lambda value, threshold: similar(_text(value), _SIMILAR_THRESHOLD if threshold is None else threshold),
}
_NEGATED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "contains": lambda value: check("not_contains", _text(value)),
    "icontains": lambda value: check("not_contains", _text(value), ignore_case=True),
    "contains-any": lambda value: check("not_contains", _texts(value)),
    "icontains-any": lambda value: check("not_contains", _texts(value), ignore_case=True),
    "regex": lambda value: check("not_regex", _text(value)),
    "equals": lambda value: check("not_regex", rf"^\s*{escaped(_text(value))}\s*$"),
    "starts-with": lambda value: check("not_regex", rf"^\s*{escaped(_text(value))}"),
}
_SIMILAR = ("similar:cosine", "similar:dot", "similar:euclidean")
_NOT_CARRIED = frozenset(
    (
        *("agent-rubric", "answer-relevance", "bleu", "classifier", "contains-html", "contains-json", "contains-sql"),
        *("contains-xml", "context-faithfulness", "context-recall", "context-relevance", "conversation-relevance"),
        *("cost", "finish-reason", "gleu", "guardrails", "is-html", "is-refusal", "is-sql", "is-valid-function-call"),
        *("is-valid-openai-function-call", "is-valid-openai-tools-call", "is-xml", "latency", "levenshtein"),
        *("max-score", "meteor", "moderation", "perplexity", "perplexity-score", "pi", "rouge-n", "search-rubric"),
        *("select-best", "skill-used", "tool-call-f1", "trace-error-spans", "trace-span-count", "trace-span-duration"),
    )
)

# The text of a cell: an optional negation, a kind, an optional threshold and an optional value
_NAMES = "|".join(sorted(map(re.escape, {*_KINDS, *_NOT_CARRIED, *_SIMILAR}), key=len, reverse=True))
_IN_CELL = re.compile(rf"(not-)?({_NAMES})(?:\((\d+(?:\.\d+)?)\))?(?::([\s\S]*))?")


def _reason(kind: str) -> str:
    if kind in _CODE:
        return "it is code, which is not carried" if kind != "webhook" else "it calls a server of its own"
    if kind in _NOT_CARRIED or kind.startswith((*_SIMILAR, "trajectory:", "promptfoo:")):
        return "Redraft has no counterpart"
    return "this kind is not known"
