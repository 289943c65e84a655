"""The grounding rule: answers that may be accepted, and the feedback on all others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.grounding.citation_markers import Style
from redraft.domain.grounding.citations import read_citations
from redraft.domain.grounding.scoring import ground, read_evidence
from redraft.domain.grounding.support import SUPPORTED_SHARE_MIN, Support, find_support
from redraft.domain.jobs.requests import Source

SOURCES = [
    Source(content="Water boils at 100 °C at sea level. At higher altitudes it boils at lower temperatures."),
    Source(content="Ice melts at 0 °C. The melting of ice takes a lot of heat."),
]
TRUE = "Water boils at 100 °C [Source 1]."


def support(answer: str, sources: list[Source] = SOURCES, *, must_cite: bool = True) -> Support:
    cited = read_citations(answer, sources)
    found = ground(answer, cited, read_evidence(source.content for source in sources))
    return find_support(found, cited.issues, sources=len(sources), must_cite=must_cite)


@pytest.mark.parametrize(
    "answer",
    [
        TRUE,
        "Ice melts at 0 °C [2]. Melting ice takes heat.",
        "Wasser siedet am Meer bei 100 Grad [Source 1].",
        "The sources do not tell.",
        "Could you send me the documents?",
        "",
    ],
)
def test_an_answer_that_its_sources_support_meets_the_rule(answer: str):
    found = support(answer)
    assert (found.met, found.unsupported, found.problems) == (True, (), ())


@pytest.mark.parametrize(
    ("answer", "reasons", "words"),
    [
        (f"{TRUE} Gold is heavy.", ["uncited"], 'No source is given for "Gold is heavy."'),
        (f"{TRUE} Ice melts at 5 °C [Source 2].", ["number"], "No source holds the number 5 in"),
        (f"{TRUE} Ice melts [Source 7].", [], "[Source 7] cites source 7, but the sources are 1 to 2."),
        (f"{TRUE} Ice melts [Source 0].", [], "[Source 0] cites source 0"),
        ("Water boils at sea level.", [], "The answer cites no source"),
    ],
)
def test_unsupported_sentences_are_reported(answer: str, reasons: list[str], words: str):
    found = support(answer)
    assert not found.met
    assert [each.reason for each in found.unsupported] == reasons
    assert all(answer[each.start_pos : each.end_pos] == each.text for each in found.unsupported)
    assert any(words in problem for problem in found.problems)


@pytest.mark.parametrize(
    ("style", "words"), [("inline", "as in [Source 1]"), ("footnote", "as in ¹"), ("endnote", 'a line "Sources:"')]
)
def test_the_feedback_on_an_answer_without_citations_names_the_wanted_spelling(style: Style, words: str):
    cited = read_citations("Water boils at sea level.", SOURCES, style)
    found = ground("Water boils at sea level.", cited, read_evidence([SOURCES[0].content]), style)
    assert words in find_support(found, cited.issues, sources=2, must_cite=True, style=style).problems[0]


def test_one_uncited_sentence_of_five_is_accepted_and_reported():
    answer = " ".join([TRUE] * 4 + ["Gold is heavy."])
    found = support(answer)
    assert found.met
    assert [each.text for each in found.unsupported] == ["Gold is heavy."]
    assert len(found.problems) == 1
    assert not support(" ".join([TRUE] * 3 + ["Gold is heavy."])).met
    assert SUPPORTED_SHARE_MIN == 0.8


def test_a_number_from_nowhere_is_never_let_pass():
    found = support(" ".join([TRUE] * 20 + ["It took 77 years [Source 1]."]))
    assert (found.met, found.is_sound) == (False, False)


def test_markers_are_not_requested_without_must_cite():
    assert support("Water boils at sea level.", must_cite=False).met


def test_without_sources_nothing_can_be_stated():
    assert support("Send me sources on the 1980s, please.", []).met
    assert support("No sources were given. Please send me some on Bern.", []).met
    assert "there are no sources" in support("It was so [Source 1].", []).problems[0]
    made_up = support("The ferry leaves at 9:15 and costs 44 euros.", [])
    assert (made_up.met, made_up.problems) == (
        False,
        ("No sources were given: say so, ask for them, and state nothing else.",),
    )


def test_a_cited_source_must_have_something_to_do_with_the_sentence():
    found = support("Purple elephants dance in Bremen [Source 1].")
    assert (found.met, [each.reason for each in found.unsupported]) == (False, ["unrelated"])
    assert "The source that is cited says nothing of" in found.problems[0]
    assert support("Violette Elefanten tanzen in den Gassen der alten Stadt Bremen [Source 1].").met


def test_a_reference_list_replaces_markers_only_in_the_endnote_style():
    answer = "Gold is heavy.\n\nSources:\n[Source 1]"
    assert not support(answer).met


def test_feedback_stays_short_however_much_is_wrong():
    found = support(" ".join(f"Gold weighs {number} stones." for number in range(500, 900)))
    assert len(found.unsupported) == 400
    assert len(found.problems) == 12
    assert "390 more statements have no support." in found.problems


@given(st.text(max_size=300))
def test_any_answer_gets_a_ruling(answer: str):
    found = support(answer)
    assert found.met <= found.is_sound
    assert found.met or found.problems
