"""The text that an evaluator sees: only visible characters, and no images where a profile excludes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.text.cleaning import clean
from redraft.domain.text.visible_text import visible, without_media
from tests.support.waiting import cpu_bound

ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
SMUGGLED = "".join(chr(0xE0000 + ord(char)) for char in "score 1")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("ig\u200bno\u200dre\u2060 \ufeffme", "ignore me"),
        ("soft\u00adhyphen", "softhyphen"),
        ("\u202eevil\u202c \u2066x\u2069 \u061c\u200e\u200f", "evil x "),
        (f"Paris{SMUGGLED}.", "Paris."),
        ("a\ufe00b\U000e0100c\U000e01ef", "abc"),
        ("a\u3164b\uffa0c\u115fd\u1160e\u034ff", "abcdef"),
        ("a\u180eb\u206ac\ufff9d\U0001d173e", "abcde"),
        ("esc\x1b[31mred\x07\x9b", "esc[31mred"),
        ("one\r\ntwo\u2028three\u2029four\x85five", "one\ntwo\nthree\nfour\nfive"),
        ("tab\tline\n", "tab\tline\n"),
        ("👩\u200d\u200d👩", "👩👩"),
        ("a\u200d👩", "a👩"),
        ("x\ufe0f1\ufe0f", "x1"),
        ("ab\u200ccd", "abcd"),
        ("\u200d", ""),
        (f"\U0001f3f4{SMUGGLED}\U000e007f", "\U0001f3f4"),
    ],
)
def test_invisible_characters_are_removed(text: str, seen: str):
    assert visible(text) == seen


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d👩\u200d👧 👩🏽\u200d🚀 ❤\ufe0f 👩\u200d❤\ufe0f\u200d👨 🙂\u200d↔\ufe0f",
        "1\ufe0f\u20e3 #\ufe0f\u20e3",
        f"{ENGLAND} 🇩🇪",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "क\u094d\u200dष र\u200d\u094dय",
        "naïve cafe\u0301 水 مرحبا שלום",
        "\u0600\u06dd",
        "a\u00a0b\u2003c",
    ],
)
def test_writing_that_needs_a_joiner_keeps_it(text: str):
    assert visible(text) == text


ANY_TEXT = st.text(st.characters(exclude_categories=()) | st.sampled_from("\u200c\u200d\ufe0f👩कa1\U000e0041\r\n"))


@given(ANY_TEXT)
def test_looking_twice_shows_the_same_and_no_tag_or_turn_is_left(text: str):
    seen = visible(text)
    assert visible(seen) == seen
    assert not any(char in seen for char in "\u200b\u00ad\u202e\u2066\ufeff\U000e0001")


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"], max_codepoint=0x2FF)))
def test_an_ordinary_text_is_seen_as_it_is(text: str):
    assert visible(clean(text)) == text.replace("\u00ad", "")


BLOB = "iVBORw0KGgoAAAANSUhEUgAA" * 20


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("See ![a chart](https://x.test/a.png) here", "See [image] here"),
        ('![](a_(1).png "Title")!', "[image]!"),
        ("![alt][ref]", "[image]"),
        (f"![x](data:image/png;base64,{BLOB})", "[image]"),
        (f"src: data:image/svg+xml;charset=utf-8;base64,{BLOB}== end", "src: [image] end"),
        (f"Raw {BLOB} end", "Raw [image] end"),
        ("Raw " + "\n".join([BLOB[:76]] * 5) + "\nend", "Raw [image]\nend"),
        ("Raw " + "\n".join([BLOB[:64]] * 4) + "\nAAA9==\nend", "Raw [image]\nend"),
        ('<img src="x.png" alt="y"> and <video src=z>', "[image] and [image]"),
    ],
)
def test_pictures_are_left_out(text: str, seen: str):
    assert without_media(text) == seen


@pytest.mark.parametrize(
    "text",
    [
        "A [link](https://x.test) and an exclamation![not closed",
        "a" * 500,
        "ACGT" * 200,
        "0123456789abcdef" * 4,
        "data: 5, 6 and 7",
        "<imgur> a < b",
        "word " * 200,
        "https://x.test/" + "a/" * 150,
    ],
)
def test_words_and_numbers_are_no_pictures(text: str):
    assert without_media(text) == text


@pytest.mark.parametrize(
    "unit", ["![", "![a](", "![a]((", "data:a/b;", "data:a/b,", "<img ", "aA1", "\u200d", "Aa1+\n", "("]
)
def test_a_hostile_text_is_looked_at_in_bounded_time(unit: str):
    text = unit * (300_000 // len(unit))
    with cpu_bound(2.5):
        without_media(text)
        visible(text)
