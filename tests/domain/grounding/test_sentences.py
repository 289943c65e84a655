"""Sentences of answers: their bounds, and whether they state something."""

# ruff: noqa: RUF001  (stops and letters of many scripts)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.grounding.blocks import read_layout
from redraft.domain.grounding.citation_markers import Style, markers_of
from redraft.domain.grounding.sentences import Sentence, sentences_of


def sentences(text: str, style: Style = "inline") -> list[Sentence]:
    layout = read_layout(text)
    return sentences_of(layout, markers_of(layout, style))


# `‖` stands where a new sentence begins.
PROSE = [
    "The U.S. rate rose 3.14 percent, e.g. in May. ‖Dr. Lee agreed.",
    "Water boils at 100 °C. ‖Ice melts at 0 °C.",
    "He lives in the U.S. ‖The rent is high.",
    "The U.S. Congress met on Jan. 5 at 10 a.m. in Washington.",
    "It closes at 5 p.m. ‖Visitors leave then.",
    "See p. 5 and pp. 7-9, Fig. 3 and No. 4 of vol. 2.",
    "Mr. Smith met Mrs. Jones, Prof. Brown and J. R. Tolkien. ‖They talked.",
    "George W. Bush spoke. ‖Then he left.",
    "Apples, pears, etc. are fruit. ‖They grow on trees, etc. ‖Vitamin C is an acid.",
    "Acme Inc. sold 3.5 million units. ‖Acme Inc. ‖It grew.",
    "Das ist z. B. so, d. h. anders. ‖Dr. Maier u. a. kamen am 3. Oktober um ca. 8 Uhr.",
    "Im 19. Jahrhundert war das, usw. ‖Danach kam der 2. Weltkrieg.",
    "Die Fa. Meyer GmbH in der Goethestr. 5 zahlt lt. Vertrag bzw. Gesetz.",
    "M. Dupont et Mme. Durand sont venus. ‖Ils ont vu env. 20 p. ex. hier.",
    "El Sr. López y la Sra. Pérez llegaron. ‖¿Quién más? ‖¡Nadie!",
    "水在100°C沸腾。‖冰在0°C融化！‖真的吗？",
    "彼は「はい。」と言った。‖それから帰った。",
    "他说：“你好。”然后走了。‖冰在0°C融化。",
    "他說：「不行！」然後走了。‖他笑了。",
    "歌手「モーニング娘。」のメンバーは12人だ。‖彼の「やめろ。早く。」の一言で終わった。",
    '《你好吗？》很好看。‖他说"不行！"然后走了。',
    "『「はい。」と言え。』と彼は言った。‖【注意。】‖水沸腾（见下。）了。",
    "他说'不行！'然后走了。‖｢だめ｡｣と言った｡",
    "（見よ！）と言った。‖他说：“水沸腾。”。‖冰浮。",
    "「はい。」‖「いいえ。」と言った。",
    "「はい。」「いいえ。」の二つがある。‖「はい。」『いいえ。』「無理。」が答えだ。",
    '그는 "가자!" 라고 말했다. ‖그는 웃었다.',
    "水沸腾。‖“冰”融化。‖（盐沉。）‖水沸腾。",
    "هل هذا صحيح؟ ‖نعم، هذا صحيح. ‖شكرا.",
    "یہ ایک جملہ ہے۔ ‖یہ دوسرا ہے۔",
    "पानी उबलता है। ‖बर्फ पिघलती है।",
    "המים רותחים. ‖הקרח נמס.",
    "Вода кипит, т. е. испаряется. ‖Лёд тает. ‖Это было в 1963 г. в Москве.",
    "He waited... and left. ‖Then he came back… ‖Nobody cared.",
    'He said "Stop." ‖Then he left.',
    '"Really?" he asked. ‖"Yes!" she said.',
    "(It rained.) ‖The match went on (as planned). ‖Nobody left.",
    "Is it true? ‖Yes! ‖No?! ‖Fine.",
    "Yahoo! is a company. ‖Version 2.0.1 of Node.js is out. ‖See example.com. ‖Done.",
    "It costs $4.50 vs. £3.99. ‖The ratio is 1:2.",
    "The pH is 7.4. ‖iPhone sales rose. ‖eBay fell.",
    "He was born in 1963. ‖It froze at -5.5 °C.",
    "Smith et al. found it. ‖Cf. Jones (2001), ch. 3, i.e. the last one.",
    "Section 3.2. covers it. ‖A Ph.D. is needed. ‖Ask St. John's College.",
    "So it ends!!! ‖Or does it??? ‖Well.",
    "The meeting is on Mon. or Tue. in Sept. 2024 approx. at noon.",
    "Plan A failed. ‖Plan B. ‖It worked.",
    "Er hat 12. ‖Sie hat 3.",
    "The dose is 5 mg. ‖Take it at 8 a.m. ‖The rest follows.",
    "It weighs 3 lb. and 2 oz. or so. ‖Ok.",
    "Die Müller GmbH & Co. KG baut. ‖Acme & Co. ‖Vive en EE. UU. desde 1990.",
    "Rok dr hab. Nowak mieszka: Ul. Długa 5. ‖Il mourut en 52 av. J.-C. à Rome. ‖Jeg er glad i av. ‖Det er sant.",
]
WITH_MARKS = [
    "The U.S. rate rose 3.14 percent, e.g. in May [Source 1]. ‖Dr. Lee agreed [Source 2].",
    "Water boils at 100 °C. [Source 1] ‖Ice melts at 0 °C. [Source 2]",
    "水在100°C沸腾。[Source 1]‖冰在0°C融化！[Source 2]‖真的吗？",
    "A [Source 0]. ‖B [Source 3]. ‖C [Source 7]. ‖D [Source -1]. ‖E [Source 99999999999999999999].",
    "The lake covers 100 m².¹² ‖It froze in 1963.³ ‖E = mc² holds here.",
    "It floats. [Source 1], [Source 2] ‖Ice melts.[1],[2] ‖Salt sinks; [1] it does.",
    "The lake is deep.¹,² ‖It froze.¹, ²\n\n‖It runs at 5 m s⁻¹ here.",
    "Tides follow the moon.[1][2] ‖Salt lowers it.【3】 ‖Ice floats.",
    "Ice floats. ‖[Source 1] states that it is light. ‖Salt sinks.",
    "Ice floats! [1, 2] [3] ‖Why? [1] ‖Who knows.",
    "[Source 1] Ice floats. ‖Salt sinks. [Source 2]",
    'He said "Stop." [1] ‖Then he left [2].',
    "یہ ایک جملہ ہے۔ [Source 1] ‖یہ دوسرا ہے۔ [Source 2]",
    "Ice floats [1]. ‖(Salt sinks [2].) ‖Nobody knows why [3]!",
]


