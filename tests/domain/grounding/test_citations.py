"""Each citation has its source and the sentence that it supports. Wrong numbers are issues. Source lists are read."""

# ruff: noqa: RUF001  (marks of many scripts)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.grounding.citation_markers import Style
from redraft.domain.grounding.citations import CITATIONS_MAX, ISSUES_MAX, Citation, read_citations
from redraft.domain.grounding.reference_lists import write_endnotes
from tests.domain.grounding.cited_answers import Chunk, coverage, numbers, read, wrong
from tests.domain.grounding.test_sentences import TEXTS


def test_f01_twelve_is_not_one():
    answer = "Tides follow the moon [Source 12]. Salt lowers the freezing point [Source 1]."
    assert numbers(answer, 12) == [12, 1]
    assert read(answer, 12).issues == ()
    assert read(answer, 12).sources_used == (0, 11)
    assert coverage(answer, 12) == (2, 2)


def test_f02_marks_that_point_nowhere_are_issues():
    answer = "A [Source 0]. B [Source 3]. C [Source 7]. D [Source -1]. E [Source 99999999999999999999]."
    assert numbers(answer, 3) == [3]
    assert wrong(answer, 3) == [
        ("zero", 0, "[Source 0]"),
        ("out_of_range", 7, "[Source 7]"),
        ("out_of_range", 99999999999999999999, "[Source 99999999999999999999]"),
    ]
    assert [issue.message for issue in read(answer, 3).issues][:2] == [
        "[Source 0] cites source 0; sources are numbered from 1.",
        "[Source 7] cites source 7, but the sources are 1 to 3.",
    ]
    assert coverage(answer, 3) == (1, 5)


def test_f05_abbreviations_make_no_sentences():
    answer = "The U.S. rate rose 3.14 percent, e.g. in May [Source 1]. Dr. Lee agreed [Source 2]."
    assert numbers(answer, 2) == [1, 2]
    assert coverage(answer, 2) == (2, 2)


def test_f06_a_mark_behind_the_stop_belongs_to_the_sentence_before():
    answer = "Water boils at 100 °C. [Source 1] Ice melts at 0 °C. [Source 2]"
    assert coverage(answer, 2) == (2, 2)
    assert [(each.source_number, each.quoted_text) for each in read(answer, 2).citations] == [
        (1, "Water boils at 100 °C."),
        (2, "Ice melts at 0 °C."),
    ]


def test_f07_sentences_without_blanks():
    answer = "水在100°C沸腾。[Source 1]冰在0°C融化！[Source 2]真的吗？"
    assert coverage(answer, 2) == (2, 3)
    assert [each.quoted_text for each in read(answer, 2).citations] == ["水在100°C沸腾。", "冰在0°C融化！"]


def test_f12_headings_are_no_claims():
    answer = "## Results\n\n- Water boils at 100 °C [Source 1]\n- Ice melts at 0 °C [Source 2]\n- Steam is invisible\n"
    assert coverage(answer, 2) == (2, 3)


def test_f13_prose_that_talks_of_sources():
    answer = "According to Source 2 the plant is old.\n\n## Sources of energy\n\nCoal leads [Source 1]."
    assert numbers(answer, 2) == [1]
    assert coverage(answer, 2) == (1, 2)


@pytest.mark.parametrize(
    ("text", "sources", "issues"),
    [
        ("Ice [3-1].", 5, [("reversed_range", 3, "[3-1]")]),
        ("Ice [2-9].", 3, [("out_of_range", 9, "[2-9]")]),
        ("Ice [1].", 0, [("out_of_range", 1, "[1]")]),
        ("Ice [2].", 1, [("out_of_range", 2, "[2]")]),
        ("Ice [0-1].", 1, [("zero", 0, "[0-1]")]),
        ("Ice.\n\nSources:\n[1] A\n[9] B", 2, [("out_of_range", 9, "[9]")]),
        ("Ice.\n\nSources:\n[Source 1] A\n- [Source 9] B", 2, [("out_of_range", 9, "[Source 9]")]),
        ("Ice.\n\nSources: [1], [9]", 2, [("out_of_range", 9, "[9]")]),
        ("Players roll [6].", 5, [("out_of_range", 6, "[6]")]),
        ("Players roll [6]. Ice [1] [Source 1].", 5, [("out_of_range", 6, "[6]")]),
        ("Ice [Source 1, 2024] [Source 7, 2024].", 5, [("out_of_range", 7, "[Source 7, 2024]")]),
        ("Ice [Source 1: Tides; Source 9].", 5, [("out_of_range", 9, "[Source 1: Tides; Source 9]")]),
        ("Ice [Source 2024].", 5, [("out_of_range", 2024, "[Source 2024]")]),
    ],
)
def test_a_wrong_marker_is_an_issue(text: str, sources: int, issues: list[tuple[str, int, str]]):
    assert wrong(text, sources) == issues


def test_the_existing_sources_of_a_wrong_marker_count():
    assert numbers("Ice [2-9]. Salt [0-1]. [1, 7] [3-2]", 3) == [2, 1, 1, 3, 2]


