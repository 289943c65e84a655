"""A verdict is found in a reply as models write it, repaired, or refused; properties hold for any text."""

import json
import sys
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from redraft.domain.evaluation.json_extraction import REPAIR_CHARS_MAX, REPAIR_MARKS_MAX, Found, Unusable, find_object
from redraft.domain.evaluation.json_spans import OBJECTS_MAX
from redraft.domain.evaluation.verdict_parsing import Verdict
from tests.domain.evaluation.replies import ANY_TEXT, GOOD, PARTS, STOPS, VERDICT, outcome, parse_verdict, read
from tests.support.waiting import cpu_bound

A02_NOTE = """{"score": 0.7, "meets_criteria": false, "reasoning": "ok so far", "suggestions": []}

Note: the schema was {"type":"object"}."""
A02_TWICE = """{"score": 0.7, "meets_criteria": true, "reasoning": "r", "suggestions": []}
{"score": 0.7, "meets_criteria": true, "reasoning": "r", "suggestions": []}"""
A04_DECOY = """<think>A first draft would be {"score": 0.05, "reasoning": "no"} but the text does answer.</think>
```json
{"score": 0.88, "meets_criteria": true, "reasoning": "r", "suggestions": []}
```"""
A01_FENCE = """```json
{"score": 0.63, "meets_criteria": false, "reasoning": "Misses one step", "suggestions": ["Name the probe"]}
```"""
A16_QUOTES = (
    r'{"score": 0.9, "meets_criteria": true, "reasoning": "It shows ```json\n{\"score\": 0.1}\n``` and the tag '
    r'<think>x</think>.", "suggestions": []}'
)
CASES = {
    "A01": [(A01_FENCE, 0.63)],
    "A02": [
        (A02_NOTE, 0.7),
        (A02_TWICE, 0.7),
        ('{"score": 0.2, "reasoning": "a"}\n{"score": 0.9, "reasoning": "b"}', "ambiguous"),
    ],
    "A04": [(A04_DECOY, 0.88)],
    "A10": [
        ('{"score": 0.4, "meets_criteria": "false", "reasoning": "r", "suggestions": []}', 0.4),
        ('{"score": true, "meets_criteria": true, "reasoning": "r", "suggestions": []}', "invalid_score"),
        ('{"score": "True", "meets_criteria": "yes", "reasoning": "r", "suggestions": []}', "invalid_score"),
    ],
    "A11": [
        ("{}", "missing_score"),
        ('{"reasoning": "fine"}', "missing_score"),
        ("[]", "no_verdict"),
        ('"ok"', "no_verdict"),
        ("The answer is good.", "no_verdict"),
        ('{"Score": 0.7, "Reasoning": "x"}', 0.7),
        ('{"overall": {"score": 0.7}}', "missing_score"),
    ],
    "A12": [
        ("{'score': 0.8, 'meets_criteria': True, 'reasoning': \"it's fine\", 'suggestions': None}", 0.8),
        ('{"score": 0.8, "meets_criteria": true, "reasoning": "r", "suggestions": ["a",],}', 0.8),
        ('{"score": 0.8, "meets_criteria": true, "reasoning": "line one\nline two", "suggestions": []}', 0.8),
        ('{"score": 0.8, "meets_criteria": true, "reasoning": "use \\alpha here", "suggestions": []}', 0.8),
        ('{"score": 0.8, "meets_criteria": true, "reasoning": "write \\frac{1}{2}", "suggestions": []}', 0.8),
    ],
    "A13": [
        ('{"score": 0.9, "meets_criteria": true, "reasoning": "contains \\u0000 byte", "suggestions": []}', 0.9),
    ],
    "A16": [(A16_QUOTES, 0.9)],
    "C10": [
        ('{"score": 0.75, "meets_criteria": false, "reasoning": "r", "suggestions": []}', 0.75),
        ('{"score": 0, "meets_criteria": true, "reasoning": "r", "suggestions": []}', 0.0),
    ],
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [pytest.param(*pair, id=f"{case}-{at}") for case, pairs in CASES.items() for at, pair in enumerate(pairs, 1)],
)
def test_a_case_that_real_users_ran_into_has_its_right_outcome(text: str, expected: float | str):
    assert outcome(text) == expected


