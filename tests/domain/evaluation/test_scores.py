"""Scores in the notations of models (cases A07, A08, A09, A10)."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.evaluation.scores import ScoreError, describe, meets, read_score

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("value", "score"),
    [
        ("8/10", 0.8),
        ("0.85/1.0", 0.85),
        ("85%", 0.85),
        ("85 %", 0.85),
        ("0.85", 0.85),
        (".85", 0.85),
        (8.5e-1, 0.85),
        (" 4.2 / 10 ", 0.42),
        ("4 out of 5", 0.8),
        ("4 Out  Of 5", 0.8),
        ("100%", 1.0),
        ("0/10", 0.0),
        ("+0.5", 0.5),
        ("1e-1", 0.1),
        ("1", 1.0),
        (1, 1.0),
        (0, 0.0),
        (1.0, 1.0),
    ],
)
def test_a_score_is_read_in_each_way_that_models_write_it(value: object, score: float):
    assert read_score(value) == score


@pytest.mark.parametrize("value", [-0.0, "-0.0", "-0/10", "-0%"])
def test_minus_zero_becomes_zero(value: object):
    assert math.copysign(1, read_score(value)) == 1


@pytest.mark.parametrize(
    "value",
    [
        8,
        85,
        98989,
        10**400,
        9.2e124,
        -0.2,
        1.5,
        1.0000001,
        math.nan,
        math.inf,
        -math.inf,
        float("1e999"),
        None,
        True,
        False,
        "True",
        "NaN",
        "Infinity",
        "N/A",
        "",
        "8",
        "85",
        "0.85 (strong)",
        "about 0.85",
        "0,85",
        "8/0",
        "0/0",
        "8/10/10",
        "-8/-10",
        "8/-10",
        "12/10",
        "120%",
        "80%/100",
        "1e999",
        "1e999/1e999999999999999999999",
        "0.8.1",
        "0.7-0.9",
        "\u0660.\u0668",
        [],
        [0.8],
        {"value": 0.8},
        (0.8,),
    ],
)
def test_everything_else_is_an_error_and_never_clamped(value: object):
    with pytest.raises(ScoreError):
        read_score(value)


@given(JSON_VALUES | st.from_regex(r"\A[0-9. /%e+-]{1,9}\Z"))
def test_any_json_value_is_a_score_within_bounds_or_a_score_error(value: Any):
    try:
        score = read_score(value)
    except ScoreError:
        return
    assert 0 <= score <= 1


@given(st.floats(0, 1))
def test_a_number_within_bounds_is_its_own_score_also_as_text(score: float):
    assert read_score(score) == read_score(repr(score)) == score


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true"),
        (8, "8"),
        pytest.param(10**5000, "a huge number", id="huge"),
        (math.nan, "NaN"),
        ({}, "an object"),
        ([], "a list"),
        ((), "a tuple"),
        ("x" * 100, '"' + "x" * 40 + '…"'),
        ("a\x00b", '"ab"'),
    ],
)
def test_messages_name_what_was_seen_shortly(value: object, words: str):
    assert describe(value) == words


@pytest.mark.parametrize(
    ("score", "threshold", "enough"),
    [
        (0.8, 0.8, True),
        (0.1 + 0.7, 0.8, True),
        (0.7999999995, 0.8, True),
        (0.799999, 0.8, False),
        (0.0, 0.0, True),
        (1.0, 1.0, True),
    ],
)
def test_a_score_meets_a_threshold_within_the_error_of_binary_fractions(score: float, threshold: float, enough: bool):  # noqa: FBT001
    assert meets(score, threshold) is enough
