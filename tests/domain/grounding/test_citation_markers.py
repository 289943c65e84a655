"""Markers in all spellings are read; other brackets are no markers; a bracket that is not understood is an issue."""

# ruff: noqa: RUF001  (marks of many scripts)

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from redraft.domain.grounding.citation_markers import Style, find_markers
from redraft.domain.grounding.reference_lists import is_place
from tests.domain.grounding.cited_answers import coverage, numbers, read, wrong


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("X [Sources 1, 2].", [1, 2]),
        ("X [1][2].", [1, 2]),
        ("X [1，2].", [1, 2]),
        ("X [Source 3 and 4].", [3, 4]),
        ("X 【Source 2】.", [2]),
        ("X [source 1; Source 4].", [1, 4]),
        ("X [SOURCE 2].", [2]),
        ("X [ Source  3 ].", [3]),
        ("X [see above]. Y [2024](https://e.test).", []),
    ],
)
def test_f03_groups_and_spellings(answer: str, cited: list[int]):
    assert numbers(answer, 4) == cited


def test_f09_superscripts_are_marks_in_footnote_style_only():
    answer = "The lake covers 100 m².¹² It froze in 1963.³ E = mc² holds here."
    assert numbers(answer, 12, "footnote") == [12, 3]
    assert coverage(answer, 12, "footnote") == (2, 3)
    assert numbers(answer, 12) == []


