"""Every kind of check: answers that pass, answers that fail, and the messages."""

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from redraft.domain.checks.any_check import Check, CheckResult, run_check
from redraft.domain.evaluation.rubrics import Criterion
from tests.support.waiting import cpu_bound

CHECKS: TypeAdapter[Check] = TypeAdapter(Check)
ANY_TEXT = st.text(st.characters(exclude_categories=()))
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

OUTSIDE: list[dict[str, Any]] = [{"kind": "http", "value": "tone"}, {"kind": "package", "value": "shout"}]
EXAMPLES: list[dict[str, Any]] = [
    {"kind": "json_schema", "value": CITY},
    {"kind": "regex", "value": r"^\p{L}+$", "ignore_case": True},
    {"kind": "not_regex", "value": "(a+)+$"},
    {"kind": "contains", "value": "a", "ignore_case": True},
    {"kind": "contains_all", "value": ["a", "b"]},
    {"kind": "contains_any", "value": ["a", "é"]},
    {"kind": "not_contains", "value": ["a", "ß"], "ignore_case": True},
    {"kind": "starts_with", "value": "a"},
    {"kind": "ends_with", "value": "a"},
    {"kind": "equals", "value": "a"},
    {"kind": "min_words", "value": 2},
    {"kind": "max_words", "value": 2},
    {"kind": "min_chars", "value": 2},
    {"kind": "max_chars", "value": 2},
    {"kind": "lines", "value": 2},
    {"kind": "bullets", "min": 1, "max": 2},
    {"kind": "language", "value": "en"},
    {"kind": "is_json"},
    {"kind": "is_url_free"},
    {"kind": "max_grade", "value": 8},
    {"kind": "cites_all_sources"},
    {"kind": "numeric_between", "min": 0, "max": 1.5},
]


def found(spec: dict[str, Any], answer: str, sources: int = 0) -> CheckResult:
    return run_check(CHECKS.validate_python(spec), answer, sources=sources)


def check(kind: str, answer: str, **fields: Any) -> CheckResult:
    return found({"kind": kind, **fields}, answer)


@pytest.mark.parametrize(
    ("kind", "value", "answer", "passed", "message"),
    [
        ("max_words", 3, "one two three", True, "3 words, at most 3."),
        ("max_words", 3, "a b c d e", False, "Found 5 words, at most 3 are allowed: cut at least 2 words."),
        ("max_words", 1, "a b", False, "Found 2 words, at most 1 is allowed: cut at least 1 word."),
        ("max_words", 0, "", True, "0 words, at most 0."),
        ("min_words", 2, "a b", True, "2 words, at least 2."),
        ("min_words", 1000, "a", False, "Found 1 word, at least 1,000 are needed: add at least 999 words."),
        ("min_chars", 2, " a \n", False, "Found 1 character, at least 2 are needed: add at least 1 character."),
        ("max_chars", 1, FAMILY, True, "1 character, at most 1."),
        ("max_chars", 1, "ab", False, "Found 2 characters, at most 1 is allowed: cut at least 1 character."),
        ("lines", 2, "a\r\n\r\nb\r\n", True, "Exactly 2 lines."),
        ("lines", 2, "a", False, "Found 1 line, exactly 2 are wanted: add 1."),
        ("lines", 1, "a\u2028b\rc", False, "Found 3 lines, exactly 1 is wanted: remove 2."),
        ("bullets", 2, "- a\n* b", True, "Exactly 2 list items."),
    ],
)
def test_the_message_of_a_count_contains_the_difference(kind: str, value: int, answer: str, passed: bool, message: str):  # noqa: FBT001
    assert check(kind, answer, value=value) == CheckResult(passed, message)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"min": 1}, "3 list items, at least 1."),
        ({"max": 3}, "3 list items, at most 3."),
        ({"min": 1, "max": 3}, "3 list items, at most 3."),
        ({"min": 4}, "Found 3 list items, at least 4 are needed: add at least 1 list item."),
        ({"min": 4, "max": 5}, "Found 3 list items, at least 4 are needed: add at least 1 list item."),
        ({"min": 1, "max": 2}, "Found 3 list items, at most 2 are allowed: cut at least 1 list item."),
        ({"max": 0}, "Found 3 list items, at most 0 are allowed: cut at least 3 list items."),
    ],
)
def test_the_message_of_a_range_names_the_bound_that_was_missed(bounds: dict[str, int], message: str):
    assert check("bullets", "- a\n- b\n- c", **bounds).message == message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don't stop at 3.5 or 1,000", 6),
        ("e-mail", 2),
        ("**bold** — _italic_ 😀", 2),
        ("水はきれい", 5),
        ("テレビ", 1),
        ("مرحبا بالعالم", 2),
        ("\u202bשלם\u202c שלם", 2),
        ("cafe\u0301 ouvert", 2),
        ("한국어 문장", 2),
    ],
)
def test_words_are_those_of_unicode(text: str, words: int):
    assert check("max_words", text, value=words).message == f"{words} word{'s' * (words != 1)}, at most {words}."


