"""Checks that are typed as a kind and a value."""

from typing import Any

import pytest

from redraft.domain.checks.shorthand import misread_check, read_check


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("max_words", "60", {"value": 60}),
        ("min_chars", " 5 ", {"value": 5}),
        ("lines", "3", {"value": 3}),
        ("bullets", "2..4", {"min": 2, "max": 4}),
        ("bullets", "2..", {"min": 2}),
        ("lines", "..4", {"max": 4}),
        ("max_grade", "8.5", {"value": 8.5}),
        ("numeric_between", "-1.5..2", {"min": -1.5, "max": 2}),
        ("contains", "a=b..c", {"value": "a=b..c", "ignore_case": False}),
        ("contains_all", "one", {"value": ["one"], "ignore_case": False}),
        ("contains_any", '["one", "two"]', {"value": ["one", "two"], "ignore_case": False}),
        ("not_contains", "I think", {"value": "I think", "ignore_case": False}),
        ("regex", r"^\d+$", {"value": r"^\d+$", "ignore_case": False}),
        ("language", "en", {"value": "en"}),
        ("is_json", None, {}),
        ("cites_all_sources", None, {}),
        ("json_schema", '{"type": "object"}', {"value": {"type": "object"}}),
    ],
)
def test_a_check_is_read(kind: str, text: str | None, found: dict[str, Any]):
    assert read_check(kind, text).model_dump(exclude_none=True) == {"kind": kind, **found}


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("max_words", None, "needs a value"),
        ("max_words", "-1", "needs a whole number"),
        ("max_words", "9" * 9, "must be at most"),
        ("lines", "4..2", "`min` is larger than `max`"),
        ("lines", "..", "needs a range"),
        ("numeric_between", "5", "needs a range"),
        ("numeric_between", "nan..", "needs a number"),
        ("max_grade", "eight", "needs a number"),
        ("contains_all", "[1", "needs a JSON list of texts"),
        ("json_schema", "{", "needs a JSON Schema"),
        ("is_json", "yes", "is_json takes no value"),
        ("contains", None, "needs a value"),
        ("nonsense", "1", "one of bullets, cites_all_sources"),
        ("regex", "(", "malformed"),
        ("language", "xx", "no language"),
    ],
)
def test_an_invalid_check_is_reported(kind: str, text: str | None, words: str):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        read_check(kind, text)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("max_wrds=60", "'max_wrds=60' is no check; did you mean max_words=60?"),
        ("Max-Wrds = 60", "did you mean max_words=60?"),
        ("contain=the word Bern", "did you mean contains=the word Bern?"),
        ("max_wrds 60", "did you mean max_words=60?"),
        ("contains(Bern)", "write it as a criterion of kind 'check', contains=Bern."),
        ("max_words=60", "write it as a criterion of kind 'check', max_words=60."),
        ("is_json", "write it as a criterion of kind 'check', is_json."),
        ("is_jsn", "did you mean is_json?"),
        ("word_limit=60", "'word_limit=60' is no check: the kinds are "),
        ("matches=(", "'matches=(' is no check: the kinds are "),
    ],
)
def test_a_check_in_words_is_found(statement: str, words: str):
    assert words in (misread_check(statement) or "")


@pytest.mark.parametrize(
    "statement",
    [
        "Says that E = mc^2.",
        "E=mc^2 is explained.",
        "x=5",
        "area = pi * r^2 is derived",
        "line = a row of text",
        "Contains a joke.",
        "max_words is explained",
        "Well-meant",
        "Language",
        "answer: yes",
        "",
    ],
)
def test_a_sentence_with_an_equals_sign_is_no_check(statement: str):
    assert misread_check(statement) is None
