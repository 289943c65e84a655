"""Reference lists and definitions of footnotes: only at the end of an answer, and only without statements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.grounding.citation_markers import Style
from redraft.domain.grounding.citations import Cited, read_citations
from redraft.domain.grounding.reference_lists import Known, is_note, is_title, write_endnotes
from tests.domain.grounding.cited_answers import Chunk

UNTITLED = [Chunk()] * 3
TITLED = [
    Chunk("Ferries to Hirsholm", "ferries.md", "ferries.md#1"),
    Chunk("The island was sold in 1920.", "island.md"),
    Chunk(document_id="notices.md"),
]


def stated(found: Cited) -> list[str]:
    return [each.text for each in found.sentences if each.states]


ADDRESS = f"https://e.test/{1985 * 'x'}"
ALIENS = ["Bern was founded by aliens.", "The Rhine has 97 bridges."]


@pytest.mark.parametrize("heading", ["Notes:", "Sources:", "## References", "**Footnotes**", "Quellen"])
@pytest.mark.parametrize("label", ["{}. ", "{}) ", "[{}] ", "[Source {}] ", "Source {}: ", "[^{}]: "])
def test_statements_beneath_a_heading_are_stated(heading: str, label: str):
    entries = "\n".join(label.format(number) + text for number, text in enumerate(ALIENS, 1))
    found = read_citations(f"Ice floats.\n\n{heading}\n\n{entries}", UNTITLED)
    text = " ".join(stated(found))
    assert all(each in text for each in ALIENS)
    assert found.listed == ()
    assert found.issues == ()


@pytest.mark.parametrize(
    "answer",
    [
        "Notes:\n1. Bern was founded by aliens.\n2. The Rhine has 97 bridges.",
        "Ice floats [Source 1].\n\nNotes\n\n1. Bring a coat.\n2. Bring tea.\n3. Bring bread.\n4. Bring a friend.",
        "# Sources\n\n1. Coal\n2. Wind\n3. Sun\n4. Water\n\nCoal leads [Source 1].",
        "# Sources\n\n1. Coal\n2. Wind\n\nCoal leads [Source 1].",
        "Ice floats.\n\nSources:\n1. Coal\n2. Wind\n3. Sun\n4. Water",
        "Notes:\n1. Coal\n2. Wind",
        "Ice.\n\nSources:\n1. Tides\n   Bern was founded by aliens.",
        "Ice.\n\nSources:\n1. Tides\n2. Bern was founded by aliens.",
        "Ice.\n\nSources:\n[1] https://e.test shows that Bern was founded by aliens",
        "Ice.\n\nSources:\n[1] Bridges of the Rhine, 97 of them",
        "Ice.\n\nSources: 1, 9",
        "Ice.\n\nNotes: 1, 2",
        "Sources:\n1. Tides\n\nIce floats.\n\nSalt sinks.\n\nSteam rises.",
        "Sources:\n1. Tides\n\n```\nx\n```",
        "Sources:\n1. Tides\n\nIt costs 5 euros.",
    ],
)
def test_lines_that_are_no_reference_list_cite_nothing(answer: str):
    found = read_citations(answer, UNTITLED)
    assert found.layout.entries == ()
    assert found.issues == ()
    assert set(found.sources_used) <= {0}


@pytest.mark.parametrize(
    ("listed", "numbers"),
    [
        ("Sources:\n1. Ferries to Hirsholm\n2. The island was sold in 1920.", (1, 2)),
        ("Notes:\n1. Ferries to Hirsholm\n2. island.md", (1, 2)),
        ("Notes:\n[1] Source 2\n[3] https://e.test/97-bridges", (2, 3)),
        ("Sources:\n[Source 1] Ferries\n\nNotes:\n- [2] Source 3", (1, 3)),
        ("Sources:\n1. FERRIES  to Hirsholm (ferries.md), p. 5\n3. Notices", (1, 3)),
        ("Sources:\n1. Hirsholm ferries.\n\nI hope this helps!\nJust ask.", (1,)),
        ("Sources:\n1. [Ferries](https://e.test)\n3. [Timetable](https://e.test)", (1, 3)),
        ("Sources:\n1. [Timetable](https://e.test)\n", ()),
        ("Sources:\n1. https://e.test\n[Source 2]", (1, 2)),
        ("Sources:\n1. Timetable\n", ()),
        ("Sources:\n1. a\n", ()),
    ],
)
def test_entries_name_sources(listed: str, numbers: tuple[int, ...]):
    found = read_citations(f"Ice floats.\n\n{listed}", TITLED, "endnote")
    assert found.listed == numbers
    assert found.issues == ()


@pytest.mark.parametrize("entry", ["[Source 1] Aliens founded Bern", "1. Aliens founded Bern (https://e.test)"])
def test_a_source_with_a_title_is_called_by_it(entry: str):
    assert "Aliens" in stated(read_citations(f"Ice floats.\n\nSources:\n{entry}", TITLED))[-1]


def test_a_list_is_no_longer_than_sources_can_be_many():
    assert read_citations("Sources:\n" + "[1] Tides\n" * 1000, UNTITLED).listed == (1,)
    assert read_citations("Sources:\n" + "[1] Tides\n" * 1001, UNTITLED).listed == ()


def test_a_name_of_one_letter_is_no_more_than_a_word():
    sources = [Chunk(document_id="a")]
    assert read_citations("Ice.\n\nNotes:\n1. a coat", sources).listed == ()
    assert read_citations("Ice.\n\nNotes:\n1. a", sources).listed == (1,)


def test_a_heading_without_a_list_states_nothing():
    for answer in ("Ice floats.\n\nNotes\n\n1. Bring a coat.", "Ice floats.\n\n## Sources\nBring a coat."):
        assert stated(read_citations(answer, UNTITLED)) == ["Ice floats.", "Bring a coat."]
    assert stated(read_citations("He took\nnotes\nand left.", UNTITLED)) == ["He took\nnotes\nand left."]


@pytest.mark.parametrize("style", ["inline", "footnote", "endnote"])
@pytest.mark.parametrize(
    "answer",
    [
        "¹ Bern was founded by aliens in 1066.",
        "¹ Bern was founded by aliens in 1066.\n\nIce floats.¹",
        "Ice floats.¹\n\n¹ Bern was founded by aliens in 1066.",
        "[^1]: Bern was founded by aliens in 1066.",
        "Ice floats[^1].\n\n[^1]: Bern was founded by aliens in 1066.",
        "Ice floats[^1].\n\n[^1]: Tides\n  Bern was founded by aliens in 1066.",
        "Ice floats[^a].\n\n[^a]: Bern was founded by aliens in 1066.",
        "[1]: e.test 'Bern was founded by aliens in 1066.'",
        "[Bern was founded by aliens in 1066.]: https://e.test",
        "<Bern was founded by aliens in 1066.>",
        f"Ice.\n\nSources:\n[1] {ADDRESS}\n  {ADDRESS}\n  Bern was founded by aliens in 1066.",
        "Ice floats [Source 1: Bern was founded by aliens in 1066.]",
        "Ice floats [Source 1: Bern was founded by aliens in 1066, Source 2]",
        "Ice floats[^a].\n\n[^a]: Tides\n  Bern was founded by aliens in 1066.",
        "Ice floats 【1†Bern was founded by aliens in 1066.】",
    ],
)
def test_no_line_hides_what_it_states(answer: str, style: Style):
    found = read_citations(answer, UNTITLED, style)
    texts = [answer[each.start : each.end] for each in found.sentences if each.states]
    assert any("Bern was founded by aliens in 1066" in each for each in texts)
    markers = [answer[marker.start : marker.end] for marker in found.markers]
    assert not any("Bern" in each for each in markers)


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("Ice floats.¹ Salt sinks.²\n\n¹ Tides\n² Salt", [1, 2]),
        ("Ice floats[^1].\n\n[^1]: Source 3: Salt\n\nI hope this helps!", [3]),
        ("Ice floats[^1] [^a].\n[^1]: Tides,\n  by Ann\n[^a]: https://e.test/97", [1]),
        ("Ice floats[^1].\n\n[^1]: Tides\n\nSources:\n[Source 1] Tides", [1]),
    ],
)
def test_definitions_at_the_end_state_nothing(answer: str, cited: list[int]):
    found = read_citations(answer, UNTITLED, "footnote")
    assert [each.source_number for each in found.citations] == cited
    assert not any("Tides" in each or "Salt\n" in each for each in stated(found))


def test_a_definition_is_one_title_with_all_its_lines():
    hidden = "Ice[^1].\n\n[^1]: Tides\n" + "  aliens founded Bern\n" * 4
    assert "aliens" in stated(read_citations(hidden, UNTITLED))[-1]


def test_definitions_that_nothing_refers_to_are_prose():
    assert stated(read_citations("Ice floats.\n\n[^1]: Tides", UNTITLED)) == ["Ice floats.", "Tides"]


@pytest.mark.parametrize(
    "text", ["Tides", "Smith, J. Tides and the moon", "Tides.", "by Ann, pp. 3-9", "", "Ferries: l3-l9"]
)
def test_titles(text: str):
    assert is_title(text)


@pytest.mark.parametrize(
    "text",
    ["Bern was founded", "Aliens founded Bern.", "97 bridges", "a " * 11, " " * 5_000, "x" * 101, "水沸腾 很快 了。"],
)
def test_a_statement_is_no_title(text: str):
    assert not is_title(text)


def test_the_number_in_a_title_is_a_notes():
    known = Known([Chunk("Report 12")])
    assert is_note("Report 12, 2019", 1, known)
    assert not is_note("Report 12", 1, None)
    assert not is_note("Report 13", 1, known)


@given(st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=5))
def test_a_list_of_any_titles_is_read_back(titles: list[str]):
    answer = "Ice floats.\n\n" + write_endnotes(enumerate(titles, 1))
    found = read_citations(answer, [Chunk(each) for each in titles], "endnote")
    assert found.listed == tuple(range(1, len(titles) + 1))


@pytest.mark.parametrize(
    "text",
    [
        "Sources:\n1. Tides\n" * 5_000,
        "Sources:\n[^1]: A\n" * 5_000,
        "[^1] " + "[^1]: A\n" * 5_000,
        "Sources:\n" + "1. Tides\n" * 5_000,
        "Sources:\n1. Tides\n" + "  more\n" * 5_000,
        "Sources:\n" + "\n" * 50_000,
        "¹\n" * 20_000,
        "<a b=" * 10_000,
        "Sources: " + "[1], " * 10_000,
    ],
)
def test_no_ending_takes_long(text: str):
    assert read_citations(text, UNTITLED, "footnote") is not None
