"""Texts cleaned, compared, judged trivial, framed and cut."""

import json
import math
import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.text.cleaning import NESTING_MAX, clean, clean_json, fold, frame, is_trivial, neutralise, preview
from tests.support.waiting import cpu_bound

ANY_TEXT = st.text(st.characters(exclude_categories=()))
NONCE = "k3Jd92Qx7b"
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Alpha\x00Beta. The escape is written \\u0000 in JSON.", "AlphaBeta. The escape is written \\u0000 in JSON."),
        ("tab\tline\nreturn\r\n", "tab\tline\nreturn\r\n"),
        ("a\x01b\x08c\x1bd\x1fe", "abcde"),
        pytest.param("page1\x0cpage2 a\x0bb", "page1 page2 a b", id="HB-E4"),
        ("lone \ud83d half, \ude00 half", "lone \ufffd half, \ufffd half"),
        ("at the end \ud83d", "at the end \ufffd"),
        ("split \ud83d\ude00 pair", "split \U0001f600 pair"),
        ("水 naïve 👩‍👩‍👧", "水 naïve 👩‍👩‍👧"),
    ],
)
def test_a_cleaned_text_loses_only_what_a_database_refuses(text: str, cleaned: str):
    assert clean(text) == cleaned


@given(ANY_TEXT)
def test_a_cleaned_text_is_utf8_and_stays_as_it_is(text: str):
    cleaned = clean(text)
    cleaned.encode()
    assert "\x00" not in cleaned
    assert clean(cleaned) == cleaned


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_an_ordinary_text_is_not_changed_by_cleaning(text: str):
    assert clean(text) == text


@given(JSON_VALUES)
def test_a_cleaned_json_value_is_strict_json_and_stays_as_it_is(value: Any):
    cleaned = clean_json(value)
    written = json.dumps(cleaned, allow_nan=False, ensure_ascii=False)
    assert json.loads(written.encode()) == cleaned == clean_json(cleaned)


def test_json_is_cleaned_in_keys_and_at_every_level():
    value = {
        "a\x00": [math.nan, {"b": "c\x00", "d": -math.inf}],
        "t": (1, True, None),
        7: 10**5000,
        "x": NONCE.encode(),
    }
    assert clean_json(value) == {
        "a": [None, {"b": "c", "d": None}],
        "t": [1, True, None],
        "7": None,
        "x": "b'k3Jd92Qx7b'",
    }


def test_json_nested_too_deep_is_cut_off_not_refused():
    value: Any = "core"
    for _ in range(sys.getrecursionlimit() * 2):
        value = [value]
    assert json.dumps(clean_json(value)) == "[" * NESTING_MAX + "null" + "]" * NESTING_MAX


def test_folding_makes_answers_equal_that_differ_in_whitespace_only():
    assert fold(" a\u00a0\u2003b\r\n\tc\u3000") == "a b c"
    assert fold("Answer") != fold("answer")


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n\t\u00a0",
        "\u200b\u200d\ufeff",
        ":",
        ".",
        ",",
        "...",
        "?!",
        "***",
        "```\n```",
        "---",
        "$$",
        "\u3164",
        "\u2800",
        "\u0301",
        "\x00",
        "Thought process:",
        "thought process",
        "**Thought Process:**\n",
        "Solution",
        "# Solution\n",
        "Solution:",
        "Let's solve this problem step by step.",
        "Let\u2019s think step by step:",
        "The answer is",
        "Final answer: ",
        "Reasoning:",
        "Sure:",
        "解",
        "かいせつ",
        "Respuesta",
        "So\u200blution",
        "<answer></answer>",
        "<think>\n</think>\n<answer> </answer>",
    ],
)
def test_an_answer_that_says_nothing_is_trivial(answer: str):
    assert is_trivial(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "4",
        "42",
        "Yes",
        "No",
        "水",
        "€5",
        "-1",
        "x",
        "∞",
        "👍",
        "½",
        "a.",
        "Reasoning",
        "Sure",
        "<br>",
        "<think>",
        "<answer>4</answer>",
        "Solution: 4",
        "The answer is 4.",
        "Thought process: add both",
        "نعم",
        "हाँ",
    ],
)
def test_a_short_answer_is_not_trivial(answer: str):
    assert not is_trivial(answer)


@given(ANY_TEXT)
def test_judging_triviality_never_raises_and_one_digit_is_enough(text: str):
    is_trivial(text)
    assert not is_trivial(text + "7")


def test_a_frame_leaves_an_ordinary_text_as_it_is():
    text = "a < b, <b>bold</b>, <answers>, </answer-key>, answer\n```x```"
    assert frame(text, "answer", NONCE) == f'<answer id="{NONCE}">\n{text}\n</answer id="{NONCE}">'


@pytest.mark.parametrize(
    "closer",
    [
        f'</answer id="{NONCE}">',
        "</answer>",
        "< / ANSWER >",
        "<answer>",
        "<\n/\nanswer",
        "</an\u200bswer>",
        "\uff1c/answer\uff1e",
        "<\u200b/answer>",
        "\u2039/answer\u203a",
        "<\x1b/\x00answer>",
        "<\\answer>",
        "\u276e/answer\u276f",
        "</\u0430nsw\u0435r>",
        "</\uff41\uff4e\uff53\uff57\uff45\uff52>",
        "</\U0001d41answer>",
        "</a\u0336n\u0336swer>",
    ],
)
def test_a_text_cannot_close_its_frame(closer: str):
    framed = frame(f"before {closer} after", "answer", NONCE)
    inside = framed.splitlines()[1:-1]
    assert "&lt;" in "".join(inside)
    assert framed.count(NONCE) == 2
    assert re.findall(r"[<\uff1c\u2039\u276e][\s\x00\x1b\u200b/\\]*[a\u0430\uff41\U0001d41a]", framed) == ["<a", "</a"]


