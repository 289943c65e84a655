"""Control characters become visible, and nothing else changes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.text.control_characters import one_line, reveal, reveal_in_json

ACTING = "\x00\x1b\x7f\x85\u2028\u202e\u2066\ud800\ufff9\uffff\U000e0041"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("\x1b[2J", "\\x1b[2J"),
        ("hi\U000e0049\U000e0067", "hi\\U000e0049\\U000e0067"),
        ("a\r\nb\tc\n", "a\nb\tc\n"),
        ("שלום 日本語 👩‍👩‍👧", "שלום 日本語 👩‍👩‍👧"),
    ],
)
def test_control_characters_are_shown_and_other_text_stays(text: str, shown: str):
    assert reveal(text) == shown


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from(ACTING))))
def test_no_control_character_is_left(text: str):
    for shown in (reveal(text), one_line(text), reveal_in_json(text)):
        assert not set(shown) & set(ACTING)


@given(st.text(alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from("\x7f\u202e\U000e0041"))))
def test_json_says_the_same(text: str):
    assert json.loads(reveal_in_json(json.dumps(text, ensure_ascii=False))) == text


def test_one_line_is_folded_and_cut():
    assert one_line(" a \n b ") == "a b"
    assert one_line("a" * 50, 10) == "a" * 9 + "…"
