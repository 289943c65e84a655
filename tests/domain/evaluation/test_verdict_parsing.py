"""Evaluator replies as models write them (cases A…), and properties that hold for any text."""

import json
import sys
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from redraft.domain.evaluation.json_extraction import (
    REPAIR_CHARS_MAX,
    REPAIR_MARKS_MAX,
    Found,
    Unusable,
    find_object,
)
from redraft.domain.evaluation.json_spans import OBJECTS_MAX
from redraft.domain.evaluation.rubrics import Criterion
from redraft.domain.evaluation.verdict_parsing import ReplyMap, Verdict, read_reply
from tests.domain.evaluation.reply_maps import CRITERIA
from tests.support.waiting import cpu_bound

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


def reply(**members: Any) -> str:
    return json.dumps({"score": 0.5, **members})


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


SCORES = [
    *(('"8/10"', 0.8), ('"0.85/1.0"', 0.85), ('"85%"', 0.85), ('"0.85"', 0.85), ('".85"', 0.85)),  # A07
    *(("8.5e-1", 0.85), ('" 4.2 / 10 "', 0.42), ('"0.85 (strong)"', None), ('"8/0"', None)),
    *(("8", None), ("85", None), ("98989", None), ("9.2e124", None), ("-0.2", None), ("1.5", None)),  # A08
    *(("1", 1.0), ("0", 0.0), ("1.0", 1.0), ("-0.0", 0.0), ("9" * 400, None)),
    *(("NaN", None), ("Infinity", None), ("-Infinity", None), ("1e999", None), ("null", None)),  # A09
    *(('"NaN"', None), ('"N/A"', None)),
]


@pytest.mark.parametrize(("value", "score"), SCORES)
def test_a_score_in_a_reply_is_read_or_refused_never_guessed(value: str, score: float | None):
    text = f'{{"score": {value}, "meets_criteria": true, "reasoning": "r", "suggestions": []}}'
    assert outcome(text) == ("invalid_score" if score is None else score)


def test_an_invalid_score_says_what_was_seen():
    assert parse_verdict(reply(score=85)) == Unusable("invalid_score", "The score 85 is not between 0 and 1.")


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


@pytest.mark.parametrize(
    ("value", "flag"),
    [
        *((True, True), ("true", True), (" Yes ", True), (1, True)),
        *((False, False), ("false", False), ("False", False), ("no", False), (0, False)),
        *((None, None), ("partly", None), ("", None), ([], None), ({}, None), (0.5, None)),
    ],
)
def test_meets_criteria_is_true_or_false_only_if_the_reply_is_clear(value: object, flag: object):
    assert read(reply(meets_criteria=value)).meets_criteria is flag


@pytest.mark.parametrize("key", ["meets_criteria", "meetsCriteria", "Meets Criteria", "passed", "pass"])
def test_drifting_keys_of_the_flag_are_understood(key: str):
    assert read(reply(**{key: False})).meets_criteria is False


@pytest.mark.parametrize(
    "key",
    ["evaluation_reasoning", "EvaluationReasoning", "reasoning", "Reason", "explanation", "rationale", "feedback"],
)
def test_drifting_keys_of_the_reasoning_are_understood(key: str):
    assert read(reply(**{key: "why"})).evaluation_reasoning == "why"


@pytest.mark.parametrize(
    "key",
    ["improvement_suggestions", "Improvement-Suggestions", "suggestions", "improvements", "recommendations"],
)
def test_drifting_keys_of_the_suggestions_are_understood(key: str):
    assert read(reply(**{key: ["what"]})).improvement_suggestions == ("what",)


def test_the_contracts_own_key_goes_before_its_aliases():
    assert read(reply(analysis="a", evaluation_reasoning="b")).evaluation_reasoning == "b"
    assert read(reply(analysis="", reasoning="c")).evaluation_reasoning == "c"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (["one", "two"], "one\ntwo"),
        ({"style": "good", "facts": ["a", None]}, "style: good\nfacts: a\n"),
        (7, "7"),
        (True, "true"),
    ],
)
def test_reasoning_that_is_no_text_becomes_text(value: object, text: str):
    assert read(reply(reasoning=value)).evaluation_reasoning == text