def test_f10_code_cites_nothing():
    answer = "Use `a[1]` here.\n```python\nx = a[Source 3]\nb[1]\n```\nDone [Source 2]."
    assert numbers(answer, 3) == [2]


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("[Sources 1-3]", [1, 2, 3]),
        ("[Sources 1–3, 5]", [1, 2, 3, 5]),
        ("[Source 1 to 3]", [1, 2, 3]),
        ("[Source 1 - Source 3]", [1, 2, 3]),
        ("[1, 2, and 4]", [1, 2, 4]),
        ("［１］ 〔2〕 〖3〗 ⟦4⟧", [1, 2, 3, 4]),
        ("[Source ١]", [1]),
        ("[Quelle 1 und 2] [Fuente 3] [来源 4] [المصدر 5]", [1, 2, 3, 4, 5]),
        ("[Source: 1] [Source #2]", [1, 2]),
        ("[see Source 2] [cf. 3]", [2, 3]),
        ("[Source 1: Tides, 2019] [Source 2, p. 5]", [1, 2]),
        ("[Source 2](https://e.test)", [2]),
        ("[1, 1]", [1]),
        ("**[Source 1]** _[2]_ ([3])", [1, 2, 3]),
        ("moon[1], tide[2]", [1, 2]),
        ('"It floats [1]."', [1]),
        ("“水沸腾。”[1]“冰”", [1]),
        ("> It floats.\n> [Source 1]", [1]),
        ("## Results [1]", [1]),
        ("[[2]]", [2]),
        ("[Source 1 Ferries] [Source 2. Ferries] [Source 3 (p. 5)] [Source 4 - Ferries]", [1, 2, 3, 4]),
        ("[Source 1/2] [Source 3 + 4]", [1, 2, 3, 4]),
        ("[Src 1] [Doc 2] [Document 3] [Docs. 4, 5]", [1, 2, 3, 4, 5]),
        ("[Reference 1] [ref. 2] [Chunk 3] [Passage 4]", [1, 2, 3, 4]),
        ("[**Source 1**] [_Source 2_, p. 5] [**3**]", [1, 2, 3]),
        ("【1†source】 【2†L3-L9】 【Source 3†source】", [1, 2, 3]),
        ("[Source\n1] [Source 2,\r\n3]", [1, 2, 3]),
        ("> Ice [Source\n> 1]", [1]),
        ("[source-1] [Source_2] [S3] [S4, S5]", [1, 2, 3, 4, 5]),
        ('<source-1> <Source 2/> <source-3 id="ab12"> </source-4>', [1, 2, 3, 4]),
        ("Ice floats.\n<source-1>", [1]),
        ("[Source 1, 2024] [Source 2, 12/05/2024] [Source 3, 2019-2021]", [1, 2, 3]),
        ("[Source 1: Ferries, Source 2: Island; Sources 3, 4] [Source 5 – Ferries]", [1, 2, 3, 4, 5]),
        ("[Source 1, Resource 8] [Source 2, row 7, ¶ 3, Art. 12]", [1, 2]),
        ("[Source 1, https://e.test/97]", [1]),
        ("[Source 1, 2024, Source 2] [Source 3: Tides, 2019, p. 5]", [1, 2, 3]),
        ("[Kilder 1 og 2] [Lähteet 3 ja 4] [Zdroje 1 a 3] [Források 2 és 3]", [1, 2, 3, 4, 1, 3, 2, 3]),
        ("[Źródło 1] [Sursele 2 și 3] [Πηγή 4] [Джерела 1, 2] [Sumber 3 dan 4]", [1, 2, 3, 4, 1, 2, 3, 4]),
        ("[מקורות 1 ו-2] [المصدر 3 و4] [स्रोत 1 से 3] [แหล่งที่มา 4]", [1, 2, 3, 4, 1, 2, 3, 4]),
        ("[出典1・3] [ソース1から3まで] [출처 1부터 3까지] [来源1到2]", [1, 3, 1, 2, 3, 1, 2, 3, 1, 2]),
        ("[Fuentes 1 a 3] [Bronnen 1 en 2] [Quellen 1 bis 3 und 5]", [1, 2, 3, 1, 2, 1, 2, 3, 5]),
        ("[Source №1] [Fuente n.º 2] [مصدر رقم 3] [Bronnen 1 of 2] [Viri 1 in 2]", [1, 2, 3, 1, 2, 1, 2]),
        ("[cite: 1] [Source no. 2] [Quelle Nr. 3] [Source № 4] [Sources 1 2]", [1, 2, 3, 4, 1, 2]),
        ("[So\u200burce 1] [Sources 2\u2060, 3] [Sources 1\n- 2]", [1, 2, 3, 1, 2]),
        ("[Source ①] [②③] [Ka\u0308lla 4] [ﺍﻟﻤﺼﺪﺭ 5]", [1, 2, 3, 4, 5]),
        ("[sources #1, #2] [Source: #3 to #5] [Quellen 1 sowie 2] [Sources 3 and/or 4]", [1, 2, 3, 4, 5, 1, 2, 3, 4]),
        ("[1, p. 5] [2: Tides] [Sources 3…5]", [1, 2, 3, 4, 5]),
        ("[Fonti 1 ed 2] [Source 3|4]", [1, 2, 3, 4]),
        ("A ($$) is good [Source 1]. B ($$$) is better [2]. It is in C:\\data [3].", [1, 2, 3]),
        ("冰浮([1])。 Ice floats([2]). Salt sinks. [3]The moon shines.", [1, 2, 3]),
        ("[^1] ice[^2]", [1, 2]),
        ("[Source 1] The vector is [1, 9]. Players roll [6] or [0].", [1]),
    ],
)
def test_markers_in_many_spellings(text: str, cited: list[int]):
    assert numbers(text, 5) == cited
    assert read(text, 5).issues == ()


