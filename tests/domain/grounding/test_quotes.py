"""Quotes are found word for word: only the encoding of characters may differ."""

# ruff: noqa: RUF001  (quotation marks and dashes of many kinds)

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from redraft.domain.grounding.quotes import find_quote, read_quotable

SOURCE = (
    "Intro.  The “boiling” point\u00a0of wa\u00adter is 100\u200b °C — at sea\nlevel.\r\n\r\n"
    "Café ﬁne, cafe\u0301s too. It doesn’t smart… at all. 水在一百度沸腾。"
)


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("point of water is 100 °C", "point\u00a0of wa\u00adter is 100\u200b °C"),
        ('The "boiling" point', "The “boiling” point"),
        ('"the "boiling" point."', "The “boiling” point"),
        ("100 °C -- at sea level", "100\u200b °C — at sea\nlevel"),
        ("100 °C - at sea level", "100\u200b °C — at sea\nlevel"),
        ("at  sea\tlevel. Café", "at sea\nlevel.\r\n\r\nCafé"),
        ("Cafe\u0301 fine, cafés", "Café ﬁne, cafe\u0301s"),
        ("It doesn't smart... at", "It doesn’t smart… at"),
        ("smart... at all!", "smart… at all"),
        ('Boiling" point … sea level', "boiling” point\u00a0of wa\u00adter is 100\u200b °C — at sea\nlevel"),
        ("… of water [...] sea level …", "of wa\u00adter is 100\u200b °C — at sea\nlevel"),
        ("水在一百度", "水在一百度"),
        ("100 °C — at sea level.", "100\u200b °C — at sea\nlevel."),
    ],
)
def test_a_quote_is_found_however_it_is_written(quote: str, found: str):
    place = find_quote(quote, SOURCE)
    assert place is not None
    assert SOURCE[slice(*place)] == found


@pytest.mark.parametrize(
    "quote",
    [
        "point of ice is 100 °C",
        "the boiling point of water",
        "point of WATER is 100",
        "oint of water is",
        "point of wat",
        "cafe fine",
        "Cafe fine, cafes too",
        "sea level … The “boiling",
        "sea level … sea level",
        "Intro",
        "of … is … at … sea level",
        "水在",
        "",
        "…",
        '""',
        " . . . ",
        "point … " * 30,
    ],
)
def test_a_quote_that_differs_from_the_source_is_not_found(quote: str):
    assert find_quote(quote, SOURCE) is None


def test_the_first_whole_occurrence_counts():
    assert find_quote("art is long", "Smart is long. Art is long.") == (15, 26)
    assert find_quote("art is long", "Smart is long.") is None
    assert find_quote("fine in a cafe", "Fine in a café.") is None


def test_a_source_can_be_read_once():
    there = read_quotable(SOURCE)
    assert find_quote("point of water", there) == find_quote("point of water", SOURCE)
    assert " ".join(there.text.split()) == there.text


SOURCES = st.text(st.characters() | st.sampled_from("ab. \n\u200b“”…—éﬁ水-'\u0301"), min_size=1, max_size=60)


@given(st.text(), SOURCES)
def test_a_place_is_within_the_source(quote: str, source: str):
    place = find_quote(quote, source)
    assert place is None or 0 <= place[0] < place[1] <= len(source)


@given(SOURCES, st.data())
def test_a_part_of_a_source_is_found_in_it(source: str, data: st.DataObject):
    words = source.split()
    assume(words)
    first = data.draw(st.integers(0, len(words) - 1))
    quote = " ".join(words[first : first + 8])
    place = find_quote(quote, source)
    if place is not None:
        held, wanted = read_quotable(source[slice(*place)]).text, read_quotable(quote).text
        assert held.strip(" \"'.,;:!?。，").casefold()[:3] in wanted.casefold()


@given(st.lists(st.sampled_from(["water", "boils,", "hot", "“deep”", "sea—side", "café"]), min_size=3))
def test_plain_words_are_always_found(words: list[str]):
    source = " ".join(words)
    assert find_quote(source, f"So it is: {source} and so on") is not None
    assert find_quote(source.replace(" ", "\n").upper(), f"So: {source}") is None or source.upper() == source


@pytest.mark.parametrize(
    ("quote", "source"),
    [
        ("a" * 5000, "a" * 200_000),
        ("a" * 5000 + "b", "a" * 200_000),
        ("“é” — " * 5000, "“é” — x" * 30_000),
        ("…" * 50_000, "x"),
    ],
)
def test_no_quote_takes_long(quote: str, source: str):
    find_quote(quote, source)


def test_an_ellipsis_joins_only_parts_close_to_each_other():
    source = (
        "The drug is not approved. " + "It was tested in adults. " * 20 + "Whether it is safe for children is unknown."
    )
    assert find_quote("The drug is … safe for children", source) is None
    assert find_quote("The drug is not … tested in adults", source) is not None
    assert find_quote("drug … test … adults … child … unknown", source) is None