@pytest.mark.parametrize(
    ("value", "suggestions"),
    [
        (None, ()),
        ([], ()),
        ("", ()),
        ("None.", ()),
        (False, ()),
        ("Name the probe.", ("Name the probe.",)),
        ("- a\n\n- b", ("a", "b")),
        ("1. a\n2) b", ("a", "b")),
        ("First a\n- b", ("First a\n- b",)),
        ("- only one", ("- only one",)),
        (["a", None, " ", 3, ["b", "c"], {"fix": "d"}], ("a", "3", "b\nc", "fix: d")),
        ({"fix": "d"}, ("fix: d",)),
    ],
)
def test_suggestions_in_any_shape_become_texts(value: object, suggestions: tuple[str, ...]):
    assert read(reply(suggestions=value)).improvement_suggestions == suggestions


def test_another_profile_can_find_its_own_object():
    found = find_object('Draft {"score": 1}, then {"quality_score": 0.5}', None, lambda value: "quality_score" in value)
    assert isinstance(found, Found)
    assert (found.value, found.repaired, found.value.repeated) == ({"quality_score": 0.5}, False, frozenset())


QUALITY = ReplyMap(
    score="quality_score",
    confidence="confidence_score",
    issues="issues",
    improvement_hint="improvement_hint",
    fields=frozenset({"quality_score", "confidence_score", "issues", "improvement_hint"}),
)
COMPLETE = ReplyMap(pass_flag="comprehensive", reasoning="reason", fields=frozenset({"comprehensive", "reason"}))
SIDES = ReplyMap(
    dimensions=(
        Criterion(id="sense", text="It makes sense.", kind="scale"),
        Criterion(id="proof", text="It is backed.", kind="scale"),
    ),
    suggestions="suggestions",
    meets_criteria="passed",
    fields=frozenset({"sense", "proof", "suggestions", "passed"}),
)


def read_by(fields: ReplyMap, **members: Any) -> Verdict:
    verdict = read_reply(fields, json.dumps(members))
    assert isinstance(verdict, Verdict), verdict
    return verdict


def refused_by(fields: ReplyMap, text: str) -> str:
    verdict = read_reply(fields, text)
    assert isinstance(verdict, Unusable), verdict
    return verdict.kind


def test_the_quality_of_an_answer_comes_with_its_issues_as_suggestions():
    verdict = read_by(
        QUALITY, issues=["No date.", "None"], improvement_hint="Add dates.", confidence_score=0.9, quality_score="7/10"
    )
    assert (verdict.score, verdict.confidence) == (0.7, 0.9)
    assert verdict.issues == ("No date.",)
    assert verdict.improvement_hint == "Add dates."
    assert verdict.improvement_suggestions == ("No date.", "Add dates.")
    assert verdict.meets_criteria is None


@pytest.mark.parametrize("confidence", [None, "very", 7, True, [1]])
def test_an_invalid_confidence_is_ignored(confidence: object):
    verdict = read_by(QUALITY, confidence_score=confidence, quality_score=0.5, improvement_hint="n/a")
    assert (verdict.score, verdict.confidence, verdict.improvement_hint) == (0.5, None, "")
    assert verdict.improvement_suggestions == ()


def test_one_field_never_stands_in_for_another():
    fields = ReplyMap(score="rating", fields=frozenset({"rating", "total_score"}))
    assert read_by(fields, total_score=0.1, rating=0.6).score == 0.6
    assert refused_by(fields, '{"total_score": 0.1}') == "missing_score"
    assert read_by(ReplyMap(score="rating", fields=frozenset({"rating"})), score=0.3).score == 0.3