def test_a_fenced_verdict_keeps_its_suggestion():  # A01
    assert read(CASES["A01"][0][0]).improvement_suggestions == ("Name the probe",)


def test_thinking_text_does_not_reach_the_reasoning():  # A04
    assert read(CASES["A04"][0][0]).evaluation_reasoning == "r"


@pytest.mark.parametrize(
    "text",
    [
        "<think>Let me compare each of the criteria in",
        '{"score": 0.9, "meets_criteria": true, "reasoning": "The answer cov',
        '```json\n{"score": 0.9, "meets_criteria": true, "reasoning": "r"',
        '{"overall": {"score": 0.7}, "reas',
        '{"score": 0.2, "reasoning": "a"}\n{"score": 0.9, "rea',
        f"{GOOD}<think>But then",
        "{'score': 0.9, 'reasoning': 'r'} The",
        "The answer",
        "",
    ],
)
def test_a_reply_that_may_be_cut_is_truncated_and_never_repaired(text: str):  # A06
    reasons = ["length", "max_tokens", "MAX_TOKENS", "MODEL_LENGTH", "abort", "error", "xyz", "", None]
    assert {reason: outcome(text, reason) for reason in reasons} == dict.fromkeys(reasons, "truncated")


@pytest.mark.parametrize("text", [GOOD, f"```json\n{GOOD}\n```", f"{GOOD}\n\nThe answer cov"])
def test_a_verdict_that_was_complete_before_the_limit_counts(text: str):
    assert parse_verdict(text, finish_reason="length") == VERDICT


def test_almost_valid_json_is_repaired_and_the_repair_is_recorded():  # A12
    python, comma, newline, escape, latex = (read(text) for text, _ in CASES["A12"])
    assert python.evaluation_reasoning == "it's fine"
    assert python.improvement_suggestions == ()
    assert comma.improvement_suggestions == ("a",)
    assert newline.evaluation_reasoning == "line one\nline two"
    assert escape.evaluation_reasoning == r"use \alpha here"
    assert [verdict.repaired for verdict in (python, comma, newline, escape)] == [True] * 4
    assert latex.evaluation_reasoning == r"write \frac{1}{2}"
    assert not latex.repaired


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (r"\frac \beta \rho", r"\frac \beta \rho"),
        (r"a\r\nb\rc" + "\\r", "a\nb\\rc\n"),
        (r"nul \u0000, bell \u0007, half \ud83d", "nul , bell , half \ufffd"),
        (r"tab\tand\nline", "tab\tand\nline"),
    ],
)
def test_escapes_that_were_not_meant_leave_no_control_character(written: str, shown: str):
    assert read(f'{{"score": 0.5, "reasoning": "{written}"}}').evaluation_reasoning == shown


def test_a_valid_verdict_keeps_fence_and_tag_in_its_strings():  # A16
    text = CASES["A16"][0][0]
    assert read(text).evaluation_reasoning == json.loads(text)["reasoning"]
    assert read(f"Here it is:\n```json\n{text}\n```").evaluation_reasoning == json.loads(text)["reasoning"]


WRAPPINGS = [
    "```json\n{}\n```",
    "```\n{}\n```",
    "~~~json5\n{}",
    "```json {}```",
    "Here you are:\n\n{}\n\nI hope this helps {{}} you.",
    "[{}]",
    "\ufeff {}",
    "<answer>{}</answer>",
    "I used \\frac{{1}}{{2}} and {{a, b}}: {}",
    '<think>maybe {{"score": 0.1}}</think>{}',
    '<thinking id=1>a</think>b {{ "score": 1</thinking>\n{}',
    '<THINK>a<think>b</think>c {{"score": 0.1}}</THINK>{}',
    'the prompt opened it {{"score": 0.1}} so</think>{}',
    'the prompt opened it {{"score": 0.1 so</think>\n```json\n{}\n```',
    "[THINK]one {{[/THINK]{}",
    "◁think▷two◁/think▷{}",
    "<|begin_of_thought|>three<|end_of_thought|>{}",
    '<|channel|>analysis<|message|>{{"score": 0.1}}<|end|><|start|>assistant<|channel|>final<|message|>{}',
    "<reasoning>```</reasoning>{}",
    "{}<think>done",
]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_a_verdict_is_found_in_any_surrounding_text(wrapping: str):
    assert parse_verdict(wrapping.format(GOOD)) == VERDICT


