"""Answers without content."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.text.trivial_answers import is_trivial

ANY_TEXT = st.text(st.characters(exclude_categories=()))


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
def test_an_answer_without_content_is_trivial(answer: str):
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
def test_is_trivial_never_raises_and_one_digit_is_content(text: str):
    is_trivial(text)
    assert not is_trivial(text + "7")
