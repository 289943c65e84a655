"""Thinking text is no part of an answer, in any spelling, complete or streamed."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redraft.domain.evaluation.json_extraction import Unusable
from redraft.domain.evaluation.quoted_verdicts import UntrustedTexts
from redraft.domain.evaluation.verdict_parsing import ReplyMap, read_reply
from redraft.domain.text.answer_stream import AnswerStream
from redraft.domain.text.thinking import answer_in
from tests.domain.evaluation.replies import GOOD, VERDICT, parse_verdict
from tests.support.waiting import cpu_bound

# Texts around an answer `{}`: thinking that contains `SECRET`, and tokens that may follow.
FRAMES = {
    "think": "<think>\nSECRET < plan\n</think>\n\n \n{}",
    "thinking": " \n<thinking>SECRET</thinking>{}",
    "upper case": "<THINK>SECRET</THINK>{}",
    "reasoning": "<reasoning>SECRET</reasoning>\n{}",
    "thought": "<thought>SECRET</thought>\n{}",
    "analysis": "<analysis>SECRET</analysis>\n{}",
    "reflection": "<reflection>SECRET</reflection>{}",
    "scratchpad": "<scratchpad>SECRET</scratchpad>{}",
    "inner monologue": "<inner_monologue>SECRET</inner_monologue>{}",
    "thought process": "<thought_process>SECRET</thought_process>{}",
    "a tag with attributes": '<think effort="high">SECRET</think>{}',
    "a tag with bars": "<|think|>SECRET<|/think|>{}",
    "seed": "<seed:think>SECRET <seed:cot_budget_reflect>x</seed:cot_budget_reflect></seed:think>{}",
    "prefixed": "<longcat_think>SECRET</longcat_think>{}",
    "antml": "<thinking>SECRET</thinking>{}",
    "self-closing before it": "<think>SECRET<br/></think>{}",
    "hyphens": "<chain-of-thought>SECRET</chain-of-thought>{}",
    "start and end": "<|thinking_start|>SECRET<|thinking_end|>{}",
    "labels": "[Start thinking]\nSECRET\n[End thinking]\n\n{}",
    "Gemini": "<ctrl94>thought\nSECRET<ctrl95>{}",
    "details by their summary": "<details>\n<summary>Thought for 3 seconds</summary>\nSECRET</details>\n{}",
    "reasoning content": "<reasoning_content>SECRET</reasoning_content>{}",
    "brackets": "[THINK]SECRET[/THINK]{}",
    "diamonds": "◁think▷SECRET◁/think▷{}",
    "of thought": "<|begin_of_thought|>SECRET<|end_of_thought|><|begin_of_solution|>{}<|end_of_solution|>",
    "fullwidth bars": "<\uff5cbegin\u2581of\u2581thinking\uff5c>SECRET<\uff5cend\u2581of\u2581thinking\uff5c>{}",
    "Cohere": "<|START_THINKING|>SECRET<|END_THINKING|><|START_RESPONSE|>{}<|END_RESPONSE|>",
    "Cohere's text": "<|START_THINKING|>SECRET<|END_THINKING|><|START_TEXT|>{}<|END_TEXT|>",
    "Cohere, never closed": "<|START_THINKING|>SECRET<|START_RESPONSE|>{}<|END_RESPONSE|>",
    "Harmony": "<|channel|>analysis<|message|>SECRET<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
    "Harmony from its start": (
        "<|start|>assistant<|channel|>analysis<|message|>SECRET<|end|>"
        "<|start|>assistant<|channel|>commentary<|message|>SECRET, too<|end|>"
        "<|start|>assistant<|channel|>final <|constrain|>json<|message|>{}"
    ),
    "Harmony without an end": "<|channel|>analysis<|message|>SECRET<|channel|>final<|message|>{}",
    "Harmony opened in the prompt": "SECRET<|end|><|start|>assistant<|channel|>final<|message|>{}",
    "Harmony without its tokens": "analysisSECRET is needed.assistantfinal{}",
    "Gemma": "<|channel>thought\nSECRET<channel|>{}",
    "Apertus": "<|inner_prefix|>SECRET<|inner_suffix|>{}",
    "details": '<details type="reasoning" done="true">\n<summary>Thought</summary>\n> SECRET\n</details>\n{}',
    "details without quotes": "<details class=x type=reasoning>SECRET</details>{}",
    "spoken": "Thinking...\nSECRET\n...done thinking.\n\n{}",
    "spoken with an ellipsis": "Thinking\u2026\nSECRET\n\u2026done thinking.\n{}",
    "Granite": "Here is my thought process:\n\nSECRET\n\nHere is my response:\n\n{}",
    "headings": "## Thinking\n\nSECRET\n\n## Final answer\n\n{}",
    "bold headings": "**Thought process:**\nSECRET\n\n**Answer:**\n{}",
    "closed only": "SECRET\n</think>\n\n{}",
    "closed only, within a line": "SECRET.</think>{}",
    "brackets closed only": "SECRET.\n[/THINK]\n{}",
    "Cohere closed only": "SECRET<|END_THINKING|><|START_RESPONSE|>{}<|END_RESPONSE|>",
    "spoken closed only": "SECRET\n...done thinking.\n\n{}",
    "twice": "<think>SECRET</think>\n<think>SECRET</think>{}",
    "nested": "<think>SECRET<think>b</think>SECRET</think>\n{}",
    "two spellings": "<think>SECRET</think><reasoning>SECRET</reasoning>{}",
    "a wrapped answer": "<think>SECRET</think>\n<answer>\n{}\n</answer>",
    "a turn's end": "<think>SECRET</think>{}<|im_end|>\n<|endoftext|>",
    "the end of a sentence": "<think>SECRET</think>{}<\uff5cend\u2581of\u2581sentence\uff5c>",
    "the end of a sequence": "<think>SECRET</think>{}</s>",
    "a turn's beginning": "<|im_start|>assistant\n<think>SECRET</think>\n{}<|im_end|>",
    "a turn's header": "<|start_header_id|>assistant<|end_header_id|>\n\n<think>SECRET</think>{}<|eot_id|>",
    "a role": "<|assistant|><think>SECRET</think>{}",
    "a byte order mark": "\ufeff<think>SECRET</think>\u200b{}",
    "blanks in tags": "< think >SECRET</ think >{}",
    "closed with another word": "<think>SECRET</thinking>{}",
    "an escaped slash": "<thinking>SECRET<\\/thinking>{}",
    "Chinese": "<\u601d\u8003>SECRET</\u601d\u8003>{}",
    "MedGemma": "<unused94>thought\nSECRET<unused95>{}",
    "of thought without bars": "<start_of_thought>SECRET<end_of_thought>{}",
    "Solar": "<|begin|>assistant<|think|>SECRET<|end|><|begin|>assistant<|content|>{}<|end|>",
    "Apriel opened in the prompt": "SECRET\n[BEGIN FINAL RESPONSE]\n{}\n[END FINAL RESPONSE]\n<|end|>",
    "a solution": "<reasoning>SECRET</reasoning><solution>{}</solution>",
    "a mixed pair": "<|think|>SECRET<|end_think|>{}",
    "a closer with attributes": '<think id="1">SECRET</think id="1">{}',
    "DeepSeek's role": "<\uff5cAssistant\uff5c><think>\nSECRET\n</think>\n\n{}",
    "Llama's role": "[/INST] <think>SECRET</think>{}</s>",
    "EXAONE": "<thought>\nSECRET\n</thought>\n\n{}[|endofturn|]",
    "Harmony around a tag": "<|start|>assistant<|channel|>final<|message|><think>SECRET</think>{}<|end|>",
    "Harmony without a channel": "<|start|>assistant<|message|><think>SECRET</think>{}<|end|>",
    "a box": "<think>SECRET</think>\n<|begin_of_box|>{}<|end_of_box|>",
}


def streamed(text: str, size: int) -> list[str]:
    """Return the text of the pieces after the last withdrawal."""
    heard: list[str] = []
    stream = AnswerStream(heard.append)
    for at in range(0, len(text), size):
        stream(text[at : at + size])
    stream.finish(text)
    last = max((at for at, piece in enumerate(heard) if not piece), default=-1)
    return heard[last + 1 :]


def test_the_answer_is_what_follows_the_thinking():
    for name, frame in FRAMES.items():
        assert answer_in(frame.format("Paris is <b>it</b>.")) == "Paris is <b>it</b>.", name


@pytest.mark.parametrize("size", [1, 3, 20])
def test_a_streamed_answer_is_what_follows_the_thinking(size: int):
    for name, frame in FRAMES.items():
        pieces = streamed(frame.format("Paris is it, and France is big."), size)
        assert "".join(pieces) == "Paris is it, and France is big.", name
        assert len(pieces) > 1 or size == 20, name


def test_thinking_with_an_opening_tag_is_never_published():
    for name, frame in FRAMES.items():
        if "only" in name or "opened" in name or name == "nested":
            continue
        heard: list[str] = []
        stream = AnswerStream(heard.append)
        for char in frame.format("Paris."):
            stream(char)
        assert "SECRET" not in "".join(heard), name


def test_a_draft_in_an_evaluators_thinking_is_no_verdict():
    draft = 'SECRET {"score": 0.1, "reasoning": "a draft"} or so'
    for name, frame in FRAMES.items():
        assert parse_verdict(frame.replace("SECRET", draft, 1).replace("{}", GOOD)) == VERDICT, name


def test_the_reason_for_no_verdict_contains_no_thinking_text():
    for name, frame in FRAMES.items():
        for rest in ("Fine.", '{"reasoning": "fine"}', '{"score": '):
            unusable = parse_verdict(frame.replace("{}", rest))
            assert isinstance(unusable, Unusable), name
            assert "SECRET" not in unusable.message, name


@pytest.mark.parametrize(
    "text",
    [
        "Paris <think>.",
        "<thin ice",
        " <p>Paris</p>\n",
        "Write <think>x</think> around it.",
        "Use </think> to close it.",
        "Use `</think>` to close it.",
        'The tag "</think>" closes it.',
        "```\n<a>\n</think>\n```\nThat closes it.",
        "analysis of the market: it grows.",
        "## Thinking\nIt takes time.",
        "Thinking about it, yes.",
        "[1] Paris",
        "<details><summary>More</summary>Paris</details>",
        "<answer>Paris</answer>",
        "# Answer\nParis",
        "Paris is it.\n</p>",
        "<think/>Paris",
        "The capital is <s>Lyon</s>",
        "A:\n~~~xml\n<think>\nx\n</think>\n~~~\nB.",
        "A:\n\n    <think>\n    x\n    </think>\n\nB.",
        "> <think>\n> x\n> </think>\nB.",
        "A.\n<think>x</think> is the tag.",
        "<config>\n  <thinking>off</thinking>\n</config>",
        "<report>\n<analysis>\nIt grows.\n</analysis>\n</report>",
        "```\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n```",
        "<thinking_mode>auto</thinking_mode>Paris",
        "[Start of the list] Paris",
        "<details><summary>Reasons</summary>Paris</details>",
        "<details>\n<summary>Reasoning behind the design</summary>\nX.\n</details>\nRest.",
        "<details><summary>Thoughts on pricing</summary>Cheap.</details>\nRest.",
        "Thinking\u2026\n\nI sat beside the river.",
        "Thinking...\nI sat beside the river.",
        "I am\n...done thinking about it.",
        "[thinking]\nHAMLET: To be or not to be.",
        'Use `text.split("\\n</think>\\n")[-1]` for it.',
        "Use `the tail after </think> tag` for it.",
        "Use:\n\n    text\n    </think>\n\nThat is all.",
        "Use:\n\n~~~\nthought\n</think>\nanswer\n~~~\n\nThat is all.",
        "Closers:\n- </think>\n- [/THINK]\n\nEnd.",
        "A reply reads <|channel|>final<|message|>Hello<|return|> in full.",
        "",
    ],
)
def test_an_answer_without_thinking_stays_as_it_is(text: str):
    assert answer_in(text) == text
    for size in (1, 4, 100):
        assert "".join(streamed(text, size)) == text


@pytest.mark.parametrize("size", [1, 3, 50])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("A.\n\n<think>\nSECRET\n</think>\n\nB.", "A.\n\nB."),
        ("<think>SECRET</think>A.\n<THINK>SECRET</THINK>\nB.\n[THINK]SECRET[/THINK]", "A.\nB.\n"),
        ('A.\n<details type="reasoning">\nSECRET\n</details>\nB.', "A.\nB."),
        ("```\nA\n```\n<think>SECRET</think>\nB.", "```\nA\n```\nB."),
        ("A.<|end|><|start|>assistant<|channel|>analysis<|message|>SECRET", "A."),
        ("<think>SECRET</think><answer>A.</answer>\n\nB.", "A.\n\nB."),
        ("<think>SECRET</think>A.<|im_end|>\n<|im_start|>user\nSECRET", "A."),
        ("A.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nSECRET", "A."),
    ],
)
def test_thinking_and_turns_behind_the_beginning_are_no_answer(text: str, answer: str, size: int):
    assert answer_in(text) == answer
    assert "".join(streamed(text, size)) == answer


@pytest.mark.parametrize("size", [1, 7])
def test_thinking_in_the_middle_is_never_published(size: int):
    heard: list[str] = []
    text = "Paris is it.\n\n<think>\nSECRET\n</think>\n\nIt is big."
    stream = AnswerStream(heard.append)
    for at in range(0, len(text), size):
        stream(text[at : at + size])
    stream.finish(text)
    assert "".join(heard) == "Paris is it.\n\nIt is big."


def test_a_fence_that_the_thinking_left_open_hides_no_closer():
    assert answer_in("I could use ``` here.\n</think>\n\nParis") == "Paris"
    assert answer_in("I could use ``` here.\n</think>\n\n```\nParis\n```") == "```\nParis\n```"


@pytest.mark.parametrize(
    "unit", ["</think>", "# thinking\n", "<|channel|>final<|message|>", "\\", "`", '{"score":', "<|"]
)
def test_reading_takes_no_more_than_the_time_of_a_texts_length(unit: str):
    def seconds(chars: int) -> float:
        text = unit * (chars // len(unit))
        start = time.process_time()
        "".join(streamed(text, 50))
        read_reply(ReplyMap(score="score"), text + GOOD, untrusted=UntrustedTexts([text]))
        return time.process_time() - start

    assert seconds(20_000) < 12 * seconds(5_000) + 0.5


@pytest.mark.parametrize("text", ["<think>all of it", "<think>all of it</think>", "all of it\n</think>\n", "<think>"])
def test_thinking_alone_is_no_answer(text: str):
    assert answer_in(text) == ""
    assert "".join(streamed(text, 3)) == ""


PARTS = st.sampled_from(
    [
        *("<think>", "</think>", "<th", "ink>", " ", "\n", "a", "B.", "`", "```", "<", ">", "|"),
        *("analysis", "assistantfinal", "<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<|end|>"),
        *("Thinking...\n", "...done thinking.", "##", " Thinking\n", "## Answer\n", "[THINK]", "[/THINK]"),
        *("<answer>", "</answer>", "<|START_RESPONSE|>", "<|return|>", "水"),
    ]
)


@settings(deadline=None)
@given(st.lists(PARTS, max_size=12).map("".join), st.integers(1, 9))
def test_the_pieces_add_up_to_the_answer(text: str, size: int):
    assert "".join(streamed(text, size)) == answer_in(text)


@pytest.mark.parametrize("unit", ["<think></think>", "a</think>", "`</think>", "<think>", "<|", "\n", "## Thinking\n"])
def test_a_long_text_is_read_in_bounded_time(unit: str):
    with cpu_bound(2.5):
        answer_in(unit * (100_000 // len(unit)))


def test_a_long_stream_is_read_in_bounded_time():
    with cpu_bound(2.5):
        streamed(f"<think>{'abc ' * 5_000}</think>{'abc ' * 5_000}", 4)


def test_a_verdict_in_a_tool_call_is_one():
    call = {"name": "submit_verdict", "arguments": json.loads(GOOD)}
    for written in (call, {**call, "arguments": GOOD}, {"type": "function", "function": call}, {"tool_calls": [call]}):
        for text in (
            json.dumps(written),
            f"<tool_call>\n{json.dumps(written)}\n</tool_call>",
            f"[TOOL_CALLS][{json.dumps(written)}]",
        ):
            assert parse_verdict(text) == VERDICT


@pytest.mark.parametrize("name", ["evaluation", "Verdict", "result", "final_evaluation", "output", "response", "data"])
def test_a_single_wrapped_verdict_counts(name: str):
    assert parse_verdict(json.dumps({name: json.loads(GOOD)})) == VERDICT
    assert parse_verdict(json.dumps({name: [json.loads(GOOD)]})) == VERDICT
    two = {name: json.loads(GOOD), "verdict2" if name == "Verdict" else "assessment": {"score": 0.1}}
    assert parse_verdict(json.dumps(two)) != VERDICT or name == "Verdict"