def test_f04_2_of_a_range_that_leaves_the_sources_only_its_ends_count():
    answer = "X [Sources 1—99999]."
    assert numbers(answer, 5) == [1]
    assert wrong(answer, 5) == [("out_of_range", 99999, "[Sources 1—99999]")]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("彼の「やめろ。」の一言で終わった。[Source 1]", id="HB-F2.1"),
        pytest.param("歌手「モーニング娘。」のメンバーは12人だ。[Source 1]", id="HB-F2.3"),
        pytest.param("他說：「不行！」然後走了。[Source 1]", id="HB-F2.5"),
        "他说：“不行！”然后走了。[Source 1]",
        "《你好吗？》很好看。[Source 1]",
        "《Hello! Project》很有名。[Source 1]",
    ],
)
def test_hb_f2_the_stop_of_a_quotation_ends_no_sentence(answer: str):
    assert coverage(answer, 1) == (1, 1)
    assert [each.quoted_text for each in read(answer, 1).citations] == [answer.removesuffix("[Source 1]")]


def test_a_citation_names_its_chunk_and_what_it_supports():
    sources = [Chunk(chunk_id="c1", document_id="d1"), Chunk(chunk_id="c2")]
    answer = "- Ice [Sources 1-2] floats [1] ."
    first, second, third = read_citations(answer, sources).citations
    assert first == Citation(0, 1, "c1", "d1", "Ice floats.", 6, 19)
    assert second == Citation(1, 2, "c2", None, "Ice floats.", 6, 19)
    assert answer[third.start_pos : third.end_pos] == "[1]"


def test_a_marker_at_the_beginning_belongs_to_its_own_sentence():
    found = read("Ice floats. [Source 1] states it. Salt sinks.", 2)
    assert found.numbers == ((), (1,), ())


def test_a_marker_within_a_tag_supports_no_sentence():
    found = read("Ice floats.\n<img alt=[1]>", 1)
    assert [(each.source_number, each.quoted_text) for each in found.citations] == [(1, "")]
    assert found.numbers == ((),)


@pytest.mark.parametrize(
    "listed",
    [
        "Sources:\n1. Tides\n3. Salt",
        "## References\n\n[1] Tides\n[3] Salt",
        "**Sources**\n\n- [Source 1]: Tides\n- [Source 3]: Salt",
        "Quellen\n=======\n¹ Tides\n³ Salt",
        "Sources used:\n1) Tides\n   by Ann\n\n3) Salt",
        "Sources: [1], [3].",
        "**Sources:** Source 1; Source 3",
        "Endnotes\n[^1]: Tides\n[^3]: Salt",
        "References:\n1. [Source 1] Tides\n2. Source 3: Salt",
    ],
)
def test_a_list_at_the_end_is_read(listed: str):
    answer = f"Ice floats.\n\n{listed}\n"
    found = read(answer, 3, "endnote")
    assert found.listed == (1, 3)
    assert [(each.source_number, each.quoted_text) for each in found.citations] == [(1, ""), (3, "")]
    assert [each.text for each in found.sentences if each.kind not in {"heading", "note"}] == ["Ice floats."]


def test_markers_follow_the_numbers_of_the_reference_list():
    answer = "Ice floats [1]. Salt sinks [Source 1].\n\nSources:\n1. Source 3: Salt\n2. Source 1: Ice\n"
    assert numbers(answer, 3) == [3, 1]


@pytest.mark.parametrize("text", ["Sources:\n- coal\n- wind", "Sources\n\nCoal leads.", "Sources: coal, [1]", "Notes:"])
def test_lists_that_are_no_reference_lists(text: str):
    assert read(text, 3).layout.entries == ()


TITLES = st.text(st.characters(categories=["L", "Nd", "Zs"]), max_size=20)


@given(st.dictionaries(st.integers(1, 20), TITLES, min_size=1))
def test_a_written_list_is_read_back(titles: dict[int, str]):
    answer = f"Ice floats.\n\n{write_endnotes(titles.items())}"
    found = read_citations(answer, [Chunk(title=titles.get(number)) for number in range(1, 21)], "endnote")
    assert found.listed == tuple(titles)
    assert found.issues == ()


def test_no_titles_make_no_list():
    assert write_endnotes([]) == ""


@given(TEXTS, st.integers(0, 5), st.sampled_from(["inline", "footnote", "endnote"]))
def test_positions_point_at_markers(text: str, sources: int, style: Style):
    found = read(text, sources, style)
    for each in (*found.citations, *found.issues):
        marker = text[each.start_pos : each.end_pos]
        assert any(char.isnumeric() for char in marker)
        assert marker.strip() == marker
    for citation in found.citations:
        assert 1 <= citation.source_number == citation.source_index + 1 <= sources
    assert len(found.numbers) == len(found.sentences)


def test_the_number_of_citations_is_bounded():
    found = read("Ice [1-200]. " * 100, 200)
    assert len(found.citations) == CITATIONS_MAX
    assert [issue.code for issue in found.issues] == ["too_many"]
    found = read("Ice [9]. " * (ISSUES_MAX + 50), 1)
    assert len(found.issues) == ISSUES_MAX + 1
    assert found.issues[-1].code == "too_many"


def test_a_long_sentence_is_not_quoted_whole_for_each_of_its_markers():
    found = read("Bern [Source 1], " * 1000, 1)
    assert len(found.citations) == 1000
    assert {len(each.quoted_text) for each in found.citations} == {1000}