def test_yes_is_1_and_no_is_0_with_its_reason_as_the_suggestion():
    assert read_by(COMPLETE, reason="All is there.", comprehensive=True) == Verdict(
        1.0, None, "All is there.", (), repaired=False
    )
    assert read_by(COMPLETE, reason="The price is missing.", comprehensive="No") == Verdict(
        0.0, None, "The price is missing.", ("The price is missing.",), repaired=False
    )
    assert read_by(COMPLETE, reason=" ", comprehensive=False).improvement_suggestions == ()


@pytest.mark.parametrize("value", [None, 1, 0.7, "maybe", "", [], {}])
def test_a_flag_that_is_neither_yes_nor_no_is_no_verdict(value: object):
    assert refused_by(COMPLETE, json.dumps({"reason": "r", "comprehensive": value})) == "invalid_score"


def test_yes_and_no_at_once_are_no_verdict():
    assert refused_by(COMPLETE, '{"comprehensive": true, "comprehensive": false}') == "ambiguous"
    assert refused_by(COMPLETE, '{"comprehensive": true, "Comprehensive": false}') == "ambiguous"
    assert refused_by(COMPLETE, "{'comprehensive': true, 'comprehensive': false}") == "ambiguous"


def test_the_score_of_dimensions_is_their_mean_and_each_is_a_criterion():
    verdict = read_by(
        SIDES,
        sense={"reasoning": "Follows.", "score": 0.9, "gap": "none"},
        proof={"reasoning": "Bare.", "score": "40%", "gap": "Name a source."},
        suggestions=["Name a source."],
        passed=True,
    )
    assert verdict.score == pytest.approx(0.65)
    assert verdict.meets_criteria is True
    assert verdict.evaluation_reasoning == "sense: Follows.\nproof: Bare."
    assert verdict.improvement_suggestions == ("Name a source.",)
    sense, proof = verdict.criteria
    assert (sense.id, sense.score, sense.passed, sense.evidence, sense.gap) == ("sense", 0.9, True, "Follows.", "")
    assert (proof.text, proof.score, proof.passed, proof.gap) == ("It is backed.", 0.4, False, "Name a source.")


GOOD_SIDE = {"reasoning": "r", "score": 0.5}


@pytest.mark.parametrize(
    ("proof", "kind"),
    [
        (0.5, "invalid_score"),
        ([], "invalid_score"),
        ({}, "missing_score"),
        ({"score": None}, "missing_score"),
        ({"score": 8}, "invalid_score"),
        ({"score": True}, "invalid_score"),
    ],
)
def test_a_dimension_without_a_score_is_no_verdict(proof: object, kind: str):
    assert refused_by(SIDES, json.dumps({"sense": GOOD_SIDE, "proof": proof})) == kind


def test_all_dimensions_are_needed_each_once():
    assert refused_by(SIDES, json.dumps({"sense": GOOD_SIDE})) == "missing_score"
    twice = '{"sense": {"score": 0.5}, "proof": {"score": 0.1}, "proof": {"score": 0.9}}'
    assert refused_by(SIDES, twice) == "ambiguous"
    inner = '{"sense": {"score": 0.5}, "proof": {"score": 0.1, "score": 0.9}}'
    assert refused_by(SIDES, inner) == "ambiguous"
    assert refused_by(SIDES, inner.replace('"', "'")) == "ambiguous"
    assert read_reply(SIDES, "{'sense': {'score': 0.5}, 'proof': {'score': 0.1}}") == Verdict(
        0.3, None, "", (), repaired=True, criteria=read_by(SIDES, sense={"score": 0.5}, proof={"score": 0.1}).criteria
    )


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
# Any text but the controls that are cleaned: what fences, tags and braces are is up to the strings.
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
    assume(stop or not wrapping.endswith("<think>done"))  # Without a finish reason it may have been cut
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


# Quadratic work on these would take minutes; under coverage they stay far below.
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
