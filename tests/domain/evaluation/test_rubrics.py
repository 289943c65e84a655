"""Validation errors of rubrics: the place of the error, and what to write instead."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from redraft.domain.bodies.validation_errors import message_of, pointer_of
from redraft.domain.evaluation.rubrics import Rubric

RUBRICS: TypeAdapter[Rubric] = TypeAdapter(Rubric)


def error(rubric: Any) -> tuple[str, str]:
    with pytest.raises(ValidationError) as caught:
        RUBRICS.validate_python(rubric)
    (error,) = caught.value.errors()
    return pointer_of(error, rubric), message_of(error)


def check(spec: Any) -> dict[str, Any]:
    return {"id": "a", "kind": "check", "check": spec}


@pytest.mark.parametrize(
    ("criterion", "place", "words"),
    [
        ("Is short.", "/0", "each criterion is an object with id and text"),
        ({"text": "Is short."}, "/0/id", "This is required"),
        ({"id": "a b", "text": "Is short."}, "/0/id", "begins with a letter or digit and holds at most 64"),
        ({"id": "a" * 65, "text": "Is short."}, "/0/id", "begins with a letter or digit and holds at most 64"),
        ({"id": "a\n", "text": "Is short."}, "/0/id", "begins with a letter or digit and holds at most 64"),
        ({"id": "a"}, "/0/text", "needs a text"),
        ({"id": "a", "text": "Is short.", "wieght": 1}, "/0/wieght", "Unknown field"),
        ({"id": "a", "text": "Is short.", "anchors": {}}, "/0/anchors", "only a criterion of kind 'scale'"),
        (
            {"id": "a", "kind": "max_words", "value": 60},
            "/0/kind",
            'written "kind": "check", "check": {"kind": "max_words", "value": 60}',
        ),
        ({"id": "a", "kind": "contains", "value": "x" * 99}, "/0/kind", '"check": {"kind": "contains", …}'),
        ({"id": "a", "kind": "is_json"}, "/0/kind", '"check": {"kind": "is_json"}'),
        ({"id": "a", "kind": "check"}, "/0/check", "needs `check`, such as {"),
        ({"id": "a", "text": "A.", "check": {"kind": "is_json"}}, "/0/kind", 'add "kind": "check"'),
        (check("max_words"), "/0/check", "is an object, such as {"),
        (check({}), "/0/check/kind", "needs a `kind`, one of bullets,"),
        (check({"kind": ["lines"]}), "/0/check/kind", "needs a `kind`, one of bullets,"),
        (check({"kind": "max_word"}), "/0/check/kind", "there is no check 'max_word' (did you mean max_words?)"),
        (check({"kind": "Max-Words"}), "/0/check/kind", "did you mean max_words?"),
        (check({"kind": "zzzzzzzz"}), "/0/check/kind", "there is no check 'zzzzzzzz'; needs one of bullets,"),
        (check({"kind": "max_words"}), "/0/check/value", "This is required"),
        (check({"kind": "language", "value": "german"}), "/0/check/value", "such as de, en, fr"),
        (check({"kind": "regex", "value": "("}), "/0/check/value", "it is malformed"),
        (check({"kind": "regex", "value": r"\p{Nonsense}"}), "/0/check/value", "it is malformed"),
        (check({"kind": "regex", "value": "a(?=b)"}), "/0/check/value", "it has look-around"),
        (check({"kind": "regex", "value": "(?<!b)a"}), "/0/check/value", "it has look-around"),
        (check({"kind": "regex", "value": r"\(?=a(["}), "/0/check/value", "it is malformed"),
        (check({"kind": "regex", "value": r"(a)\1"}), "/0/check/value", "it has a back-reference"),
        (check({"kind": "regex", "value": "(?P<n>a)(?P=n)"}), "/0/check/value", "it has a back-reference"),
        (check({"kind": "regex", "value": r"\\1("}), "/0/check/value", "it is malformed"),
        (
            check({"kind": "regex", "value": "(((a{1,50}){1,50}){1,50}){1,50}"}),
            "/0/check/value",
            "it is too large when compiled",
        ),
    ],
)
def test_an_error_of_a_criterion_is_reported_at_the_field_to_change(criterion: Any, place: str, words: str):
    found_place, found_words = error([criterion])
    assert found_place == place
    assert words in found_words


def test_no_more_than_forty_characters_of_a_kind_are_repeated():
    _, words = error([check({"kind": "max_words" + "x" * 1000})])
    assert "max_words" + "x" * 31 + "'…" in words
    assert "x" * 32 not in words


def test_the_second_of_two_equal_ids_is_named():
    same = {"id": "a", "text": "Is short."}
    assert error([same, {**same, "id": "b"}, same]) == (
        "/2/id",
        "the id 'a' is there already; give each criterion its own",
    )