@pytest.mark.parametrize(
    "text",
    [
        '[1](https://e.test/a_(b)) [2](#x) [3](/a "t")',
        "[[1]](https://e.test)",
        "![1](a.png)",
        "[1]: https://e.test\n[2]: <https://e.test> 'Title'",
        "[1, 2024] [1/2] [1+2]",
        "a[1] x[0][1] my_list[2] row[1] = 3 words[1].append(2)",
        "between [0, 1]",
        "in [2019] and [2019-2021]",
        "\\[1\\]",
        'Write "[Source 1]" or “[1][2]” or `[3]` behind it.',
        "> [Source 1]",
        "(Figure 2) (source: Reuters, 2020) (2 sources) (3) f(2) \\frac{1}{2} {1, 2}",
        "5 m<sup>2</sup> 10<sup>2</sup> x<sup>2</sup>",
        "x = [1] A = [1, 2, 3] x \u2208 [1, 3] \\in [1, 2] np.array([1, 2]) [1, 2, 3].map(f) $arr[1]",
        '{"ids": [1, 2, 3]}',
        "arr[0] and arr[1], args[2] and args[0]",
        "$$x \\le [1, 2]$$ \\(y [1]\\) \\[z \\to [2]\\]",
        "[1]benzothiophene [2]rotaxane [1,3]-dipolar [1,2]-Wittig [2+2] bicyclo[2.2.1]heptane cyclo[5]carbon",
        "[1,000]",
        "[source-a] [s1] [S] source-1 <S1> <sourcery 1>",
        "[Source] [Sources] [x 1] [s1] [1.5] [1/2] [-1] [12:30] [1 = 2] [1 %]",
        "[Foo 99] [sic] [May 2020] [Smith et al., 1999]",
        "[Table 2] [Figure 1] [p. 5] [Section 3]",
        "[In the last 3 years they have grown]",
        "- [ ] 1\n- [x] 2",
        "[text 1](https://e.test) data[row_1] `[Foo 1]` “[Foo 1]”",
        "Ice [Sources 1,\n\n2] floats",
        "[Foo 1]: https://e.test",
        "Read [Foo 1].\n\n[Foo 1]: https://e.test",
        "[IPv6 zones] [HTTP/2 frames] [`socket(3)`] [Source Map v3] [2-group test] [@bbc2] ['name 1'] [rfc(2)] [5cm]",
        "m² ¹",
        "    a = b[Source 1]",
    ],
)
def test_brackets_that_are_no_markers(text: str):
    assert numbers(text, 5) == []
    assert read(text, 5).issues == ()


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("Ice floats¹,² and salt sinks.³", [1, 2, 3]),
        ("Ice floats¹ ² here", [1, 2]),
        ("Ice floats.¹⁻³", [1, 2, 3]),
        ("“Ice”¹ **floats**² (as said)³ Smith (1963)⁴", [1, 2, 3, 4]),
        ("冰¹ 5 %²", [1, 2]),
        ("In the 1990s¹ the UK² had it³, he said so⁴.", [1, 2, 3, 4]),
        ("In 2020¹ and 1963², at 7:40³, on 1.2.2020⁴.", [1, 2, 3, 4]),
        ("CO₂¹ melts at 20 °C².", [1, 2]),
        ("Ice floats[^1].", [1]),
        ("Ice [1] floats²", [1, 2]),
        ("10³ 12,020² 5000² km² mc² x² (a+b)² sin² 100 feet² 100米² ² /² -²", []),
        ("[^1](x) `ice¹`", []),
        ("ice" + "¹" * 50, []),
    ],
)
def test_superscripts(text: str, cited: list[int]):
    assert numbers(text, 5, "footnote") == cited


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        pytest.param("X [Sources 1 through 3].", [1, 2, 3], id="HB-F1.1"),
        pytest.param("X [Sources 1 à 3].", [1, 2, 3], id="HB-F1.2"),
        pytest.param("X [Sources 1 or 2].", [1, 2], id="HB-F1.5"),
        pytest.param("فاس هي مدينة [مصدر 2].", [2], id="HB-F1.6"),
        pytest.param("这是事实[来源1至3]。", [1, 2, 3], id="HB-F1.7"),
        pytest.param("X [citation:1][citation:3].", [1, 3], id="HB-F1.9"),
        pytest.param("Det er sandt [Kilde 2].", [2], id="HB-F1.10"),
        pytest.param("Det stämmer [Källa 2].", [2], id="HB-F1.11"),
        pytest.param("Bu doğru [Kaynak 2].", [2], id="HB-F1.12"),
        pytest.param("Đúng vậy [Nguồn 2].", [2], id="HB-F1.14"),
        pytest.param("X [Source no. 2].", [2], id="HB-F1.16"),
        pytest.param("X [Source 2\u200b].", [2], id="HB-F1.17"),
    ],
)
def test_hb_f1_words_and_ranges_of_many_languages(answer: str, cited: list[int]):
    assert numbers(answer, 5) == cited
    assert read(answer, 5).issues == ()