def test_thinking_text_with_an_odd_quote_in_an_open_brace_is_still_dropped():
    assert parse_verdict(f'it said {{"a": "5" wide" so</think>{GOOD}') == VERDICT


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "no_verdict"),
        ("null", "no_verdict"),
        ("0.8", "no_verdict"),
        ("Score: 0.8", "no_verdict"),
        (json.dumps(GOOD), "no_verdict"),
        (f"<think>{GOOD}", "no_verdict"),
        (f"<|channel|>analysis<|message|>{GOOD}", "no_verdict"),
        (f"<think>{GOOD}</thinking>", "no_verdict"),
        ('Well, {"reasoning": "fine"}', "missing_score"),
        ('Well, {"overall": {"score": 0.7}}', "missing_score"),
        ('[{"score": 0.2}, {"score": 0.9}]', "ambiguous"),
        ('```json\n{"score": 0.2}\n{"score": 0.9}\n```', "ambiguous"),
        ('{"score": 0.2,}\n{"score": 0.9}', "ambiguous"),
        ('Draft {"score": 0.2}.\n```json\n{"score": 0.9}\n```', "ambiguous"),
        ('```json\n{"score": 0.2}\n```\n{"score": 0.9}', "ambiguous"),
        ('{"score": 0.2, "score": 0.9}', "ambiguous"),
        ('{"score": 0.2, "Score": 0.9}', "ambiguous"),
        ('{"score": 0.2, "overall_score": 0.9}', "ambiguous"),
        ("{'score': 0.2, 'score': 0.9}", "ambiguous"),
        ('{"score": 0.2, "reasoning": "5" pipe"}\n{"score": 0.9, "reasoning": "b"}', "ambiguous"),
        ('{"score": 1 / 10, "reasoning": "r",}', "invalid_json"),
        ('{"score": 1 000, "reasoning": "r",}', "invalid_json"),
        ('{"score": 0.85 (strong)}', "invalid_json"),
        ("{'criteria': [{'id': 'a', 'score': 1 000, 'gap': 'g'}], 'score': 0.5}", "invalid_json"),
        ('{"score": 0', "invalid_json"),
        ('{"reasoning": "r", "score": 0.8', "invalid_json"),
        ('{"score": "0.8', "invalid_json"),
        ('{"reasoning": "r', "invalid_json"),
        pytest.param('{"' + "x" * REPAIR_CHARS_MAX, "invalid_json", id="long"),
        pytest.param("{'score': 0.5, 'a': [" + "'b'," * REPAIR_MARKS_MAX, "invalid_json", id="many marks"),
        pytest.param('{"a": ' * 300 + "'", "invalid_json", id="deep"),
        pytest.param('{"a": 1}' * (OBJECTS_MAX + 1), "ambiguous", id="many objects"),
    ],
)
def test_a_reply_without_one_clear_verdict_says_why(text: str, kind: str):
    assert outcome(text) == kind


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('{"score": 0.7, "score": 0.7}', 0.7),
        ('{"score": 0.7, "Score": "7/10"}', 0.7),
        ('{"reasoning": "a", "reasoning": "b", "score": 0.7}', 0.7),
        ('{"score": 0.7,\n"reasoning": "a"}{"score":0.7,"reasoning":"a"}', 0.7),
        ('{"score": 8/10, "reasoning": "r"}', 0.8),
        ('{"score": 0.8, "reasoning": "The answer cov', 0.8),
        ('{"score": 0.8, "reasoning": "a 5" pipe", "suggestions": []}', 0.8),
        ("{score: 0.8, reasoning: fine, details: {parts: [1, 2]}}", 0.8),
        ("{“score”: 0.8, “reasoning”: “fine”}", 0.8),
    ],
)
def test_equal_duplicates_are_one_and_a_nearly_valid_verdict_counts(text: str, score: float):
    assert outcome(text) == score


@pytest.mark.parametrize("nesting", range(50, sys.getrecursionlimit() + 100, 50))
def test_a_reply_nested_too_deep_is_refused_and_raises_nothing(nesting: int):
    deep = "[" * nesting + "]" * nesting
    assert outcome(f'{{"score": 0.5, "reasoning": {deep}}}') in {0.5, "invalid_json"}
    assert outcome("{'score': 0.5, 'reasoning': " + deep) in {0.5, "invalid_json"}
    assert outcome(f'{{"score": 0.5, "a": {deep}, "a": {deep}}}') in {0.5, "invalid_json"}


