"""Answers that try to evade the grounding rule, and honest answers that the rule must accept."""

# ruff: noqa: RUF001  (numbers and letters of many scripts)

import pytest

from redraft.domain.grounding.citation_markers import Style
from redraft.domain.grounding.citations import read_citations
from redraft.domain.grounding.non_statements import is_denial, is_small_talk
from redraft.domain.grounding.scoring import Grounding, ground, read_evidence
from redraft.domain.grounding.support import Support, find_support
from redraft.domain.jobs.requests import Source

FERRY = (
    "The ferry leaves Port Alder every day at 7:40 and at 16:20. Basel has 134,591 inhabitants and twenty museums. "
    "The office closes at 5 p.m. Bern became the federal city on 28 November 1848."
)
ISLAND = "The island of Hirsholm has 3 million birds, thirteen houses and 20 lakes. The church stands since 1903."
CITED = "The ferry leaves Port Alder at 7:40 [Source 1]."


def is_non_statement(text: str) -> bool:
    return is_small_talk(text) or is_denial(text)


def grounding(answer: str, *sources: str, known: tuple[str, ...] = (), style: Style = "inline") -> Grounding:
    given = sources or (FERRY, ISLAND)
    cited = read_citations(answer, [Source(content=each) for each in given], style)
    return ground(answer, cited, read_evidence(given, known), style)


def support(
    answer: str,
    *sources: str,
    known: tuple[str, ...] = (),
    style: Style = "inline",
    must_cite: bool = True,
) -> Support:
    given = sources or (FERRY, ISLAND)
    cited = read_citations(answer, [Source(content=each) for each in given], style)
    found = ground(answer, cited, read_evidence(given, known), style)
    return find_support(found, cited.issues, sources=len(given), must_cite=must_cite)


@pytest.mark.parametrize(
    "text",
    [
        "If you have diabetes, stop taking your insulin at once.",
        "Of course the drug is safe for children.",
        "Sure, Basel is older than Bern and was founded by aliens.",
        "Absolutely everyone in Basel is a thief.",
        "Thanks to the alien founders, Basel is rich.",
        "I hope that you know Basel was founded by aliens.",
        "Let me know if Basel was founded by aliens.",
        "Here is why Basel was founded by aliens.",
        "Sicherheitsgurte sind in Basel verboten.",
        "Natürliche Gifte sind harmlos.",
        "Travellers without documents are sent to Siberia.",
        "There is no information that the drug harms children.",
        "The given documents are not needed to cross the border to France.",
        "The sources do not deny that Basel was founded by aliens.",
        "The sources say that the drug does not harm children.",
        "The sources do not mention the price, so the drug is free.",
        "The sources do not mention the price; the drug is free for children.",
        "The drug is not in any information leaflet.",
        "I don't know anyone who is harmed by the drug.",
        "Nothing in the sources is dangerous to children.",
        "Die Quellen sagen, dass das Medikament nicht schadet.",
        "Les sources disent que le médicament n'est pas dangereux.",
        "Aliens, whom the sources do not mention, founded Bern.",
        "As the sources do not say otherwise, Bern was founded by aliens.",
        "Bern was founded by aliens and the sources do not say why.",
        "Aliens are not mentioned in the sources and founded Bern.",
        "The given materials cannot support a bridge.",
        "No documents are provided to refugees in Siberia.",
        "Die Dokumente geben keine Sicherheit.",
        "I cannot tell you to stop taking insulin.",
        "Ohne Dokumente kommt niemand nach Basel.",
        "The contract contains no information on cats.",
        "Bern, the sources do not say why, was founded by aliens.",
        "Aliens that the sources do not mention founded Bern.",
    ],
)
def test_a_statement_that_begins_like_small_talk_counts(text: str):
    assert not is_non_statement(text)
    assert len(grounding(text).sentences) == 1
    assert not support(f"{CITED} {text}").met


@pytest.mark.parametrize(
    "text",
    [
        "I hope this helps!",
        "If you have any questions, let me know.",
        "Let me know if you need anything else.",
        "Sure!",
        "Of course!",
        "Sure, here is the answer.",
        "Great question!",
        "Thanks for asking!",
        "Gerne, hier ist die Antwort.",
        "Voici la réponse.",
        "希望这对你有帮助。",
    ],
)
def test_small_talk_states_nothing_and_alone_is_no_answer(text: str):
    assert is_non_statement(text)
    assert support(f"{CITED} {text}").met
    assert support(text).problems == (
        "The answer states nothing that can be held against the sources: write sentences, and cite.",
    )