@pytest.mark.parametrize("character", [FAMILY, "e\u0301", "\U0001f1e8\U0001f1ed", "각", "क्षि", "👍🏽", "\r\n"])
def test_a_character_is_a_grapheme_cluster(character: str):
    assert check("max_chars", f"a{character}b", value=3).message == "3 characters, at most 3."


@pytest.mark.parametrize(
    "line",
    ["- a", "* a", "+ a", "• a", "\u2013 a", "1. a", "12) a", "    - a", "\t* a", "> - a", "- [ ] a", "-\u00a0a"],
)
def test_a_list_item_counts_at_any_depth(line: str):
    assert check("bullets", f"Text:\n\n{line}\n", value=1).passed


@pytest.mark.parametrize(
    "text",
    [
        "- - -",
        "***",
        "-",
        "-a",
        "**a** b",
        "1.5 a",
        "a - b",
        "```\n- a\n```",
        "~~~\n```\n- a\n~~~",
        "````\n```\n- a\n```\n````",
        "```\n- a",
    ],
)
def test_a_line_that_looks_like_a_list_item_does_not_count(text: str):
    assert check("bullets", text, max=0).passed


def test_a_fence_within_an_item_hides_no_later_items():
    assert check("bullets", "- ```\n  - x\n  ```\n- b", value=2).passed


