"""The choice of examples, the folds of a cross-validation, and the agreement before and after."""

from typing import Any

from redraft.domain.evaluation.tunings import (
    RatedAnswer,
    agreement_of,
    choose_examples,
    folds_of,
    merge_raters,
    outside_of,
    tune_threshold,
)


def rated(number: int, *, passes: bool = True, evaluator: bool = True, **changes: Any) -> RatedAnswer:
    request = {"instruct": f"Task {number}", "eval_crit": "Right.", "rubric": [{"text": "Short."}, {"text": None}]}
    facts: dict[str, Any] = {"answer": f"Answer {number}", "score": 0.9 if evaluator else 0.1, "note": ""}
    return RatedAnswer(
        f"eval_{number:03}", passes=passes, evaluator_passes=evaluator, **{**facts, "request": request, **changes}
    )


def test_disagreements_come_first_and_both_verdicts_are_shown():
    answers = [rated(n, passes=n % 3 > 0) for n in range(9)] + [rated(9, passes=False, note="Why.")]
    chosen = choose_examples(answers, 4)
    assert [each.passes for each in chosen] == [True, False, True, False]
    assert chosen[1].note == "Why."
    assert chosen[0].example.criteria == "Right.\n- Short."


def test_disagreements_of_one_kind_fill_what_the_other_kind_lacks():
    answers = [rated(n, passes=False) for n in range(5)]
    assert len(choose_examples(answers, 4)) == 4
    assert choose_examples([rated(1), rated(2)], 4) == []


def test_long_and_repeated_answers_are_no_examples():
    same = [rated(n, passes=False, answer="A", request={"instruct": "T"}) for n in range(3)]
    chosen = choose_examples([*same, rated(5, passes=False, answer="x" * 5000)], 4)
    assert [each.evaluation_id for each in chosen] == ["eval_000"]


def test_raters_who_contradict_each_other_give_no_label():
    yes, no = rated(1), rated(1, passes=False, note="No.")
    assert merge_raters([yes, no]) == []
    assert merge_raters([yes, no, no]) == [no]


def test_answers_to_one_task_are_in_one_fold():
    answers = [rated(n, request={"instruct": f"Task {n % 7}"}) for n in range(20)]
    folds = folds_of(answers)
    assert sorted(each.evaluation_id for fold in folds for each in fold) == [each.evaluation_id for each in answers]
    for number, fold in enumerate(folds):
        assert not {each.task for each in fold} & {each.task for each in outside_of(folds, number)}


def test_agreement_is_paired_and_counts_what_is_missing():
    found = agreement_of([(True, True, True), (False, True, False), (False, True, None)])
    assert found.before
    assert found.after
    assert found.difference
    assert (found.n, found.missing, found.before.value, found.after.value) == (2, 1, 0.5, 1.0)
    assert found.difference.value == 0.5
    assert agreement_of([]).before is None


def test_a_threshold_is_measured_on_answers_that_did_not_choose_it():
    answers = [rated(n, passes=n % 2 == 0, score=0.95 if n % 2 == 0 else 0.85) for n in range(60)]
    found = tune_threshold(answers, 0.9)
    assert found.value == 0.95
    assert found.agreement
    assert found.agreement.before
    assert found.agreement.after
    assert (found.agreement.before.value, found.agreement.after.value) == (0.5, 1.0)
    few = tune_threshold(answers[:5], 0.9)
    assert few.value is None
    assert few.reason
