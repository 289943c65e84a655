"""What `skip: auto` takes for too simple to judge: small talk and sums, and nothing that is asked in earnest."""

from typing import Any

import pytest

from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.jobs.skip_rules import skip_reason


def is_skipped(instruct: str, **fields: Any) -> bool:
    request = {"instruct": instruct, "eval_crit": "C", "evaluation": {"skip": "auto"}, **fields}
    return skip_reason(GenerateAnswer.model_validate(request)) is not None


@pytest.mark.parametrize(
    "instruct",
    ["Hi", "hello!", "  Good  morning. ", "Thank you very much!", "¿Hola?", "你好", "Merci beaucoup", "Guten Tag!"],
)
def test_small_talk_is_not_judged(instruct: str):
    assert is_skipped(instruct)


@pytest.mark.parametrize(
    "instruct", ["2+2", "2 + 2 = ?", "What is 17 * 23?", "calculate 1,000.5 / 3", "(1+2)^3", "3\u00d74"]
)
def test_sums_are_not_judged(instruct: str):
    assert is_skipped(instruct)


@pytest.mark.parametrize(
    "instruct",
    [
        "Explain gravity.",
        "Hi, write a poem about rain.",
        "What is love?",
        "2+2 and why?",
        "What is 2+2 in Roman numerals?",
        "Why?",
        "...",
        "+",
        "1" * 200,
    ],
)
def test_all_else_is_judged(instruct: str):
    assert not is_skipped(instruct)


@pytest.mark.parametrize(
    "fields",
    [
        {"evaluation": {"skip": "never"}},
        {"evaluation": {"skip": "when_checks_fail"}},
        {"resp_format": "one word"},
        {"rubric": [{"id": "a", "text": "A"}]},
        {"reference": "4"},
        {"sources": [{"content": "S"}]},
        {"answer_schema": {"type": "object"}},
    ],
)
def test_whoever_names_something_to_judge_by_is_judged(fields: dict[str, Any]):
    assert not is_skipped("2+2", **fields)