@pytest.mark.parametrize(
    ("spec", "answer", "passed", "message"),
    [
        ({"kind": "contains", "value": "é"}, "cafe\u0301", True, 'Holds "é".'),
        ({"kind": "contains", "value": "a\nb"}, "a\r\nb", True, 'Holds "a b".'),
        ({"kind": "contains", "value": "Bern"}, "Basel", False, 'Missing: "Bern". Write it word for word.'),
        (
            {"kind": "contains", "value": "Bern"},
            "BERN",
            False,
            'Missing: "Bern" ("Bern" is there in other letters, small or capital). Write it word for word.',
        ),
        ({"kind": "contains", "value": "STRASSE", "ignore_case": True}, "die Straße", True, 'Holds "STRASSE".'),
        (
            {"kind": "contains_all", "value": ["a", "b", "c", "d", "e", "f"]},
            "a",
            False,
            'Missing: "b", "c", "d" and 2 more. Write it word for word.',
        ),
        ({"kind": "contains_all", "value": ["a", "b"]}, "ab", True, 'Holds "a", "b".'),
        ({"kind": "contains_any", "value": ["x", "b"]}, "ab", True, 'Holds "b".'),
        (
            {"kind": "contains_any", "value": ["x", "y"]},
            "ab",
            False,
            'None of "x", "y" occurs: write at least one of them word for word.',
        ),
        ({"kind": "not_contains", "value": "x"}, "ab", True, 'Free of "x".'),
        (
            {"kind": "not_contains", "value": ["sorry", "as an AI"], "ignore_case": True},
            "Sorry, I am Sorry.",
            False,
            'Found "sorry", 2 times in all, first in "sorry, i am sorry.": remove every occurrence.',
        ),
        ({"kind": "starts_with", "value": "Dear"}, "\n Dear Ann", True, 'Starts with "Dear".'),
        (
            {"kind": "starts_with", "value": "Dear"},
            "Hi Ann",
            False,
            'The answer starts with "Hi Ann": put "Dear" at its very beginning.',
        ),
        ({"kind": "ends_with", "value": "Yours, B"}, "Hi\nYours, B\n", True, 'Ends with "Yours, B".'),
        (
            {"kind": "ends_with", "value": "Yours"},
            "x" * 100,
            False,
            f'The answer ends with "…{"x" * 60}": put "Yours" at its very end.',
        ),
        ({"kind": "equals", "value": "Yes\n"}, " Yes", True, 'Is "Yes".'),
        ({"kind": "equals", "value": "yes", "ignore_case": True}, "YES", True, 'Is "yes".'),
        (
            {"kind": "equals", "value": "Yes"},
            "Yes.",
            False,
            'From character 4 on, the answer has "Yes.", not "Yes": write exactly the wanted text.',
        ),
        ({"kind": "regex", "value": r"^\d{4}$"}, "2024", True, r"Matches the pattern ^\d{4}$"),
        (
            {"kind": "regex", "value": r"^\d{4}$"},
            "in 2024",
            False,
            r"Nothing in the answer matches the pattern, so change the answer until a part of it does: ^\d{4}$",
        ),
        ({"kind": "regex", "value": "É+", "ignore_case": True}, "cafe\u0301", True, "Matches the pattern É+"),
        ({"kind": "not_regex", "value": "TODO|FIXME"}, "done", True, "Nothing matches the pattern TODO|FIXME"),
        (
            {"kind": "not_regex", "value": "TODO|FIXME"},
            "a\r\nb TODO c",
            False,
            'Line 2, "b TODO c", matches a pattern that must not match, so reword or remove that part: TODO|FIXME',
        ),
        (
            {"kind": "not_regex", "value": r"a\nb"},
            "a\nb",
            False,
            (
                "The answer, over several lines, matches a pattern that must not match, "
                r"so reword or remove that part: a\nb"
            ),
        ),
    ],
)
def test_messages_on_texts_and_patterns_contain_short_excerpts(
    spec: dict[str, Any],
    answer: str,
    passed: bool,  # noqa: FBT001
    message: str,
):
    assert found(spec, answer) == CheckResult(passed, message)


@pytest.mark.parametrize("spec", EXAMPLES, ids=[each["kind"] for each in EXAMPLES])
@given(answer=ANY_TEXT, sources=st.integers(0, 200))
@settings(max_examples=40)
def test_no_answer_raises(spec: dict[str, Any], answer: str, sources: int):
    result = found(spec, answer, sources)
    assert result.message
    assert len(result.message) < 2000


@pytest.mark.parametrize("spec", EXAMPLES, ids=[each["kind"] for each in EXAMPLES])
@given(answer=st.text(st.sampled_from("aàe\u0301\u0323ß가ᄀ\u1161 \r\n.-1#[]{}\u2028")))
@settings(max_examples=30)
def test_composed_and_decomposed_answers_are_the_same(spec: dict[str, Any], answer: str):
    assert found(spec, answer).passed == found(spec, unicodedata.normalize("NFC", answer)).passed


@pytest.mark.parametrize("noun", ["words", "chars"])
@given(answer=ANY_TEXT, bound=st.integers(0, 30))
@settings(max_examples=60)
def test_at_least_and_at_most_complement_each_other(noun: str, answer: str, bound: int):
    assert check(f"min_{noun}", answer, value=bound + 1).passed != check(f"max_{noun}", answer, value=bound).passed


@pytest.mark.parametrize(
    "answer",
    [
        "a" * 60_000 + "!",
        "a\u0300\u0316" + "\u0300\u0316" * 30_000,
        "- " * 30_000,
        "[1," * 20_000,
        "1,234 " * 10_000,
        "http://" * 10_000,
        "a." * 30_000,
        " \n>" * 20_000,
        "`" * 60_000,
        FAMILY * 6_000,
    ],
    ids=["letters", "marks", "items", "brackets", "numbers", "addresses", "dots", "blanks", "fences", "families"],
)
def test_no_answer_takes_long(answer: str):
    """Each of these would take far longer in quadratic time."""
    for spec in EXAMPLES:
        with cpu_bound(0.5):
            assert found(spec, answer, sources=200).message, spec


