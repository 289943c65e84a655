"""Comparisons of two runs on the same rows, checked against figures computed by hand."""

from math import isfinite

import pytest
from hypothesis import given, settings

from redraft.domain.bulk.comparison import compare
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.statistics.estimates import Mean, mcnemar_p
from tests.domain.bulk.outcomes import RUNS, failed, looped, many

BASE = [
    looped("better", 0.5),
    looped("gone", 0.9),
    looped("lost", 0.9),
    looped("neither", None),
    looped("newly failing", 0.9),
    looped("newly passing", 0.6),
    looped("same", 0.8),
    failed("won"),
]
NEW = [
    looped("better", 0.7),
    looped("lost", None),
    failed("neither"),
    looped("new", 0.9),
    looped("newly failing", 0.75),
    looped("newly passing", 0.85),
    looped("same", 0.8),
    looped("won", 0.9),
]


def test_only_rows_with_a_verdict_in_both_are_compared():
    found = compare(BASE, NEW)
    assert (found.n, found.wins, found.ties, found.losses) == (4, 2, 1, 1)
    assert found.score is not None
    assert found.pass_rate is not None
    assert found.score.value == pytest.approx((0.2 - 0.15 + 0.25 + 0) / 4)
    assert (found.pass_rate.value, found.mcnemar_p) == (0, 1)
    assert (found.newly_passing, found.newly_failing) == (("newly passing",), ("newly failing",))
    assert (found.only_in_baseline, found.only_in_new) == (("gone",), ("new",))
    verdicts = found.verdicts
    assert (verdicts.lost, verdicts.won, verdicts.neither) == (("lost",), ("won",), ("neither",))
    assert (len(verdicts.lost + verdicts.won + verdicts.neither), verdicts.p, verdicts.repeats_without) == (3, 1, 0)


def test_the_comparison_is_described_in_sentences():
    scores = "+0.075 (95 % interval -0.076 to +0.225, 4 rows)"
    passes = "+0.00 points (95 % interval -65.33 points to +65.33 points, 4 rows, p = 1.000)"
    lower = "Lower score in 1 row: newly failing (0.90 to 0.75)."
    few = "With fewer than 20 rows, only a large difference can be detected."
    assert compare(BASE, NEW, name="run_7").words == (
        f"No difference in the mean score shown against that of run_7: {scores}. {few} {lower}",
        f"No difference in the pass rate shown against that of run_7: {passes}. {few}",
        "By score: 2 wins, 1 tie, 1 loss.",
        "1 row newly failing (newly failing), 1 row newly passing (newly passing); McNemar's exact test: p = 1.000.",
        "Left out: 1 row with a verdict in run_7 only (lost).",
        "Left out: 1 row with a verdict in the new run only (won).",
        "Left out: 1 row without a verdict in either (neither).",
        "Left out: 1 row in run_7 only (gone).",
        "Left out: 1 row in the new run only (new).",
    )


def test_repeats_are_averaged_and_a_row_passes_if_more_than_half_of_them_do():
    base = [looped("a", 0.9, repeat=1), looped("a", 0.9, repeat=2), looped("a", 0.3, repeat=3)]
    new = [looped("a", 0.9, repeat=1), looped("a", 0.5, repeat=2), failed("a", repeat=3)]
    found = compare(base, new)
    assert found.score is not None
    assert found.pass_rate is not None
    assert (found.n, found.score.value) == (1, pytest.approx(0))
    assert found.pass_rate.value == pytest.approx(1 / 2 - 2 / 3)
    assert found.newly_failing == ("a",)
    assert found.verdicts.repeats_without == 1
    assert found.words[-1] == "Left out: 1 repeat of compared rows without a verdict."


def test_a_row_without_a_score_is_compared_by_its_verdict_only():
    found = compare([looped("a", 0.9)], [looped("a", None, success=True, stop_reason="accepted")])
    assert (found.n, found.score, found.ties) == (1, None, 0)
    assert found.words[0] == "The mean score cannot be compared with that of the baseline: no row has it on both sides."


def test_a_difference_in_all_rows_is_shown():
    found = compare(many("row", 30, 0.9), many("row", 30, 0.7))
    assert found.score == Mean(pytest.approx(-0.2), pytest.approx(-0.2), pytest.approx(-0.2), 30, 30)
    assert found.mcnemar_p == pytest.approx(2**-29)
    words, _, lower = found.words[0].partition(" Lower score in 30 rows: row0000 (0.90 to 0.70), row0001 ")
    assert words == (
        "The mean score is lower than that of the baseline by 0.200 (95 % interval -0.200 to -0.200, 30 rows)."
    )
    assert lower.endswith(", row0009 (0.90 to 0.70) and 20 more.")
    assert found.words[1].startswith("The pass rate is lower than that of the baseline by 100.00 points (95 % interval")


def test_a_difference_without_significance_is_not_called_equal():
    words = " ".join(compare(many("row", 30, 0.9), many("row", 30, 0.9)).words)
    assert "No difference in the mean score shown" in words
    assert "Without variation nothing can be said about other rows." in words
    assert "Of 30 rows compared none passes in one run only." in words
    assert "equal" not in words


def test_without_a_common_row_nothing_is_compared():
    found = compare(many("a", 3, 0.9), [])
    assert (found.n, found.score, found.pass_rate, found.mcnemar_p) == (0, None, None, None)
    assert found.words == (
        "No row can be compared with the baseline: none has a verdict in both.",
        "Left out: 3 rows in the baseline only (a0000, a0001, a0002).",
    )


@settings(max_examples=40)
@given(RUNS, RUNS)
def test_turning_runs_around_turns_the_comparison_around(base: list[ItemOutcome], new: list[ItemOutcome]):
    found, turned = compare(base, new), compare(new, base)
    assert (found.n, found.ties, found.mcnemar_p) == (turned.n, turned.ties, turned.mcnemar_p)
    assert (found.wins, found.newly_passing, found.only_in_new) == (
        turned.losses,
        turned.newly_failing,
        turned.only_in_baseline,
    )
    assert (found.verdicts.lost, found.verdicts.neither) == (turned.verdicts.won, turned.verdicts.neither)
    for one, other in ((found.score, turned.score), (found.pass_rate, turned.pass_rate)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.value == pytest.approx(-other.value)
            assert one.low is None or (isfinite(one.low) and one.low <= one.value)


@settings(max_examples=40)
@given(RUNS, RUNS)
def test_every_row_is_compared_or_named(base: list[ItemOutcome], new: list[ItemOutcome]):
    found = compare(base, new)
    rows = {item.custom_id for item in (*base, *new)}
    alone = len(found.only_in_baseline) + len(found.only_in_new)
    verdicts = found.verdicts
    assert found.n + len(verdicts.lost + verdicts.won + verdicts.neither) + alone == len(rows)
    assert found.wins + found.ties + found.losses <= found.n
    if found.mcnemar_p is not None:
        assert found.mcnemar_p == mcnemar_p(len(found.newly_passing), len(found.newly_failing))


@settings(max_examples=40)
@given(RUNS)
def test_a_run_compared_with_itself_shows_no_difference(items: list[ItemOutcome]):
    found = compare(items, items)
    assert (found.wins, found.losses, found.newly_passing, found.newly_failing) == (0, 0, (), ())
    assert found.score is None or found.score.value == 0
