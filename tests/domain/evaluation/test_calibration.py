"""Calibration, checked against an independent computation and against statsmodels."""

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.evaluation.calibration import RATINGS_NEEDED, Rated, calibrate

Z = 1.959963984540054


def generated(count: int, seed: int) -> list[Rated]:
    """An evaluator that is right more often the further its score is from 0.6, and people who disagree with it."""
    chance = Random(seed)  # its random() is the same in all versions of Python
    found: list[Rated] = []
    for _ in range(count):
        score = round(chance.random(), 2)
        is_right = chance.random() < 0.6 + abs(score - 0.6)
        own = round(chance.random(), 2) if chance.random() < 0.3 else None
        verdict = "unsure" if chance.random() < 0.1 else "agree" if is_right else "disagree"
        found.append(Rated(verdict, score >= 0.6, score, own))
    return found


def wilson_by_its_equation(part: int, whole: int) -> list[float]:
    """The two shares p from which part / whole lies Z standard errors away: a quadratic equation in p."""
    seen = part / whole
    a, b, c = 1 + Z * Z / whole, -(2 * seen + Z * Z / whole), seen * seen
    root = math.sqrt(b * b - 4 * a * c)
    return [(-b - root) / (2 * a), (-b + root) / (2 * a)]


def kappa_by_its_gradient(pairs: Sequence[tuple[bool, bool]]) -> tuple[float, float]:
    """Kappa, and its standard error by the delta method: the spread of its gradient under the multinomial."""
    kinds = (True, False)
    n = len(pairs)
    p = {(a, b): pairs.count((a, b)) / n for a in kinds for b in kinds}
    first = {a: sum(p[a, b] for b in kinds) for a in kinds}
    second = {b: sum(p[a, b] for a in kinds) for b in kinds}
    agreed, by_chance = p[True, True] + p[False, False], sum(first[k] * second[k] for k in kinds)
    gradient = {
        (a, b): ((1 - by_chance) * (a == b) - (1 - agreed) * (second[a] + first[b])) / (1 - by_chance) ** 2
        for a in kinds
        for b in kinds
    }
    mean = sum(p[cell] * gradient[cell] for cell in p)
    variance = sum(p[cell] * gradient[cell] ** 2 for cell in p) - mean**2
    return (agreed - by_chance) / (1 - by_chance), math.sqrt(variance / n)


def lowest_threshold(judged: Sequence[tuple[float, bool]], precision: float) -> tuple[float, int, int] | None:
    """Return (threshold, passed, all) for each score as a threshold, from the lowest on."""
    for threshold in sorted({score for score, _ in judged}):
        above = [passes for score, passes in judged if score >= threshold]
        if sum(above) / len(above) >= precision:
            return threshold, sum(above), len(above)
    return None


def figures(estimate: Any) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]


def share_of(flags: Sequence[bool]) -> list[float]:
    return [sum(flags) / len(flags), *wilson_by_its_equation(sum(flags), len(flags))]


@pytest.mark.parametrize("seed", range(5))
def test_figures_of_two_hundred_ratings_equal_those_of_the_oracle(seed: int):
    ratings = generated(200, seed)
    found = calibrate(ratings, precision=0.8)
    sure = [each for each in ratings if each.verdict != "unsure"]
    pairs = [(each.passed if each.verdict == "agree" else not each.passed, each.passed) for each in sure]
    assert (found.status, found.n, found.unsure) == ("calibrated", len(sure), 200 - len(sure))
    table = found.table
    assert [table.both_pass, table.only_person_passes, table.only_evaluator_passes, table.both_fail] == [
        pairs.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False))
    ]
    near = {"abs": 1e-9, "rel": 0}
    assert figures(found.agreement) == pytest.approx(share_of([a == b for a, b in pairs]), **near)
    assert figures(found.sensitivity) == pytest.approx(share_of([b for a, b in pairs if a]), **near)
    assert figures(found.specificity) == pytest.approx(share_of([not b for a, b in pairs if not a]), **near)
    kappa, error = kappa_by_its_gradient(pairs)
    assert figures(found.kappa) == pytest.approx([kappa, kappa - Z * error, kappa + Z * error], **near)
    gaps = [each.own_score - each.score for each in sure if each.own_score is not None and each.score is not None]
    assert found.bias is not None
    assert (found.bias.value, found.bias.n) == pytest.approx((sum(gaps) / len(gaps), len(gaps)), **near)
    oracle = lowest_threshold([(each.score or 0.0, a) for each, (a, _) in zip(sure, pairs, strict=True)], 0.8)
    assert oracle is not None
    assert found.threshold is not None
    assert (found.threshold.value, found.threshold.n) == (oracle[0], oracle[2])
    assert figures(found.threshold.precision) == pytest.approx(
        [oracle[1] / oracle[2], *wilson_by_its_equation(*oracle[1:])], **near
    )
    assert found.threshold.recall == pytest.approx(oracle[1] / sum(a for a, _ in pairs), **near)


# Of generated(200, 20261128): 61 both pass, 11 only people, 8 only the evaluator, 100 neither, 20 unsure. From
# statsmodels 0.15.0 (cohens_kappa with std_kappa, proportion_confint with method="wilson") and numpy 2.4.6.
STATSMODELS = {
    "agreement": [0.8944444444444445, 0.8410276570803017, 0.9313770056704258],
    "kappa": [0.7785547785547786, 0.6845595972817513, 0.8725499598278059],
    "standard_error": 0.047957606371570725,
    "sensitivity": [0.8472222222222222, 0.7467771063249946, 0.912492912705243],
    "specificity": [0.9259259259259259, 0.8606032385435969, 0.9619897513019287],
    "bias": (-0.02254901960784313, 51),
    "threshold": (0.56, 74, 0.8611111111111112),
    "precision": [0.8378378378378378, 0.7376018659372965, 0.9047293642002805],
}


