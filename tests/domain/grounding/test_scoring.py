"""The grounding score: sentences that count, their support by sources, and numbers of no source."""

# ruff: noqa: RUF001  (marks of many scripts)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.grounding.citation_markers import Style
from redraft.domain.grounding.citations import read_citations
from redraft.domain.grounding.non_statements import is_denial, is_small_talk
from redraft.domain.grounding.scoring import Grounding, ScoredSentence, ground, read_evidence
from redraft.domain.text.content_words import read_content
from tests.domain.grounding.cited_answers import Chunk
from tests.domain.grounding.test_sentences import TEXTS

WATER = "Water boils at 100 °C at sea level. At higher altitudes it boils at lower temperatures."
ICE = "Ice melts at 0 °C. The melting of ice takes a lot of heat. It has 1,234 forms, of which nineteen are known."


def is_non_statement(text: str) -> bool:
    return not any(map(str.isdecimal, text)) and (is_small_talk(text) or is_denial(text))


def grounded(answer: str, *sources: str, style: Style = "inline") -> Grounding:
    cited = read_citations(answer, [Chunk()] * len(sources), style)
    return ground(answer, cited, read_evidence(sources))


def support(answer: str, *sources: str) -> list[str]:
    return [each.support for each in grounded(answer, *(sources or (WATER, ICE))).sentences]


def test_the_score_is_the_share_of_supported_statements():
    answer = (
        "## Facts\n\nWater boils at 100 °C [Source 1]. Melting ice takes much heat. "
        "Water freezes at 5 °C [Source 2]. Is that all?\n\nI hope this helps!"
    )
    found = grounded(answer, WATER, ICE)
    assert found.sentences == (
        ScoredSentence("Water boils at 100 °C [Source 1].", 10, 43, (1,), "full", 1.0, ()),
        ScoredSentence("Melting ice takes much heat.", 44, 72, (), "half", 1.0, ()),
        ScoredSentence("Water freezes at 5 °C [Source 2].", 73, 106, (2,), "none", 1 / 3, ("5",)),
    )
    assert found.score == 0.5
    assert found.sources_used == (0, 1)
    assert (found.sentences_cited, found.sentences_total) == (2, 5)


@pytest.mark.parametrize(
    ("answer", "supports"),
    [
        ("Ice melts at 0 °C [Source 2].", ["full"]),
        ("Ice melts at 0 °C [Source 1].", ["half"]),
        ("Ice melts at 0 °C.", ["half"]),
        ("Ice melts at 0 °C [Source 9].", ["half"]),
        ("Ice melts at 1 °C [Source 2].", ["none"]),
        ("Elephants live in Africa [Source 1].", ["none"]),
        ("Water boils and ice melts [Sources 1, 2].", ["full"]),
        ("Ice melts, and water boils at 100 °C [Source 2].", ["half"]),
        ("| Ice melts | 0 °C [2] |", ["full"]),
        ("Ice has 1234 forms [2].", ["full"]),
        ("Melted ices [2].", ["full"]),
        ("ICE MELTS [2].", ["full"]),
    ],
)
def test_support_of_a_sentence(answer: str, supports: list[str]):
    assert support(answer) == supports


def test_numbers_count_in_digits_and_as_words():
    assert support("They have 3 moons [1].", "The planets have three moons.") == ["full"]
    assert support("Der Wald hat 12 Wege [1].", "Im Wald gibt es zwölf Wege.") == ["full"]
    assert support("It rose to 1 234 567 [1].", "It rose to 1,234,567 then.") == ["full"]
    assert support("In 2019-2020 it rose [1].", "It rose in 2019 and 2021.") == ["none"]
    assert support("人口是500万 [1]。", "该市人口是500万。") == ["full"]


def test_a_number_from_another_source_is_not_the_cited_ones():
    (found,) = grounded("Ice melts at 100 °C [Source 2].", WATER, ICE).sentences
    assert (found.support, found.missing_numbers) == ("half", ())


@pytest.mark.parametrize(
    ("source", "answer", "support_wanted"),
    [
        ("Die Fichten leiden unter dem Borkenkäfer.", "Fichten litten unter Borkenkäfern [1].", "full"),
        ("La France produit du vin rouge.", "On produit le vin en France [1].", "full"),
        ("水在标准大气压下的沸点是100摄氏度。", "在标准大气压下，水的沸点为100摄氏度[1]。", "full"),
        ("水在标准大气压下的沸点是100摄氏度。", "喝热水对身体有好处[1]。", "none"),
        ("Вода кипит при 100 градусах.", "Вода закипает при 100 градусах [1].", "full"),
        ("पानी उबलता है।", "पानी उबलता है [1]।", "full"),
        ("المياه تغلي عند مئة درجة", "تغلي المياه عند مئة درجة [1]؟", None),
        ("Most coasts have two high tides.", "Tidal power plants supply homes in Scotland [1].", "none"),
        ("Cafe\u0301 culture grew in Vienna.", "Café culture grew [1].", "full"),
    ],
)
def test_support_in_other_languages(source: str, answer: str, support_wanted: str | None):
    assert support(answer, source) == ([support_wanted] if support_wanted else [])


