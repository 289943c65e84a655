"""Excerpts of long sources: the passages most similar to the answer stay, and gaps are marked."""

from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.grounding.excerpts import GAP, excerpts

FILLER = "\n\n".join(f"Paragraph {number} tells of something else altogether, at some length." for number in range(400))


def test_sources_that_fit_stay_whole():
    assert excerpts(["one", "two"], "answer", 6) == ["one", "two"]


def test_the_passages_most_similar_to_the_answer_stay_in_order():
    source = f"{FILLER}\n\nThe lighthouse keeper sang at midnight.\n\n{FILLER}\n\nThe lighthouse fell.\n\n{FILLER}"
    other = "Nothing of that kind. " * 500
    (shown, rest) = excerpts([source, other], "At midnight the keeper of the lighthouse sang. It fell.", 2600)
    assert shown.index("sang at midnight") < shown.index("The lighthouse fell")
    assert shown.startswith(GAP)
    assert shown.endswith(GAP)
    assert len(shown) + len(rest) <= 2600 + 20 * len(GAP)


def test_a_source_without_a_fitting_passage_becomes_a_gap():
    assert excerpts(["x" * 5000, "y" * 5000], "x", 10) == [GAP, GAP]


@given(st.lists(st.text(max_size=4000), max_size=4), st.text(max_size=100), st.integers(0, 3000))
def test_excerpts_contain_only_text_of_the_sources(contents: list[str], answer: str, chars: int):
    shown = excerpts(contents, answer, chars)
    assert len(shown) == len(contents)
    for content, kept in zip(contents, shown, strict=True):
        if kept != content:
            assert all(part.strip() in content for part in kept.split(GAP))


def test_a_stretch_that_has_no_break_is_cut_all_the_same():
    shown = excerpts(["a\u0301" + "\u0301" * 9000], "a", 2000)[0]
    assert 0 < len(shown) <= 2000 + 2 * len(GAP) + 10


def test_no_source_is_pushed_out_by_another_and_cited_ones_come_first():
    stuffed = "The keeper sang at midnight. " * 400
    told = [stuffed, *("Something else. " * 100 for _ in range(9)), "The truth is here. " * 100]
    shown = excerpts(told, "The keeper sang at midnight [Source 11].", 9000)
    assert all(each != GAP for each in shown)
    assert excerpts(told, "The keeper sang [Source 11].", 900)[10] != GAP