@pytest.mark.parametrize(
    "text",
    [
        "The sources do not tell.",
        "I cannot answer this from the sources.",
        "I don't know.",
        "I do not know when the ferry leaves.",
        "The retrieved chunks don't mention this.",
        "I couldn't find this in the material.",
        "There's nothing on that in the texts I was given.",
        "The sources don’t say.",
        "Unfortunately, the sources do not say who built it.",
        "The provided context does not contain information about the price.",
        "Based on the provided sources, I cannot answer this question.",
        "The price is not mentioned in the sources.",
        "It is not clear from the sources who wrote it.",
        "No source mentions the price.",
        "Not mentioned in the sources.",
        "Das steht nicht in den Quellen.",
        "Keine der Quellen nennt den Preis.",
        "Das weiß ich nicht.",
        "Les sources ne mentionnent pas le prix.",
        "Las fuentes no mencionan el precio.",
        "Это не указано в источниках.",
        "Il contesto non lo dice.",
        "资料中没有提到价格。",
        "There are no sources to answer this.",
        "I'm sorry, but the sources do not contain this information.",
        "There is not enough information in the sources to answer this question.",
        "Regarding the price, the sources do not say anything.",
        "The sources do not say whether the ferry leaves on Sundays, so I cannot tell.",
        "None of the provided sources mention the price.",
        "The sources provided do not mention the price.",
        "The question cannot be answered from the given sources.",
        "The sources are silent on the price.",
        "根据提供的资料，无法回答这个问题。",
        "Der Preis wird in den Quellen nicht genannt.",
        "Los documentos no indican la fecha.",
        "The answer is not in the sources.",
        "I don't have enough information to answer.",
        "Could you share the documents with me?",
        "Please provide the source texts.",
    ],
)
def test_honest_words_may_be_accepted(text: str):
    found = support(text)
    assert (found.met, found.unsupported, found.problems) == (True, (), ())


LIE = "Bern was founded by aliens"


@pytest.mark.parametrize(
    "answer",
    [
        f"# {LIE}\n\n## Its mayor is a robot",
        f"**{LIE} long ago**",
        f"```\n{LIE}.\n```",
        f"    {LIE}.\n    Its mayor is a robot.",
        f"{LIE}, right?",
        f"{LIE}:",
        f"{LIE}:\n\nIts mayor is a robot:",
        f"| {LIE} | long ago |\n|---|---|",
        f"```\n{LIE}.\n```\n\nThe sources do not tell.",
        "Is that all?",
        "Yes.",
    ],
)
def test_an_answer_whose_layout_hides_its_statements_is_not_accepted(answer: str):
    found = support(answer)
    assert not found.met
    assert found.problems


@pytest.mark.parametrize(
    "answer",
    [
        f"# {LIE} in 1066",
        f"**{LIE} in 1066**",
        f"{LIE} in 1066, right?",
        f"{LIE} in 1066:\n- It is old",
        f"| {LIE} | 1066 |\n|---|---|",
    ],
)
def test_numbers_are_held_wherever_they_stand(answer: str):
    found = support(f"{CITED}\n\n{answer}")
    assert not found.is_sound
    assert found.unsupported[0].missing_numbers == ("1066",)


def test_bold_lines_beside_a_cited_sentence_are_prose():
    lines = "\n\n".join(f"**{LIE} number {word}**" for word in ("one", "two", "three"))
    assert [each.reason for each in support(f"{CITED}\n\n{lines}").unsupported] == ["uncited"] * 3
    assert support(f"**The ferry**\n\n{CITED}").met


def test_a_cited_yes_is_an_answer():
    assert support("Yes [Source 1].").met


@pytest.mark.parametrize(
    "answer",
    [
        "There are 2 ferries every day [Source 1].",
        "Here are 3 facts:\n- The ferry leaves at 7:40 [1]\n- Thirteen houses stand there [2]\n- It has lakes [2]",
        "There are 2 ferries:\n- At 7:40 [1]\n- At 16:20 [1]",
        "Step 1: Take the ferry at 7:40 [1].\n\nStep 2: Visit the church of 1903 [2].",
        "(1) The ferry leaves at 7:40 [1]; (2) the church stands since 1903 [2].",
        "1.1 The ferry leaves at 7:40 [1].\n\n1.2 The church stands since 1903 [2].",
        "1- The ferry leaves at 7:40 [1].\n\n2- The church stands since 1903 [2].",
        "1: The ferry leaves at 7:40 [1].\n\n2: The church stands since 1903 [2].",
        "1️⃣ The ferry leaves at 7:40 [1].\n\n2️⃣ The church stands since 1903 [2].",
        "**1. Ferry**: It leaves at 7:40 [1].\n\n**2. Church**: It stands since 1903 [2].",
        "## 1. Ferry\n\nIt leaves at 7:40 [1].\n\n## 2. Church\n\nIt stands since 1903 [2].",
        "① The ferry leaves at 7:40 [1].\n\n② The church stands since 1903 [2].",
        "| 1 | The ferry leaves at 7:40 [1] |\n| 2 | The church stands since 1903 [2] |",
        "According to Source 2, the church stands since 1903 [Source 2].",
        "Source 1 says that the ferry leaves at 7:40 [1].",
        "Sources 1 and 2 tell of the ferry and the church [1, 2].",
        "Of the 2 sources, 1 tells of the church [Source 2].",
        "Basel has 20 museums [1].",
        "The island has 13 houses and twenty lakes [2].",
        "The island has 3,000,000 birds [2].",
        "The island has 3 Mio. birds [2].",
        "The ferry leaves at 4:20 pm [1].",
        "The ferry leaves at 4:20 p.m. [1].",
        "The office closes at 17:00 [1].",
        "The office closes at 5 pm [1].",
        "Bern became the federal city in the 1840s [1].",
        "Bern became the federal city in the 19th century [1].",
        "Bern wurde im 19. Jahrhundert Bundesstadt [1].",
        "Bern became the federal city on 28.11.1848 [1].",
        "Bern became the federal city on 1848-11-28 [1].",
        "Bern became the federal city on 11/28/1848 [1].",
        "Basel has over 134,000 inhabitants [1].",
        "Basel has about 130,000 inhabitants [1].",
        "Basel hat rund 134.600 Einwohner [1].",
        "Basel has nearly 135,000 inhabitants [1].",
        "Basel has 134 591 inhabitants [1].",
        "Basel hat 134.591 Einwohner [1].",
        "Die Fähre verlässt Port Alder um 7.40 Uhr [1].",
        "1) It leaves at 7:40 [1]. 2) It also leaves at 16:20 [1].",
    ],
)
def test_list_numbers_and_equal_numbers_are_no_missing_numbers(answer: str):
    found = support(answer)
    assert (found.unsupported, found.met) == ((), True)


