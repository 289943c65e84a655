"""pass@k, pass^k and flaky rows, against figures computed by hand and by listing all choices."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.repeats import measure_repeats
from redraft.domain.bulk.run_statistics import pass_rate_of
from redraft.domain.statistics.estimates import share
from tests.domain.bulk.outcomes import RUNS, failed, looped


def row(name: str, *passes: bool) -> list[ItemOutcome]:
    return [looped(name, 0.9 if passed else 0.5, repeat=number) for number, passed in enumerate(passes, 1)]


def test_without_repeats_there_is_nothing_to_measure():
    assert measure_repeats([]) is None
    assert measure_repeats([*row("a", True), *row("b", False), failed("b", repeat=2)]) is None


def test_flaky_rows_are_counted_and_the_most_divided_come_first():
    items = [*row("a", True, True, False), *row("b", True, False), *row("c", True, True), *row("d", False)]
    found = measure_repeats(items)
    assert found is not None
    assert (found.rows, found.flaky, found.flaky_share) == (3, 2, share(2, 3))
    assert [(each.custom_id, each.accepted, each.evaluated) for each in found.flaky_rows] == [("b", 1, 2), ("a", 2, 3)]
    assert (found.flaky_rows[0].lowest, found.flaky_rows[0].highest) == (0.5, 0.9)


@settings(max_examples=30)
@given(st.lists(st.lists(st.booleans(), min_size=2, max_size=5), min_size=1, max_size=6).filter(lambda r: r))
def test_the_chances_are_those_of_all_choices_of_k_repeats(rows: list[list[bool]]):
    items = [item for number, passes in enumerate(rows) for item in row(f"r{number}", *passes)]
    found = measure_repeats(items)
    assert found is not None
    for each in found.by_k:
        usable = [passes for passes in rows if len(passes) >= each.k]
        weights = [len(passes) / each.k for passes in usable]
        drawn = [list(combinations(passes, each.k)) for passes in usable]
        for estimate, holds in ((each.pass_at_k, any), (each.pass_hat_k, all)):
            chances = [sum(map(holds, choices)) / len(choices) for choices in drawn]
            expected = sum(chance * weight for chance, weight in zip(chances, weights, strict=True)) / sum(weights)
            assert estimate is not None
            assert estimate.value == pytest.approx(expected)
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
        assert each.rows == len(usable)


def test_all_repeats_of_each_row_are_one_value_per_row():
    found = measure_repeats([*row("a", True, True, True), *row("b", True, False, True), *row("c", False, False, False)])
    assert found is not None
    assert [each.k for each in found.by_k] == [2, 3]
    assert (found.by_k[1].pass_at_k, found.by_k[1].pass_hat_k) == (share(2, 3), share(1, 3))


def test_of_many_repeats_some_values_of_k_are_shown():
    found = measure_repeats(row("a", *[True, False] * 30))
    assert found is not None
    assert [each.k for each in found.by_k] == [2, 3, 4, 5, 10, 20, 50, 60]


@settings(max_examples=25)
@given(RUNS)
def test_at_least_one_is_never_rarer_than_all(items: list[ItemOutcome]):
    found = measure_repeats(items)
    for each in found.by_k if found else ():
        assert each.pass_at_k is not None
        assert each.pass_hat_k is not None
        assert each.pass_hat_k.value <= each.pass_at_k.value + 1e-12
    assert found is None or pass_rate_of(items) is not None
