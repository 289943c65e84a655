"""The members of an evaluator's reply: scores, flags, texts and dimensions, by the fields of each profile."""

import json
from typing import Any

import pytest

from redraft.domain.evaluation.json_extraction import Unusable
from redraft.domain.evaluation.rubrics import Criterion
from redraft.domain.evaluation.verdict_parsing import ReplyMap, Verdict, read_reply
from tests.domain.evaluation.replies import outcome, parse_verdict, read


def reply(**members: Any) -> str:
    return json.dumps({"score": 0.5, **members})


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