@pytest.mark.parametrize(
    ("answer", "wanted", "style"),
    [
        ("Ice [Foo 1].", "[Source 1]", "inline"),
        ("Ice [Foo-Bar no. 1, 3].", "[Source 1, 3]", "inline"),
        ("Ice [Foo 1, 9].", "[Source 1]", "inline"),
        ("Ice [Foo 1].", "¹", "footnote"),
        ("Ice [resource 1].", "[Source 1]", "endnote"),
        ("Ice 【第1个】.", "[Source 1]", "inline"),
        ("Ice [Фубар\n2].", "[Source 2]", "inline"),
        ("Ice [D1].", "[Source 1]", "inline"),
        ("Ice [1a].", "[Source 1]", "inline"),
        ("Ice [Foo1 and Foo2].", "[Source 1, 2]", "inline"),
        ("Ice [l'étude 2].", "[Source 2]", "inline"),
        ("Ice [Source 1?].", "[Source 1]", "inline"),
        ("Ice [Source 2b].", "[Source 2]", "inline"),
        ("Ice [Source 1.5].", "[Source 1]", "inline"),
        ("Ice [Source(2)].", "[Source 2]", "inline"),
        ("Ice [Source 1 of 5].", "[Source 1, 5]", "inline"),
        ("Ice [see the table at the end of Source 2 for all of it].", "[Source 2]", "inline"),
        ("Ice [1 and so on].", "[Source 1]", "inline"),
        ("Ice [Sources 1 foo 3].", "[Source 1, 3]", "inline"),
        ("Ice [Sources 1, 2 foo 3].", "[Source 1, 2, 3]", "inline"),
        ("Ice (Source 1).", "[Source 1]", "inline"),
        ("Ice (see Sources 1, 3; p. 5).", "[Source 1, 3]", "inline"),
        ("Ice \uff08\u6765\u6e90\uff1a1\uff09.", "[Source 1]", "inline"),
        ("Ice {Quelle 2}.", "[Source 2]", "inline"),
        ("Ice <cite>1,2</cite>.", "[Source 1, 2]", "inline"),
        ("Ice <ref>2</ref>.", "[Source 2]", "inline"),
        ("Ice <citation>1</citation>.", "[Source 1]", "inline"),
        ('Ice <source id="1">.', "[Source 1]", "inline"),
        ("Ice \\[Source 1\\].", "[Source 1]", "inline"),
        ("Ice \\citep{2}.", "[Source 2]", "inline"),
        ("Ice [Source = 1].", "[Source 1]", "inline"),
        ("Ice [Source '1'].", "[Source 1]", "inline"),
        ("Ice [(1)].", "[Source 1]", "inline"),
        ("Ice [Source 2nd].", "[Source 2]", "inline"),
        ("Ice [source id=2].", "[Source 2]", "inline"),
        ("Ice [1, n].", "[Source 1]", "inline"),
    ],
)
def test_a_bracket_that_is_not_understood_is_an_issue_that_names_the_wanted_spelling(
    answer: str, wanted: str, style: Style
):
    (issue,) = read(answer, 5, style).issues
    assert issue.code == "unread_mark"
    assert f"write {wanted} if it is one" in issue.message
    assert answer[issue.start_pos : issue.end_pos] == answer.removeprefix("Ice ").removesuffix(".")


def test_a_raised_number_in_html_is_no_marker_but_an_issue():
    assert wrong("Ice floats<sup>1,2</sup>.", 3) == [("unread_mark", 1, "<sup>1,2</sup>")]


@pytest.mark.parametrize("marker", ["[来源二]", "[Source two]", "[Source II]", "【出典 二】"])
def test_a_number_in_words_is_an_issue(marker: str):
    assert wrong(f"Ice floats {marker}.", 2) == [("unread_mark", 2, marker)]
    assert wrong(f"Ice floats {marker}.", 1) == []


def test_a_link_to_the_anchor_of_a_source_is_a_marker():
    assert numbers("Ice floats [2](#source-2). It melts [1](#part-1).", 2) == [2]


def test_code_in_html_has_no_markers():
    assert numbers("A <code>a[Source 3]</code>.\n\n<pre>\n[2]\n\n[Source 1]\n</pre>\n\nIce <code>[Source 4].", 5) == [4]