def test_a_range_of_years_may_be_shortened():
    assert support("It was built in 1848–49 [1].", "It was built in 1848 and 1849.").met
    assert support("It was built in 1848 and 1849 [1].", "It was built in 1848–49.").met
    assert not support("It was built in 1848–52 [1].", "It was built in 1848 and 1849.").met


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("Bern covers ½ of it [1].", "½"),
        ("Bern has ⑨ bridges [1].", "⑨"),
        ("Bern has Ⅻ bridges [1].", "Ⅻ"),
        ("Bern became the capital on 1.2.2024 [1].", "1.2.2024"),
        ("Bern became the capital on 9.9.1999 [1].", "9.9.1999"),
        ("Bern suffered from COVID-99 [1].", "COVID-99"),
        ("Bern lies on the B99 [1].", "B99"),
        ("Bern has 3 billion birds [2].", "3"),
        ("The ferry leaves at 6:20 pm [1].", "6:20 pm"),
        ("Basel has over 135,000 inhabitants [1].", "135,000"),
        ("Basel has about 200,000 inhabitants [1].", "200,000"),
        ("Bern was founded in the 1750s [1].", "1750s"),
        ("Bern has 5,000 bridges [1].", "5,000"),
        ("Bern has 8½ bridges [1].", "½"),
        ("9.9 Meter hoch ist Bern [1].", "9.9"),
        ("There are 8 mg in it [1].", "8"),
        ("Take 6 pills a day [1].", "6"),
        ("There are 6 °C in Bern [1].", "6"),
        ("Step 9: Take the ferry [1].", "9"),
        ("According to Source 9, the ferry leaves at 7:40 [1].", "9"),
    ],
)
def test_numbers_of_no_source_are_found_in_any_notation(answer: str, missing: str | None):
    found = support(answer)
    assert [each.missing_numbers[0] for each in found.unsupported] == ([missing] if missing else [])
    assert found.met == (missing is None)


def test_numbers_of_the_question_are_never_missing_and_support_nothing():
    gap = "The sources do not say when the ferry leaves in 2024."
    assert not support(gap).met
    assert support(gap, known=("When does it leave in 2024?",)).met
    (stated,) = grounding("In 2024 the ferry leaves at 7:40 [1].", known=("And in 2024?",)).sentences
    assert (stated.support, stated.missing_numbers) == ("half", ())


GERMAN = "Die Fähre verlässt den Hafen jeden Morgen. Auf der Insel brüten sehr viele Vögel."
ENGLISH = (
    "The ferry leaves the harbour of Port Alder every morning and every afternoon of the year.",
    "The island is home to a great many birds, which breed there undisturbed in spring.",
)


def test_a_list_at_the_end_is_relied_on_by_every_sentence():
    answer = f"{GERMAN}\n\nSources:\n[Source 1] Ferry\n[Source 2] Island"
    assert support(answer, *ENGLISH, style="endnote").met
    assert [each.rests_on for each in grounding(answer, *ENGLISH, style="endnote").sentences] == [(1, 2), (1, 2)]
    assert not support(GERMAN, *ENGLISH, style="endnote").met


def test_words_in_another_language_cannot_be_held_against_the_sources():
    assert support(GERMAN, *ENGLISH, must_cite=False).met
    assert not support(f"{GERMAN} Es sind 77 Arten.", *ENGLISH, must_cite=False).met
    other = "Gold is a heavy and expensive metal that is found deep in the mountains of Africa."
    assert not support(other, *ENGLISH, must_cite=False).met
