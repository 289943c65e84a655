"""Several verdicts combined to one: examples, and properties of all combinations."""

from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.evaluation.aggregation import (
    EvaluatorVerdict,
    by_checks,
    combine,
    groups_of,
    requirements_met,
    score_of,
)
from redraft.domain.evaluation.rubrics import Criterion, CriterionResult, result_of
from redraft.domain.evaluation.verdict_parsing import Verdict

FRACTIONS = st.floats(0, 1)


def scored(score: float, *, evaluator: int = 0, sample: int = 0, suggestions: tuple[str, ...] = ()) -> EvaluatorVerdict:
    return EvaluatorVerdict(
        evaluator, f"m{evaluator}", sample, Verdict(score, None, f"R{score}", suggestions, repaired=False)
    )


def silent(evaluator: int) -> EvaluatorVerdict:
    return EvaluatorVerdict(evaluator, f"m{evaluator}", 0, None, {"code": "provider_auth"})


def binary(name: str, **fields: float | bool) -> Criterion:
    return Criterion.model_validate({"id": name, "text": name, **fields})


def scale(name: str, **fields: float | bool) -> Criterion:
    return binary(name, kind="scale", **fields)  # type: ignore[arg-type]


def verdict_on(*results: CriterionResult, evaluator: int = 0, sample: int = 0) -> EvaluatorVerdict:
    return EvaluatorVerdict(
        evaluator, f"m{evaluator}", sample, Verdict(None, None, "", (), repaired=False, criteria=results)
    )


@given(st.lists(st.lists(FRACTIONS, min_size=1, max_size=4), min_size=1, max_size=5))
def test_a_panel_has_the_median_of_its_evaluators_and_an_evaluator_the_mean_of_its_samples(scores: list[list[float]]):
    opinions = [
        scored(score, evaluator=evaluator, sample=sample)
        for evaluator, samples in enumerate(scores)
        for sample, score in enumerate(samples)
    ]
    combined = combine(opinions)
    assert combined is not None
    assert combined.score == median(fmean(samples) for samples in scores)
    if len(opinions) == 1:
        assert (combined.disagreement, combined.by_evaluator) == (None, ())
        return
    assert [entry["score"] for entry in combined.by_evaluator] == [score for samples in scores for score in samples]
    spread = [fmean(samples) for samples in scores] if len(scores) > 1 else scores[0]
    assert combined.disagreement == max(spread) - min(spread)


def test_evaluators_without_a_verdict_count_for_nothing_and_are_entered():
    combined = combine([scored(0.2), silent(1), scored(0.6, evaluator=2)])
    assert combined is not None
    assert combined.score == 0.4
    assert [(entry["model"], entry["status"], entry["error"]) for entry in combined.by_evaluator] == [
        ("m0", "ok", None),
        ("m1", "error", {"code": "provider_auth"}),
        ("m2", "ok", None),
    ]
    assert combine([silent(0), silent(1)]) is None
    assert combine([]) is None


def test_the_reasoning_is_that_of_the_closest_evaluator_and_suggestions_appear_once():
    combined = combine(
        [
            scored(0.1, suggestions=("a",)),
            scored(0.5, evaluator=1, suggestions=("b", "a")),
            scored(0.9, evaluator=2, suggestions=("b",)),
        ]
    )
    assert combined is not None
    assert (combined.reasoning, combined.suggestions) == ("R0.5", ("a", "b"))


@pytest.mark.parametrize(
    ("criterion", "value", "passed"),
    [
        (binary("x"), 1.0, True),
        (binary("x"), 0.0, False),
        (binary("x"), 0.5, False),
        (binary("x"), 2 / 3, True),
        (binary("x", weight=-1), 1.0, False),
        (binary("x", weight=-1), 0.0, True),
        (binary("x", weight=-1), 0.5, False),
        (scale("x"), 0.8, True),
        (scale("x"), 0.6, False),
        (scale("x", weight=-1), 0.2, True),
        (scale("x", weight=-1), 0.4, False),
    ],
)
def test_what_passes(criterion: Criterion, value: float, *, passed: bool):
    assert result_of(criterion, value).passed is passed