def test_another_profile_can_find_its_own_object():
    found = find_object('Draft {"score": 1}, then {"quality_score": 0.5}', None, lambda value: "quality_score" in value)
    assert isinstance(found, Found)
    assert (found.value, found.repaired, found.value.repeated) == ({"quality_score": 0.5}, False, frozenset())


# Any text without the control characters that are removed; it may contain fences, tags and braces.
SAFE_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"])) | st.lists(
    PARTS.filter(lambda part: part not in {"\x0c", "\ud83d"}), max_size=12
).map("".join)
VALID = st.fixed_dictionaries(
    {
        "evaluation_reasoning": SAFE_TEXT,
        "score": st.floats(0, 1),
        "meets_criteria": st.none() | st.booleans(),
        "improvement_suggestions": st.lists(SAFE_TEXT.map(lambda text: f"Say {text}"), max_size=3),
    }
)


@settings(deadline=None, max_examples=400)
@given(ANY_TEXT, STOPS)
def test_no_text_raises_and_no_score_is_out_of_bounds(text: str, finish_reason: str | None):
    verdict = parse_verdict(text, finish_reason=finish_reason)
    if isinstance(verdict, Unusable):
        shown = verdict.message
    else:
        assert verdict.score is not None
        assert 0 <= verdict.score <= 1
        shown = "\n".join((verdict.evaluation_reasoning, *verdict.improvement_suggestions))
    shown.encode()
    assert not any(char < " " and char not in "\t\n" for char in shown)


@settings(deadline=None)
@given(VALID, st.sampled_from(["{}", *WRAPPINGS]), st.sampled_from([None, 1]), st.sampled_from([None, "stop"]))
def test_a_valid_verdict_comes_through_untouched(
    members: dict[str, Any], wrapping: str, indent: int | None, stop: str | None
):
    assume(stop or not wrapping.endswith("<think>done"))  # Without a finish reason, this reply may have been cut
    text = wrapping.format(json.dumps(members, ensure_ascii=indent is None, indent=indent))
    assert parse_verdict(text, finish_reason=stop) == Verdict(
        score=members["score"],
        meets_criteria=members["meets_criteria"],
        evaluation_reasoning=members["evaluation_reasoning"],
        improvement_suggestions=tuple(members["improvement_suggestions"]),
        repaired=False,
    )


@given(VALID, VALID, SAFE_TEXT)
def test_two_different_verdicts_are_never_one_of_them(first: dict[str, Any], second: dict[str, Any], between: str):
    second["score"] = 1 - first["score"]
    texts = [json.dumps(members) for members in (first, second)]
    if first["score"] != second["score"]:
        assert outcome("\n".join(texts)) == "ambiguous"


HOSTILE = [
    *("{", "}", "<think>", "</think>", "<think></think>", '{"', '{"a":', "{}", '{"a"}', "{'a'} ", "{a:", "```", '\\"'),
    *('{"\\"', '"', "[", '{"score":1}', '{"score":0.5,}', "<|channel|>analysis", "◁think▷", "<", "`", '{"a" </think>'),
    *("{" + " " * 999, '"a",' + " " * 9999, "{a ", "<think " + "x" * 90),
]


# Quadratic work on these texts would take minutes. Even under coverage, the parser stays far below this bound.
_BOUND_S = 1


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("start", ["", '{"score": 0.5, "a": '])
def test_a_long_hostile_text_is_read_in_bounded_time(unit: str, start: str):
    text = start + unit * (100_000 // len(unit))
    with cpu_bound(_BOUND_S):
        parse_verdict(text)


@pytest.mark.parametrize("unit", ['{"', "['", '{"a" ', '{"a":["', "a" * 50 + '"', '{"' + "x" * 60, "a:" + " " * 50])
@pytest.mark.parametrize("start", ["{'score': 0.5, ", '{"a":[', '{"a": "'])
def test_the_text_to_repair_stays_small(unit: str, start: str):
    text = start + unit * (min(REPAIR_MARKS_MAX // 2 // max(1, unit.count('"')), REPAIR_CHARS_MAX // len(unit)) - 9)
    with cpu_bound(_BOUND_S):
        parse_verdict(text)