def test_figures_of_two_hundred_ratings_equal_those_of_statsmodels():
    found = calibrate(generated(200, 20261128), precision=0.8)
    table, kappa, bias, threshold = found.table, found.kappa, found.bias, found.threshold
    assert (table.both_pass, table.only_person_passes, table.only_evaluator_passes, table.both_fail) == (61, 11, 8, 100)
    assert kappa is not None
    assert bias is not None
    assert threshold is not None
    near = {"abs": 1e-9, "rel": 0}
    assert kappa.standard_error == pytest.approx(STATSMODELS["standard_error"], **near)
    assert (bias.value, bias.n) == pytest.approx(STATSMODELS["bias"], **near)
    assert (threshold.value, threshold.n, threshold.recall) == pytest.approx(STATSMODELS["threshold"], **near)
    assert figures(threshold.precision) == pytest.approx(STATSMODELS["precision"], **near)
    for name in ("agreement", "kappa", "sensitivity", "specificity"):
        assert figures(getattr(found, name)) == pytest.approx(STATSMODELS[name], **near), name


@pytest.mark.parametrize("count", [1, 12, 29])
def test_below_thirty_ratings_nothing_is_called_calibrated_and_no_threshold_suggested(count: int):
    found = calibrate([Rated("agree", passed=True, score=1.0)] * count + [Rated("unsure", True, 1.0)] * 40, precision=0)
    assert (found.status, found.n, found.unsure, found.threshold) == ("not calibrated", count, 40, None)
    assert found.threshold_reason == f"{count} of {RATINGS_NEEDED} ratings: too few to suggest a threshold."


def test_without_ratings_there_is_no_figure():
    found = calibrate([], precision=0.9)
    assert (found.n, found.agreement, found.kappa, found.bias, found.threshold) == (0, None, None, None, None)
    assert found.kappa_reason == "There are no ratings that say yes or no."


@pytest.mark.parametrize(
    ("ratings", "sides"),
    [
        ([Rated("agree", True, 1.0)] * 30, "people passed every answer and the evaluator passed every answer"),
        ([Rated("disagree", True, 1.0)] * 30, "people failed every answer and the evaluator passed every answer"),
        ([Rated("disagree", False, 0.0)] * 30, "people passed every answer and the evaluator failed every answer"),
        ([Rated("agree", True, 1.0), Rated("disagree", True, 1.0)] * 15, "the evaluator passed every answer"),
        ([Rated("agree", True, 1.0), Rated("disagree", False, 0.0)] * 15, "people passed every answer"),
    ],
)
def test_it_says_why_there_is_no_kappa(ratings: list[Rated], sides: str):
    found = calibrate(ratings, precision=0.9)
    assert found.status == "calibrated"
    assert found.kappa is None
    assert found.kappa_reason == f"No variation: {sides}. Rate some answers that pass and some that fail."


def test_a_precision_that_no_score_reaches_has_no_threshold():
    found = calibrate([Rated("disagree", True, 0.9), Rated("agree", True, 0.8)] * 20, precision=0.95)
    assert found.threshold is None
    assert found.threshold_reason == "At every threshold, people pass less than 0.95 of the answers that reach it."


def test_ratings_without_a_score_count_for_all_but_the_threshold():
    found = calibrate([Rated("agree", True), Rated("agree", False)] * 20, precision=0.9)
    assert found.kappa is not None
    assert (found.kappa.value, found.n, found.bias, found.threshold) == (1, 40, None, None)


RATINGS = st.lists(
    st.builds(
        Rated,
        verdict=st.sampled_from(["agree", "disagree", "unsure"]),
        passed=st.booleans(),
        score=st.floats(0, 1) | st.sampled_from([0.0, 0.5, 0.8, 1.0]),
        own_score=st.none() | st.floats(0, 1),
    ),
    min_size=RATINGS_NEEDED,
    max_size=120,
)


@given(RATINGS, st.floats(0, 1))
def test_a_suggested_threshold_reaches_its_precision_and_no_lower_one_does(ratings: list[Rated], precision: float):
    found = calibrate(ratings, precision=precision)
    judged = [(each.score or 0.0, each.person_passes) for each in ratings if each.verdict != "unsure"]
    if len(judged) < RATINGS_NEEDED:
        assert found.threshold is None
        return
    oracle = lowest_threshold(judged, precision)
    assert (found.threshold is None) == (oracle is None) == (found.threshold_reason is not None)
    if found.threshold is None or oracle is None:
        return
    above = [passes for score, passes in judged if score >= found.threshold.value]
    assert sum(above) / len(above) >= precision
    assert (found.threshold.value, found.threshold.n) == (oracle[0], len(above))


@given(RATINGS)
def test_no_figure_is_ever_nan(ratings: list[Rated]):
    found = calibrate(ratings, precision=0.9)
    for estimate in (found.agreement, found.kappa, found.sensitivity, found.specificity):
        assert estimate is None or all(map(math.isfinite, figures(estimate)))
    assert found.bias is None or math.isfinite(found.bias.value)
