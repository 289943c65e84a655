"""`skip: auto` skips the evaluation of small talk and sums, and of nothing else."""

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
def test_small_talk_is_not_evaluated(instruct: str):
    assert is_skipped(instruct)


@pytest.mark.parametrize(
    "instruct", ["2+2", "2 + 2 = ?", "What is 17 * 23?", "calculate 1,000.5 / 3", "(1+2)^3", "3\u00d74"]
)
def test_sums_are_not_evaluated(instruct: str):
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
def test_every_other_instruction_is_evaluated(instruct: str):
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
def test_a_request_with_criteria_or_sources_is_evaluated(fields: dict[str, Any]):
    assert not is_skipped("2+2", **fields)