@pytest.mark.parametrize(
    ("spec", "place", "code"),
    [
        ({}, (), "unknown_check"),
        ({"kind": "zip"}, (), "unknown_check"),
        ({"kind": ["lines"]}, (), "unknown_check"),
        ({"kind": "max_words"}, ("value",), "missing"),
        ({"kind": "max_words", "value": -1}, ("value",), "greater_than_equal"),
        ({"kind": "max_words", "value": "3"}, ("value",), "int_type"),
        ({"kind": "max_words", "value": 3, "max": 3}, ("max",), "extra_forbidden"),
        ({"kind": "lines"}, (), "amount"),
        ({"kind": "lines", "value": 1, "min": 1}, (), "amount"),
        ({"kind": "bullets", "min": 3, "max": 2}, (), "range_reversed"),
        ({"kind": "numeric_between"}, (), "amount"),
        ({"kind": "numeric_between", "min": 3, "max": 2}, (), "range_reversed"),
        ({"kind": "numeric_between", "min": float("nan")}, ("min",), "finite_number"),
        ({"kind": "regex", "value": "("}, ("value",), "pattern"),
        ({"kind": "regex", "value": "(?=a)"}, ("value",), "pattern"),
        ({"kind": "regex", "value": r"(a)\1"}, ("value",), "pattern"),
        ({"kind": "regex", "value": "(((a{1,50}){1,50}){1,50}){1,50}"}, ("value",), "pattern"),
        ({"kind": "not_regex", "value": "a" * 1001}, ("value",), "string_too_long"),
        ({"kind": "contains", "value": ""}, ("value",), "string_too_short"),
        ({"kind": "contains_all", "value": []}, ("value",), "too_short"),
        ({"kind": "equals", "value": " "}, ("value",), "blank"),
        ({"kind": "language", "value": "xx"}, ("value",), "unknown_language"),
        ({"kind": "json_schema", "value": {"type": "strin"}}, ("value",), "invalid_schema"),
        ({"kind": "json_schema", "value": {"$ref": "file:///etc/passwd"}}, ("value",), "invalid_schema"),
        ({"kind": "json_schema", "value": {"a": "\ud800"}}, ("value",), "invalid_schema"),
        ({"kind": "json_schema", "value": True}, ("value",), "dict_type"),
        ({"kind": "max_grade", "value": -1}, ("value",), "greater_than_equal"),
    ],
)
def test_a_spec_that_cannot_be_used_is_refused_where_it_is_wrong(
    spec: dict[str, Any], place: tuple[str, ...], code: str
):
    with pytest.raises(ValidationError) as caught:
        CHECKS.validate_python(spec)
    (error,) = caught.value.errors()
    assert error["type"] == code
    assert tuple(part for part in error["loc"] if part != spec.get("kind")) == place


def test_the_examples_are_all_kinds():
    mapping = CHECKS.json_schema()["discriminator"]["mapping"]
    assert sorted(mapping) == sorted(each["kind"] for each in (*EXAMPLES, *OUTSIDE))


@pytest.mark.parametrize("spec", EXAMPLES + OUTSIDE, ids=[each["kind"] for each in EXAMPLES + OUTSIDE])
def test_a_criterion_with_a_check_comes_back_as_it_was_stored(spec: dict[str, Any]):
    criterion = Criterion.model_validate({"id": "form", "kind": "check", "check": spec})
    stored = json.loads(json.dumps(criterion.model_dump(mode="json")))
    assert Criterion.model_validate(stored) == criterion


@pytest.mark.parametrize("kind", ["regex", "not_regex"])
def test_a_pattern_searches_only_texts_that_it_cannot_take_long_for(kind: str):
    pattern = r"(?:[a-z]{1,100}){60}9"
    assert check(kind, "short 1", value=pattern).passed is (kind == "not_regex")
    found = check(kind, "abcdefghij" * 100_000, value=pattern)
    assert not found.passed
    assert "1,000,000 characters is too long" in found.message
