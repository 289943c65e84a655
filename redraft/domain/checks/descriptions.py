"""Describe checks in plain words, as statements that are true of a good answer."""

import json
from typing import Any, cast

from redraft.domain.checks.any_check import Check
from redraft.domain.checks.check_results import range_in_words
from redraft.domain.text.languages import name_of

_WORDS = {
    "json_schema": "The answer is JSON that fits this JSON Schema: {value}",
    "regex": "Somewhere in the answer, the pattern {value} matches.",
    "not_regex": "Nowhere in the answer does the pattern {value} match.",
    "contains": "The answer contains {value}.",
    "contains_all": "The answer contains all of {value}.",
    "contains_any": "The answer contains at least one of {value}.",
    "not_contains": "The answer contains nothing of {value}.",
    "starts_with": "The answer starts with {value}.",
    "ends_with": "The answer ends with {value}.",
    "equals": "The answer is {value} and nothing else.",
    "min_words": "The answer has at least {value} words.",
    "max_words": "The answer has at most {value} words.",
    "min_chars": "The answer has at least {value} characters.",
    "max_chars": "The answer has at most {value} characters.",
    "lines": "The answer has {amount} lines that are not blank.",
    "bullets": "The answer has {amount} list items.",
    "language": "The answer is written in {language}.",
    "is_json": "The answer is JSON and nothing else.",
    "is_url_free": "The answer contains no web address.",
    "max_grade": "The answer can be read after {value} years of school: short sentences, short words.",
    "cites_all_sources": "The answer cites every source.",
    "http": "The answer passes the check {value}.",
    "package": "The answer passes the check {value}.",
    "numeric_between": "The answer holds exactly one number, {amount}.",
}


def describe_check(check: Check) -> str:
    """Describe a check as a statement that is true of a good answer."""
    parameters = check.model_dump(mode="json")
    value: Any = parameters.get("value")
    parts = cast("list[Any]", value) if isinstance(value, list) else [value]
    shown = ", ".join(json.dumps(part, ensure_ascii=False) for part in parts)
    language = name_of(value) if isinstance(value, str) else ""
    bounds = range_in_words(parameters.get("min"), parameters.get("max"))
    words = _WORDS[check.kind].format(
        value=shown, amount=bounds if value is None else f"exactly {value}", language=language
    )
    return f"{words} Small and capital letters are the same." if parameters.get("ignore_case") else words
