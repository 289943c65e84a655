"""Replies of evaluators, and how the tests of this folder read them."""

from functools import partial

from hypothesis import strategies as st

from redraft.domain.evaluation.json_extraction import Unusable
from redraft.domain.evaluation.verdict_parsing import ReplyMap, Verdict, read_reply

CRITERIA = ReplyMap(
    score="score",
    reasoning="evaluation_reasoning",
    suggestions="improvement_suggestions",
    meets_criteria="meets_criteria",
    fields=frozenset({"score", "evaluation_reasoning", "improvement_suggestions", "meets_criteria"}),
)

parse_verdict = partial(read_reply, CRITERIA)

GOOD = '{"score": 0.88, "meets_criteria": true, "reasoning": "r", "suggestions": ["s"]}'
VERDICT = Verdict(0.88, meets_criteria=True, evaluation_reasoning="r", improvement_suggestions=("s",), repaired=False)


def read(text: str, finish_reason: str | None = "stop") -> Verdict:
    verdict = parse_verdict(text, finish_reason=finish_reason)
    assert isinstance(verdict, Verdict), verdict
    return verdict


def outcome(text: str, finish_reason: str | None = "stop") -> float | str:
    verdict = parse_verdict(text, finish_reason=finish_reason)
    if isinstance(verdict, Unusable):
        assert verdict.message
        return verdict.kind
    assert verdict.score is not None
    return verdict.score


PARTS = st.sampled_from(
    [
        *("{", "}", "[", "]", '"', "'", ":", ",", "\\", "/", "\n", " ", "```", "```json\n", "~~~", "“", "//", "#"),
        *("<think>", "</think>", "<thinking>", "</analysis>", "[THINK]", "[/THINK]", "<|channel|>analysis", "<|end|>"),
        *('"score"', "score", "'score'", "0.5", "8", "NaN", "1e999", "true", "null", '"reasoning"', "\\u0000", "\x0c"),
        *(GOOD, GOOD[:40], '{"score": ', "{'score': 0.3, ", '"suggestions": ["a"]', "\ud83d"),
    ]
)
ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.lists(PARTS, max_size=25).map("".join)
STOPS = st.sampled_from([None, "stop", "length", "max_tokens", "refusal"])