def test_the_evidence_of_a_criterion_is_that_of_an_evaluator_with_the_same_decision():
    rubric = [binary("a", required=True)]
    met, unmet = result_of(rubric[0], 1.0, evidence="yes"), result_of(rubric[0], 0.0, evidence="no", gap="do it")
    split = combine([verdict_on(met), verdict_on(unmet, evaluator=1), verdict_on(unmet, evaluator=2)], rubric)
    assert split is not None
    assert [(c.passed, c.evidence, c.gap) for c in split.criteria] == [(False, "no", "do it")]
    assert not split.is_qualified
    agreed = combine([verdict_on(met), verdict_on(met, evaluator=1), verdict_on(unmet, evaluator=2)], rubric)
    assert agreed is not None
    assert [(c.passed, c.evidence, c.gap) for c in agreed.criteria] == [(True, "yes", "")]
    assert agreed.is_qualified


def test_an_even_split_is_not_met():
    rubric = [binary("a")]
    combined = combine(
        [verdict_on(result_of(rubric[0], v), evaluator=number) for number, v in enumerate((1.0, 0.0))], rubric
    )
    assert combined is not None
    assert (combined.score, combined.criteria[0].passed) == (0.5, False)


def test_no_word_of_a_hidden_criterion_reaches_the_generator():
    rubric = [binary("open"), binary("secret", hidden=True)]
    results = [result_of(each, 0.0, evidence=f"E-{each.id}", gap=f"G-{each.id}") for each in rubric]
    combined = combine([verdict_on(*results)], rubric)
    assert combined is not None
    assert combined.suggestions == ("G-open",)
    assert "secret" not in combined.reasoning


def test_in_a_verdict_of_checks_alone_other_criteria_count_as_not_met():
    rubric = [binary("model", weight=3), Criterion.model_validate(CHECK)]
    combined = by_checks(rubric, [result_of(rubric[1], 1.0, evidence="2 words")])
    assert combined.score == 0.25
    assert [(c.id, c.score, c.passed) for c in combined.criteria] == [("model", None, None), ("short", 1.0, True)]
    assert combined.suggestions == ()


CHECK = {"id": "short", "kind": "check", "check": {"kind": "max_words", "value": 3}}
weights = st.floats(-10, 10).filter(lambda weight: weight != 0)


@given(st.lists(st.tuples(weights, FRACTIONS, st.booleans()), min_size=1, max_size=8))
def test_a_score_is_in_bounds_and_grows_with_the_values(lines: list[tuple[float, float, bool]]):
    rubric = [binary(f"c{n}", weight=weight, required=required) for n, (weight, _, required) in enumerate(lines)]
    rubric.append(binary("sure", weight=1))
    results = [result_of(criterion, value) for criterion, (_, value, _) in zip(rubric, lines, strict=False)]
    worst = score_of([*results, result_of(rubric[-1], 0.0)])
    best = score_of([*results, result_of(rubric[-1], 1.0)])
    assert 0 <= worst <= best <= 1
    perfect = [result_of(each, 1.0 if each.weight > 0 else 0.0) for each in rubric]
    assert score_of(perfect) == pytest.approx(1.0)
    assert requirements_met(perfect)


@pytest.mark.parametrize(
    ("count", "per_call", "sizes"),
    [(4, "auto", [4]), (5, "auto", [1] * 5), (5, "all", [5]), (2, "one", [1, 1]), (0, "auto", []), (0, "one", [])],
)
def test_how_criteria_are_put_together(count: int, per_call: str, sizes: list[int]):
    rubric = [*(binary(f"c{n}") for n in range(count)), Criterion.model_validate(CHECK)]
    assert [len(group) for group in groups_of(rubric, per_call)] == sizes  # type: ignore[arg-type]
    assert groups_of(None, per_call) == [()]  # type: ignore[arg-type]