@pytest.mark.parametrize(
    "text",
    [
        "I hope this helps!",
        "Let me know if you need more.",
        "Sure, here is the answer.",
        "Ich hoffe, das hilft.",
        "Voici la réponse.",
        "The sources do not mention the price.",
        "There are no sources to answer this.",
        "This is not stated in the provided sources.",
        "None of the documents says who wrote it.",
        "Die Quellen nennen den Preis nicht.",
        "Aucune source ne le dit.",
        "资料中没有提到价格。",
    ],
)
def test_small_talk_and_denials_state_nothing(text: str):
    assert is_non_statement(text)
    assert grounded(text, WATER).score is None


@pytest.mark.parametrize(
    "text",
    [
        "The sources do not mention it, but aliens built the pyramids.",
        "The source of the river is not known.",
        "The sources do not mention the price" + " or the like" * 30,
        "Here are 5 moons.",
        "No energy source is free of risk.",
        "Surely the moon pulls.",
    ],
)
def test_a_statement_that_looks_like_small_talk_counts(text: str):
    assert not is_non_statement(text)


def test_small_talk_with_a_marker_counts():
    assert support("The sources do not mention the price [1].") == ["none"]


def test_function_words_alone_are_no_statement():
    assert grounded("Yes. It is so. A.", WATER).score is None
    assert grounded("", WATER).score is None


def test_without_sources_nothing_is_supported():
    found = grounded("Ice melts at 0 °C [Source 1].")
    assert (found.score, found.sources_used) == (0.0, ())
    assert found.sentences[0].overlap == 0
    assert found.sentences[0].missing_numbers == ("0",)


def test_a_list_at_the_end_is_cited_by_the_whole_answer():
    answer = "Ice melts at 0 °C. Water boils at 100 °C.\n\nSources:\n[Source 2] Ice"
    found = grounded(answer, WATER, ICE, style="endnote")
    assert [each.support for each in found.sentences] == ["full", "half"]
    assert found.sources_used == (1,)
    marked = grounded(answer.replace("0 °C.", "0 °C [2].", 1), WATER, ICE, style="endnote")
    assert [each.support for each in marked.sentences] == ["full", "half"]


@given(TEXTS, st.lists(st.text(), max_size=4), st.sampled_from(["inline", "footnote", "endnote"]))
def test_any_text_gets_a_score_within_bounds(answer: str, sources: list[str], style: Style):
    found = grounded(answer, *sources, style=style)
    assert (found.score is None) == (not found.sentences)
    assert found.score is None or 0 <= found.score <= 1
    assert 0 <= found.sentences_cited <= found.sentences_total
    for each in found.sentences:
        assert answer[each.start : each.end] == each.text
        assert 0 <= each.overlap <= 1
        assert each.support == "none" or not each.missing_numbers


STATEMENTS = st.sampled_from(
    ["Ice melts at 0 °C [2].", "Water boils [1].", "Melting ice takes heat.", "It costs 77 euros [1].", "Is it?"]
)


@given(st.lists(STATEMENTS), st.sampled_from(["Elephants live in Africa.", "Ice melts at 4711 °C.", "Zebras run [1]."]))
def test_a_sentence_that_nothing_supports_never_raises_the_score(statements: list[str], added: str):
    before = grounded(" ".join(statements), WATER, ICE).score
    after = grounded(" ".join([*statements, added]), WATER, ICE).score
    assert after is not None
    assert after <= (1 if before is None else before)


@given(st.lists(STATEMENTS, min_size=1))
def test_dropping_markers_never_raises_the_score(statements: list[str]):
    text = " ".join(statements)
    before = grounded(text, WATER, ICE).score
    after = grounded(text.replace(" [1]", "").replace(" [2]", ""), WATER, ICE).score
    assert (before or 0) >= (after or 0)


def test_one_source_for_another_never_adds_support():
    assert grounded("Ice melts [2].", WATER, ICE).score == 1
    assert grounded("Ice melts [1].", WATER, ICE).score == 0.5


@given(st.text())
def test_a_text_supports_its_own_statements(text: str):
    read, evidence = read_content(text), read_evidence([text])
    assert all(stem in evidence.stems for stem in read.stems)
    assert all(value in evidence.values for _, values in read.numbers for value in values)