@pytest.mark.parametrize("case", [*PROSE, *WITH_MARKS])
def test_a_text_is_split_into_its_sentences(case: str):
    wanted = [part.strip() for part in case.split("‖")]
    assert [each.text for each in sentences(case.replace("‖", ""), "footnote")] == wanted


def kinds(text: str) -> list[tuple[str, str]]:
    return [(each.kind, each.text) for each in sentences(text)]


def test_f12_headings_are_no_statements_and_items_without_a_stop_are_sentences():
    text = "## Results\n\n- Water boils at 100 °C [Source 1]\n- Ice melts at 0 °C [Source 2]\n- Steam is invisible\n"
    assert kinds(text) == [
        ("heading", "Results"),
        ("statement", "Water boils at 100 °C [Source 1]"),
        ("statement", "Ice melts at 0 °C [Source 2]"),
        ("statement", "Steam is invisible"),
    ]


def test_f10_code_is_one_piece():
    code = "```python\nx = a[Source 3]\nb[1]\n```"
    text = f"Use `a[1]. B` here.\n{code}\nDone [Source 2]."
    assert kinds(text) == [
        ("statement", "Use `a[1]. B` here."),
        ("code", code),
        ("statement", "Done [Source 2]."),
    ]


def test_a_table_is_read_by_its_rows():
    text = "| Liquid | Boils at |\n|---|:--:|\n| Water | 100 °C [Source 1] |\n| Ethanol. Pure | 78 °C |\n"
    assert kinds(text) == [
        ("heading", "Liquid | Boils at"),
        ("row", "Water | 100 °C [Source 1]"),
        ("row", "Ethanol. Pure | 78 °C"),
    ]
    assert [each.states for each in sentences(text)] == [False, True, True]
    assert kinds("a | b\n--- | ---\nc | d\n\nx | y") == [("heading", "a | b"), ("row", "c | d"), ("statement", "x | y")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Title\n=====\nIce floats.", [("heading", "Title"), ("statement", "Ice floats.")]),
        ("**Key points**\n\nIce floats.", [("heading", "**Key points**"), ("statement", "Ice floats.")]),
        ("**Note.** Ice floats.", [("heading", "**Note.**"), ("statement", "Ice floats.")]),
        ("- **Ice**: It floats.", [("statement", "**Ice**: It floats.")]),
        ("These are the facts:\n1. Ice floats", [("heading", "These are the facts:"), ("statement", "Ice floats")]),
        ("Since 1963 there are these:\n- Ice", [("statement", "Since 1963 there are these:"), ("statement", "Ice")]),
        ("The paper says [1]:\n- Ice", [("statement", "The paper says [1]:"), ("statement", "Ice")]),
        ("> Ice floats.\n> Salt sinks.", [("statement", "Ice floats."), ("statement", "Salt sinks.")]),
        ("Ice\nfloats. salt\nsinks", [("statement", "Ice\nfloats. salt\nsinks")]),
        ("Ice floats.\nsalt sinks", [("statement", "Ice floats."), ("statement", "salt sinks")]),
        ("- [x] Ice floats\n- [ ] Salt", [("statement", "Ice floats"), ("statement", "Salt")]),
        ("Ice floats.\n\n[Source 1]", [("statement", "Ice floats.\n\n[Source 1]")]),
        ("Ice.\n[1] [2]\nSalt.", [("statement", "Ice.\n[1] [2]"), ("statement", "Salt.")]),
        ("Ice.\n[1] Salt.", [("statement", "Ice."), ("statement", "[1] Salt.")]),
        ("> Ice.\n> [1]\n> Salt.", [("statement", "Ice.\n> [1]"), ("statement", "Salt.")]),
        ("[Source 1]", [("note", "[Source 1]")]),
        ("Really?! Yes.", [("question", "Really?!"), ("statement", "Yes.")]),
        ("Is it [1]?", [("question", "Is it [1]?")]),
        ("[3]: https://e.test", [("note", "[3]: https://e.test")]),
        ("¹ A\n[^2]: B. Cd", [("statement", "¹ A"), ("statement", "B. Cd")]),
        ("    code. Here\n\nIce.", [("code", "code. Here"), ("statement", "Ice.")]),
        ("- a\n\n    More of it.", [("statement", "a"), ("statement", "More of it.")]),
        ("```\nx. Y\n\nIce floats.", [("code", "```\nx. Y"), ("statement", "Ice floats.")]),
        ("Ice ``` floats.\n\nSalt.", [("statement", "Ice ``` floats."), ("statement", "Salt.")]),
        ("~~~\na\n```\nb\n~~~~\nIce.", [("code", "~~~\na\n```\nb\n~~~~"), ("statement", "Ice.")]),
        ("Ice.\n\n---\n<br>\n…\n\n—", [("statement", "Ice.")]),
        ("# #\n#", []),
        ("", []),
    ],
)  # fmt: skip
def test_each_line_is_of_a_kind(text: str, found: list[tuple[str, str]]):
    assert kinds(text) == found


