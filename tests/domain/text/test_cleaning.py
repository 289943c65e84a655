"""Texts cleaned, compared and cut."""

import json
import math
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.text.cleaning import NESTING_MAX, clean, clean_json, fold, preview

ANY_TEXT = st.text(st.characters(exclude_categories=()))
NONCE = "k3Jd92Qx7b"
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Alpha\x00Beta. The escape is written \\u0000 in JSON.", "AlphaBeta. The escape is written \\u0000 in JSON."),
        ("tab\tline\nreturn\r\n", "tab\tline\nreturn\r\n"),
        ("a\x01b\x08c\x1bd\x1fe", "abcde"),
        pytest.param("page1\x0cpage2 a\x0bb", "page1 page2 a b", id="HB-E4"),
        ("lone \ud83d half, \ude00 half", "lone \ufffd half, \ufffd half"),
        ("at the end \ud83d", "at the end \ufffd"),
        ("split \ud83d\ude00 pair", "split \U0001f600 pair"),
        ("水 naïve 👩‍👩‍👧", "水 naïve 👩‍👩‍👧"),
    ],
)
def test_a_cleaned_text_loses_only_what_a_database_refuses(text: str, cleaned: str):
    assert clean(text) == cleaned


@given(ANY_TEXT)
def test_a_cleaned_text_is_utf8_and_stays_as_it_is(text: str):
    cleaned = clean(text)
    cleaned.encode()
    assert "\x00" not in cleaned
    assert clean(cleaned) == cleaned


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_an_ordinary_text_is_not_changed_by_cleaning(text: str):
    assert clean(text) == text


@given(JSON_VALUES)
def test_a_cleaned_json_value_is_strict_json_and_stays_as_it_is(value: Any):
    cleaned = clean_json(value)
    written = json.dumps(cleaned, allow_nan=False, ensure_ascii=False)
    assert json.loads(written.encode()) == cleaned == clean_json(cleaned)


def test_json_is_cleaned_in_keys_and_at_every_level():
    value = {
        "a\x00": [math.nan, {"b": "c\x00", "d": -math.inf}],
        "t": (1, True, None),
        7: 10**5000,
        "x": NONCE.encode(),
        True: {NONCE},
    }
    assert clean_json(value) == {
        "a": [None, {"b": "c", "d": None}],
        "t": [1, True, None],
        "7": None,
        "x": NONCE,
        "true": [NONCE],
    }


def test_json_nested_too_deep_is_cut_off_not_refused():
    value: Any = "core"
    for _ in range(sys.getrecursionlimit() * 2):
        value = [value]
    assert json.dumps(clean_json(value)) == "[" * NESTING_MAX + "null" + "]" * NESTING_MAX


def test_folding_makes_answers_equal_that_differ_in_whitespace_only():
    assert fold(" a\u00a0\u2003b\r\n\tc\u3000") == "a b c"
    assert fold("Answer") != fold("answer")


@pytest.mark.parametrize(
    ("text", "chars", "cut"),
    [
        ("short", 5, "short"),
        ("longer", 5, "longe…"),
        ("ab", 0, "…"),
        ("ab", -3, "…"),
        ("", 0, ""),
        ("xe\u0301y", 2, "x…"),
        ("\u0301\u0301\u0301", 2, "…"),
        ("x👩‍👩‍👧y", 2, "x…"),
        ("x👩‍👩‍👧y", 3, "x…"),
        ("x👩‍👩‍👧y", 6, "x👩‍👩‍👧…"),
        ("x👍🏽y", 2, "x…"),
        ("x❤\ufe0fy", 2, "x…"),
        ("x\ud83d\ude00y", 2, "x…"),
        ("x\ud83dy", 2, "x…"),
        ("🇩🇪🇫🇷", 1, "…"),
        ("🇩🇪🇫🇷", 2, "🇩🇪…"),
        ("🇩🇪🇫🇷", 3, "🇩🇪…"),
        ("x🇩🇪🇫🇷", 2, "x…"),
        ("a\r\nb", 2, "a…"),
        ("\u1112\u1161\u11ab", 1, "…"),
    ],
)
def test_a_preview_never_cuts_through_a_character(text: str, chars: int, cut: str):
    assert preview(text, chars) == cut


@given(ANY_TEXT, st.integers(0, 20))
def test_a_preview_is_a_beginning_of_its_text(text: str, chars: int):
    shown = preview(text, chars)
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]) and len(shown) <= chars + 1)
