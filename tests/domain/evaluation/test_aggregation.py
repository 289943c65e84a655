"""From several verdicts to one: hand-made cases, and what holds for all."""

from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.evaluation.aggregation import Opinion, by_checks, combine, groups_of
from redraft.domain.evaluation.rubrics import Criterion, CriterionResult, requirements_met, result_of, score_of
from redraft.domain.evaluation.verdicts import Verdict

FRACTIONS = st.floats(0, 1)


def scored(score: float, *, judge: int = 0, sample: int = 0, suggestions: tuple[str, ...] = ()) -> Opinion:
    return Opinion(judge, f"m{judge}", sample, Verdict(score, None, f"R{score}", suggestions, repaired=False))


def silent(judge: int) -> Opinion:
    return Opinion(judge, f"m{judge}", 0, None, {"code": "provider_auth"})


def binary(name: str, **fields: float | bool) -> Criterion:
    return Criterion.model_validate({"id": name, "text": name, **fields})


def scale(name: str, **fields: float | bool) -> Criterion:
    return binary(name, kind="scale", **fields)  # type: ignore[arg-type]


def verdict_on(*results: CriterionResult, judge: int = 0, sample: int = 0) -> Opinion:
    return Opinion(judge, f"m{judge}", sample, Verdict(None, None, "", (), repaired=False, criteria=results))


@given(st.lists(st.lists(FRACTIONS, min_size=1, max_size=4), min_size=1, max_size=5))
def test_a_panel_has_the_median_of_its_judges_and_a_judge_the_mean_of_its_samples(scores: list[list[float]]):
    opinions = [
        scored(score, judge=judge, sample=sample)
        for judge, samples in enumerate(scores)
        for sample, score in enumerate(samples)
    ]
    judged = combine(opinions)
    assert judged is not None
    assert judged.score == median(fmean(samples) for samples in scores)
    if len(opinions) == 1:
        assert (judged.disagreement, judged.judges) == (None, ())
        return
    assert [entry["score"] for entry in judged.judges] == [score for samples in scores for score in samples]
    spread = [fmean(samples) for samples in scores] if len(scores) > 1 else scores[0]
    assert judged.disagreement == max(spread) - min(spread)


def test_judges_without_a_verdict_count_for_nothing_and_are_entered():
    judged = combine([scored(0.2), silent(1), scored(0.6, judge=2)])
    assert judged is not None
    assert judged.score == 0.4
    assert [(entry["model"], entry["status"], entry["error"]) for entry in judged.judges] == [
        ("m0", "ok", None),
        ("m1", "error", {"code": "provider_auth"}),
        ("m2", "ok", None),
    ]
    assert combine([silent(0), silent(1)]) is None
    assert combine([]) is None


def test_the_reasoning_is_that_of_whoever_is_closest_and_suggestions_are_told_once():
    judged = combine(
        [
            scored(0.1, suggestions=("a",)),
            scored(0.5, judge=1, suggestions=("b", "a")),
            scored(0.9, judge=2, suggestions=("b",)),
        ]
    )
    assert judged is not None
    assert (judged.reasoning, judged.suggestions) == ("R0.5", ("a", "b"))


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


def test_the_words_of_a_line_are_those_of_a_judge_who_said_the_same():
    rubric = [binary("a", required=True)]
    met, unmet = result_of(rubric[0], 1.0, evidence="yes"), result_of(rubric[0], 0.0, evidence="no", gap="do it")
    split = combine([verdict_on(met), verdict_on(unmet, judge=1), verdict_on(unmet, judge=2)], rubric)
    assert split is not None
    assert [(c.passed, c.evidence, c.gap) for c in split.criteria] == [(False, "no", "do it")]
    assert not split.is_qualified
    agreed = combine([verdict_on(met), verdict_on(met, judge=1), verdict_on(unmet, judge=2)], rubric)
    assert agreed is not None
    assert [(c.passed, c.evidence, c.gap) for c in agreed.criteria] == [(True, "yes", "")]
    assert agreed.is_qualified


def test_an_even_split_is_not_met():
    rubric = [binary("a")]
    judged = combine([verdict_on(result_of(rubric[0], v), judge=j) for j, v in enumerate((1.0, 0.0))], rubric)
    assert judged is not None
    assert (judged.score, judged.criteria[0].passed) == (0.5, False)


def test_hidden_lines_leave_no_word_in_what_may_go_back_to_the_writer():
    rubric = [binary("open"), binary("secret", hidden=True)]
    results = [result_of(each, 0.0, evidence=f"E-{each.id}", gap=f"G-{each.id}") for each in rubric]
    judged = combine([verdict_on(*results)], rubric)
    assert judged is not None
    assert judged.suggestions == ("G-open",)
    assert "secret" not in judged.reasoning


def test_checks_alone_count_what_was_not_judged_as_not_met():
    rubric = [binary("model", weight=3), Criterion.model_validate(CHECK)]
    judged = by_checks(rubric, [result_of(rubric[1], 1.0, evidence="2 words")])
    assert judged.score == 0.25
    assert [(c.id, c.score, c.passed) for c in judged.criteria] == [("model", None, None), ("short", 1.0, True)]
    assert judged.suggestions == ()


CHECK = {"id": "short", "kind": "check", "check": {"kind": "max_words", "value": 3}}
weights = st.floats(-10, 10).filter(lambda weight: weight != 0)


@given(st.lists(st.tuples(weights, FRACTIONS, st.booleans()), min_size=1, max_size=8))
def test_a_score_is_in_bounds_and_grows_with_what_is_good(lines: list[tuple[float, float, bool]]):
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