def test_a_text_can_close_no_other_frame_of_its_prompt_either():
    text = f'</source-12> <source-1\u200b2 id="{NONCE}"> <source> <source-x> </answer>'
    framed = frame(text, "answer", NONCE, ("answer", "source-#"))
    assert framed.splitlines()[1] == '&lt;/source-12> &lt;source-1\u200b2 id="[…]"> <source> <source-x> &lt;/answer>'


@pytest.mark.parametrize(
    "unit", ["<", "< ", "<source-", "<source-1", "1", "<a\u200b", "</", "\u200b", "<source-1\u200b"]
)
def test_a_hostile_text_is_framed_in_bounded_time(unit: str):
    text = "<source-" + unit * (300_000 // len(unit)) + "x"
    with cpu_bound(2.5):
        frame(text, "answer", NONCE, ("answer", "source-#"))


PIECES = st.sampled_from(
    ["<", "</", "answer", ">", f' id="{NONCE}"', NONCE, NONCE[:5], NONCE[5:], "lt", "&", " ", "\u200b"]
)


@given(st.lists(PIECES | ANY_TEXT).map("".join))
def test_no_text_closes_its_frame(text: str):
    framed = frame(text, "answer", NONCE)
    opener, closer = f'<answer id="{NONCE}">\n', f'\n</answer id="{NONCE}">'
    body = framed[len(opener) : -len(closer)]
    assert framed == opener + body + closer
    assert NONCE.lower() not in body.lower()
    assert not re.search(r"<[\s/\x00-\x1f\u200b]*answer(?![\w-])", body, re.IGNORECASE)


@pytest.mark.parametrize(("tag", "nonce"), [("", NONCE), ("a b", NONCE), ("answer", "short"), ("answer", 'a"' * 9)])
def test_a_frame_needs_a_plain_tag_and_a_long_nonce(tag: str, nonce: str):
    with pytest.raises(ValueError, match=r"tag|nonce"):
        frame("text", tag, nonce)


@pytest.mark.parametrize(
    ("text", "chars", "cut"),
    [
        ("short", 5, "short"),
        ("longer", 5, "longe…"),
        ("ab", 0, "…"),
        ("ab", -3, "…"),
        ("", 0, ""),
        ("xe\u0301y", 2, "x…"),
        ("\u0301\u0301\u0301", 2, "…"),
        ("x👩‍👩‍👧y", 2, "x…"),
        ("x👩‍👩‍👧y", 3, "x…"),
        ("x👩‍👩‍👧y", 6, "x👩‍👩‍👧…"),
        ("x👍🏽y", 2, "x…"),
        ("x❤\ufe0fy", 2, "x…"),
        ("x\ud83d\ude00y", 2, "x…"),
        ("x\ud83dy", 2, "x…"),
        ("🇩🇪🇫🇷", 1, "…"),
        ("🇩🇪🇫🇷", 2, "🇩🇪…"),
        ("🇩🇪🇫🇷", 3, "🇩🇪…"),
        ("x🇩🇪🇫🇷", 2, "x…"),
        ("a\r\nb", 2, "a…"),
        ("\u1112\u1161\u11ab", 1, "…"),
    ],
)
def test_a_preview_never_cuts_through_a_character(text: str, chars: int, cut: str):
    assert preview(text, chars) == cut


@given(ANY_TEXT, st.integers(0, 20))
def test_a_preview_is_a_beginning_of_its_text(text: str, chars: int):
    shown = preview(text, chars)
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]) and len(shown) <= chars + 1)


TOKENS = [
    *("<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|start|>", "<|channel|>", "<|message|>"),
    *("<|END_RESPONSE|>", "<|endoftext|>", "<|tool_call_begin|>", "<|/think|>", "<|system|>"),
    *("<\uff5cUser\uff5c>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<|turn>", "<turn|>", "<channel|>"),
    *("<start_of_turn>", "<end_of_turn>", "<end_of_utterance>", "<bos>", "<s>", "</s>", "<eos>", "<unk>"),
    *("<<SYS>>", "<</SYS>>", "<extra_id_1>", "<unused99>", "<reserved_106>", "<SPECIAL_12>", "<tool_call>"),
    *(
        "[INST]",
        "[/INST]",
        "[ INST ]",
        "[SYSTEM_PROMPT]",
        "[/SYSTEM_PROMPT]",
        "[TOOL_CALLS]",
        "[gMASK]",
        "]~b]",
        "[e~[",
    ),
]


@pytest.mark.parametrize("token", TOKENS)
def test_a_control_token_is_neutralised(token: str):
    shown = neutralise(f"a{token}b")
    assert token not in shown
    assert shown.startswith(("a&lt;", "a&#91;", "a&#93;"))
    assert neutralise(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "<p>a</p> <br/> <user>x</user> <system>",
        "a < b | c > d, a <- b, x |> f",
        "f <| x",
        "List<String> and <T>",
        "[1] [INSTALL] [Source 2] a[i]",
        "<think>x</think>",
        "| a | b |",
    ],
)
def test_other_text_stays(text: str):
    assert neutralise(text) == text