@pytest.mark.parametrize("line_end", ["\r\n", "\r", "\u2028", "\x85"])
def test_line_ends_of_every_kind_end_lines(line_end: str):
    assert [kind for kind, _ in kinds(f"# A{line_end}- Ice{line_end}- Salt")] == ["heading", "statement", "statement"]


MARKUP = st.sampled_from(
    ["# ", "- ", "1. ", "> ", "```\n", "~~~", "`", "``", "|", "|---|", "**", "[1]", "[Source 2]", "¹", "\n", "\n\n",
     ". ", "? ", "。", "e.g. ", "Sources:\n", "[^1]: ", "    ",
     "===\n", "Ice", " floats", "U.S.", "\ue000", "\r\n", ": "]
)  # fmt: skip
TEXTS = st.text() | st.lists(MARKUP | st.text(max_size=5)).map("".join)


@given(TEXTS, st.sampled_from(["inline", "footnote", "endnote"]))
def test_sentences_are_parts_of_the_text_in_order(text: str, style: Style):
    at = 0
    for sentence in sentences(text, style):
        assert at <= sentence.start < sentence.end <= len(text)
        assert sentence.text == text[sentence.start : sentence.end]
        assert sentence.text.strip() == sentence.text
        at = sentence.end


@pytest.mark.parametrize(
    "text",
    ["- " * 60_000, "`" * 100_001, "```a\n\n" * 20_000, "[1 " * 30_000, ". " * 50_000, "| " * 50_000, "(" * 100_000],
)
def test_no_text_takes_long(text: str):
    assert sentences(text, "footnote") is not None
