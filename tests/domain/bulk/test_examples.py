"""The choice of the rows that a report shows with their texts."""

from redraft.domain.bulk.examples import Choice, choose_examples, lowest_scores
from tests.domain.bulk.outcomes import failed, looped, many


def _names(choices: tuple[Choice, ...]) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.item.custom_id, each.iterations) for each in choices]


def test_the_lowest_scores_are_those_of_answers_that_were_not_accepted():
    items = [*many("ok-", 3, 0.9), looped("b", 0.3, 0.4), looped("a", 0.4), looped("c", 0.1, 0.2), failed("d")]
    assert [item.custom_id for item in lowest_scores(items)] == ["c", "a", "b"]
    assert _names(choose_examples(items).lowest) == [("c", (2,)), ("a", (1,)), ("b", (2,))]


def test_one_repeat_of_a_row_is_shown_the_most_telling_one():
    items = [looped("a", 0.5, 0.7, repeat=1), looped("a", 0.2, 0.7, repeat=2), looped("a", 0.1, repeat=3)]
    chosen = choose_examples(items)
    assert [each.item.repeat for each in chosen.lowest] == [3]
    assert [each.item.repeat for each in chosen.helped] == [2]


def test_the_largest_gains_come_first_and_at_most_five():
    items = [looped(f"r{n}", 0.1 * n, 0.9) for n in range(8)] + [looped("same", 0.9)]
    assert _names(choose_examples(items).helped) == [(f"r{n}", (1, 2)) for n in range(5)]


def test_a_worse_returned_answer_comes_before_a_worse_revision():
    hurt = looped("returned", 0.75, 0.65, final_score=0.65, best_iteration=2)
    items = [looped("revised", 0.7, 0.75, 0.1), hurt, looped("better", 0.1, 0.9), looped("gap", None, 0.5, None, 0.4)]
    assert _names(choose_examples(items).hurt) == [("returned", (1, 2)), ("revised", (2, 3)), ("gap", (2, 4))]


def test_a_run_without_verdicts_has_no_examples():
    chosen = choose_examples([failed("a"), looped("b", None)])
    assert (chosen.lowest, chosen.helped, chosen.hurt) == ((), (), ())