def test_the_readable_part_of_an_unread_marker_is_cited():
    assert numbers("Ice [Sources 1 foo 3]. Salt [Foo 2].", 3) == [1]
    assert coverage("Ice [Foo 1]. Salt [Source 2].", 3) == (1, 2)


WORDS = st.sampled_from(["", "Source", "Sources", "Kilder", "Quellen", "来源", "المصادر", "Citation:", "Source no."])
JOINTS = st.sampled_from([", ", " and ", "; ", "、", " or ", "-", " to ", " through ", "至", " bis "])
RANGES = {"-", " to ", " through ", "至", " bis "}


@given(WORDS, st.lists(st.tuples(JOINTS, st.integers(0, 12)), min_size=1, max_size=4), st.integers(0, 9))
def test_each_number_of_a_marker_is_cited_or_reported(word: str, parts: list[tuple[str, int]], sources: int):
    assume(word or parts[0][1])  # `[0, 1]` is an interval.
    joints = [", " if joint in RANGES and at % 2 == 0 else joint for at, (joint, _) in enumerate(parts)]
    content = "".join(f"{joint}{number}" for joint, (_, number) in zip(joints, parts, strict=True)).removeprefix(
        joints[0]
    )
    answer = f"Ice floats [{word} {content}]."
    found = read(answer, sources)
    cited = [each.source_number for each in found.citations]
    assert len(cited) == len(set(cited))
    for number in {number for _, number in parts}:
        assert (number in cited) == (1 <= number <= sources)
    reported = {each.number for each in found.issues if each.code in {"zero", "out_of_range"}}
    assert reported == {number for _, number in parts if not 1 <= number <= sources}


SPELLINGS = st.sampled_from(
    ["[Source 2]", "[Sources 1 to 3]", "[来源1、3]", "[Kilder 1 og 2]", "[Foo 2]", "[citation:1]"]
)
UNSEEN = st.lists(st.tuples(st.integers(1, 8), st.sampled_from("\u200b\u200c\u2060\ufeff\u00ad")), max_size=4)


@given(SPELLINGS, UNSEEN)
def test_invisible_characters_change_no_marker(marker: str, unseen: list[tuple[int, str]]):
    content = marker
    for at, char in unseen:
        content = content[: min(at, len(content) - 1)] + char + content[min(at, len(content) - 1) :]
    plain, found = read(f"Ice floats {marker}.", 5), read(f"Ice floats {content}.", 5)
    assert [each.source_number for each in found.citations] == [each.source_number for each in plain.citations]
    assert [(each.code, each.number) for each in found.issues] == [(each.code, each.number) for each in plain.issues]
    assert {each.quoted_text for each in found.citations} <= {"Ice floats."}


@given(st.text(st.characters(categories=["L"]), min_size=2, max_size=12), st.integers(1, 9))
def test_a_bracket_of_any_word_and_a_sources_number_is_cited_or_an_issue(word: str, number: int):
    assume(not is_place(f"{word} {number}"))
    found = read(f"Ice floats [{word} {number}].", 9)
    assert [*(each.source_number for each in found.citations), *(each.number for each in found.issues)] == [number]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sampled_from(["[{}]", "[Source {}]", "【{}】"]))
def test_formatted_markers_are_read_back(cited: list[int], form: str):
    answer = "Ice floats " + " ".join(form.format(number) for number in cited) + "."
    assert numbers(answer, 9) == cited


@pytest.mark.parametrize(
    "text",
    [
        "[source" + " " * 100_000,
        "[1," * 50_000,
        "[" * 100_000,
        "¹ " * 50_000,
        ")" * 100_000 + "¹",
        "[**Source" + "\n" * 100_000,
        "[Source 1/" * 10_000,
        "[Source 1 a" * 10_000,
        "<source-1 id=" * 10_000,
        f"[Source {'1,    ' * 40}1 {'y' * 300}]",
        f"[{'1    ,    ' * 40}1 {'y' * 300}]",
        f"[Foo {'1  -  2,   ' * 40}1 {'y' * 300}]",
    ],
)
def test_no_text_takes_long(text: str):
    assert find_markers(text, "footnote") is not None
