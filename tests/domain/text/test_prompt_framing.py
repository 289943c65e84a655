"""Untrusted texts in the frames of a prompt: no text ends its frame or its turn."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.text.prompt_framing import escape_control_tokens, frame
from tests.support.waiting import cpu_bound

ANY_TEXT = st.text(st.characters(exclude_categories=()))
NONCE = "k3Jd92Qx7b"


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


def test_a_nonce_in_other_letters_is_escaped_too():
    assert frame(NONCE.swapcase(), "answer", NONCE).splitlines()[1] == "[…]"


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
    shown = escape_control_tokens(f"a{token}b")
    assert token not in shown
    assert shown.startswith(("a&lt;", "a&#91;", "a&#93;"))
    assert escape_control_tokens(shown) == shown


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
    assert escape_control_tokens(text) == text
