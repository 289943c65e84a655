"""Properties of the loop for any answers and verdicts: it ends, evaluates every answer and returns the best."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redraft.domain.jobs.states import StopReason
from redraft.domain.loop.attempts import Attempt, Evaluation, best_of, earlier_duplicate, passes
from redraft.domain.loop.feedback import Feedback, feedback_for
from redraft.domain.loop.rules import Rules
from redraft.domain.loop.stopping import Evaluate, Finish, Generate, next_action

NEVER_FLAT = Rules(iteration_limit=3, plateau_patience=0)


def evaluated(number: int, score: float | None, answer: str = "", *, passed: bool = False, says: str = "") -> Attempt:
    verdict = Evaluation(score, passed, f"why {number}", (says or f"FIX-{number}",) if score is not None else ())
    return Attempt(number, 1, answer or f"draft {number}", verdict)


def scored(*scores: float | None, threshold: float = 2.0) -> list[Attempt]:
    return [evaluated(n, s, passed=s is not None and s >= threshold) for n, s in enumerate(scores, 1)]


def stop_reason(rules: Rules, *scores: float | None, threshold: float = 2.0) -> StopReason | None:
    action = next_action(rules, scored(*scores, threshold=threshold))
    return action.reason if isinstance(action, Finish) else None


# The outcome of one candidate: its answer, and its score, or None if the evaluation failed
OUTCOMES = st.tuples(
    st.sampled_from(["one", "two", "three", "four"]) | st.text(max_size=5),
    st.none() | st.floats(0, 1) | st.sampled_from([0.0, 0.5, 0.5 + 1e-12, 1.0]),
)
RULES = st.builds(
    Rules,
    iteration_limit=st.integers(1, 10),
    plateau_patience=st.integers(0, 4),
    plateau_delta=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    strategy=st.sampled_from(["revise", "fresh", "encourage"]),
    start_from=st.sampled_from(["best", "last"]),
)


def play(
    rules: Rules,
    outcomes: Sequence[Sequence[tuple[str, float | None]]],
    threshold: float,
    history: Sequence[Attempt] = (),
) -> tuple[list[Attempt], Finish, int]:
    """Run the loop to its end. Return the attempts, the stop reason, and the number of generations."""
    attempts, generations = list(history), 0
    while True:
        action = next_action(rules, attempts)
        match action:
            case Finish():
                return attempts, action, generations
            case Generate(iteration):
                assert iteration == max((a.iteration for a in attempts), default=0) + 1
                round_of = outcomes[generations % len(outcomes)]
                attempts += [Attempt(iteration, n, answer) for n, (answer, _) in enumerate(round_of, 1)]
                generations += 1
            case Evaluate(iteration):
                scores = [score for _, score in outcomes[(generations - 1) % len(outcomes)]]
                attempts = [
                    replace(a, evaluation=_verdict(scores[a.candidate - 1], threshold))
                    if a.iteration == iteration
                    else a
                    for a in attempts
                ]
        assert generations <= 20, "the loop does not end"


def _verdict(score: float | None, threshold: float) -> Evaluation:
    return Evaluation(score, passes(score, threshold), "why", ("change it",))


GAMES = st.lists(st.lists(OUTCOMES, min_size=1, max_size=3), min_size=1, max_size=10)


@settings(deadline=None, max_examples=60)
@given(rules=RULES, outcomes=GAMES, threshold=st.floats(0, 1))
def test_the_loop_ends_within_its_limit_and_every_answer_is_evaluated(rules, outcomes, threshold):
    attempts, end, generations = play(rules, outcomes, threshold)

    assert 1 <= generations <= rules.iteration_limit
    assert all(attempt.evaluation is not None for attempt in attempts)
    assert end.reason in {
        StopReason.ACCEPTED,
        StopReason.ITERATION_LIMIT,
        StopReason.PLATEAU,
        StopReason.UNCHANGED,
        StopReason.EVALUATOR_ERROR,
    }


@settings(deadline=None, max_examples=60)
@given(rules=RULES, outcomes=GAMES, threshold=st.floats(0, 1))
def test_it_ends_accepted_exactly_when_an_answer_passed_and_then_returns_one_that_passed(rules, outcomes, threshold):
    attempts, end, _ = play(rules, outcomes, threshold)

    assert (end.reason is StopReason.ACCEPTED) == any(passes(a.score, threshold) for a in attempts)
    best = best_of(attempts)
    assert best is not None
    assert passes(best.score, threshold) == (end.reason is StopReason.ACCEPTED)


@settings(deadline=None, max_examples=60)
@given(rules=RULES, outcomes=GAMES, threshold=st.floats(0, 1))
def test_the_reason_is_an_evaluator_error_only_if_no_answer_has_a_score(rules, outcomes, threshold):
    attempts, end, _ = play(rules, outcomes, threshold)

    assert (end.reason is StopReason.EVALUATOR_ERROR) == all(a.score is None for a in attempts)


@settings(deadline=None, max_examples=60)
@given(rules=RULES, outcomes=GAMES, threshold=st.floats(0, 1))
def test_the_best_answer_has_the_highest_score_and_is_the_earliest_of_its_kind(rules, outcomes, threshold):
    attempts, _, _ = play(rules, outcomes, threshold)
    best = best_of(attempts)
    assert best is not None

    scores = [a.score for a in attempts if a.score is not None]
    if scores:
        assert best.score == max(scores)
        assert best == next(a for a in attempts if a.score == max(scores))
    else:
        assert best == attempts[-1]


@settings(deadline=None, max_examples=60)
@given(rules=RULES, outcomes=GAMES, threshold=st.floats(0.5, 1), more=st.integers(1, 5))
def test_a_continuation_generates_at_least_once_and_keeps_to_its_own_limit(rules, outcomes, threshold, more):
    attempts, _, generations = play(rules, outcomes, threshold)
    further = replace(rules, first_iteration=generations + 1, iteration_limit=generations + more)

    longer, end, again = play(further, outcomes[1:] + outcomes[:1], threshold, attempts)

    assert 1 <= again <= more
    assert len({a.iteration for a in longer}) == generations + again
    assert isinstance(end, Finish)


@settings(deadline=None, max_examples=60)
@given(rules=RULES, outcomes=GAMES, threshold=st.floats(0, 1))
def test_feedback_never_grows_with_the_history(rules, outcomes, threshold):
    attempts, _, _ = play(rules, outcomes, threshold)
    feedback = feedback_for(rules, attempts)
    assert feedback is not None

    assert feedback.base is None or feedback.base in attempts
    assert feedback.reasoning in {"", "why"}
    assert len(feedback.problems) <= 1
    assert len(feedback.later_problems) <= 1


@pytest.mark.parametrize(
    ("scores", "answer"),
    [
        ([0.5, 0.8, 0.6], 2),
        ([0.8, 0.8], 1),
        ([0.4, 0.7, 0.6], 2),
        ([0.6, None, 0.7], 3),
        ([None, 0.0], 2),
        ([None, None], 2),
    ],
)
def test_the_best_not_the_last_is_returned(scores, answer):
    best = best_of(scored(*scores))
    assert best is not None
    assert best.iteration == answer


def test_there_is_no_best_attempt_without_attempts():
    assert best_of([]) is None


def test_a_score_that_a_stricter_threshold_no_longer_accepts_does_not_outrank_a_higher_one():
    accepted_once = evaluated(1, 0.6, passed=True)
    better_but_short_of_the_new_threshold = evaluated(2, 0.8)
    best = best_of([accepted_once, better_but_short_of_the_new_threshold])
    assert best is not None
    assert best.iteration == 2


@pytest.mark.parametrize(
    ("score", "threshold", "passed"),
    [
        (0.8, 0.8, True),
        (0.1 + 0.7, 0.8, True),
        (0.8 - 1e-10, 0.8, True),
        (0.8 - 1e-8, 0.8, False),
        (0.7999, 0.8, False),
        (0.0, 0.0, True),
        (1.0, 1.0, True),
        (None, 0.0, False),
    ],
)
def test_a_pass_is_decided_on_unrounded_values(score, threshold, passed):
    assert passes(score, threshold) is passed


@pytest.mark.parametrize(
    ("patience", "delta", "scores", "reason"),
    [
        (2, 0.02, [0.5], None),
        (2, 0.02, [0.5, 0.5], None),
        (2, 0.02, [0.82, 0.82, 0.82], StopReason.PLATEAU),
        (2, 0.02, [0.5, 0.51, 0.52], StopReason.PLATEAU),
        (2, 0.02, [0.5, 0.51, 0.53], None),
        (2, 0.02, [0.5, 0.4, 0.3], StopReason.PLATEAU),
        (2, 0.02, [0.3, 0.5, 0.4, 0.6], None),
        (2, 0.02, [0.3, 0.5, 0.4, 0.45], StopReason.PLATEAU),
        (1, 0.02, [0.5, 0.5], StopReason.PLATEAU),
        (1, 0.0, [0.5, 0.5000001], None),
        (0, 0.02, [0.5] * 9, None),
        (2, 1.0, [0.0, 0.9, 0.95], StopReason.PLATEAU),
    ],
)
def test_a_plateau_is_no_gain_above_delta_in_so_many_iterations_running(patience, delta, scores, reason):
    rules = Rules(iteration_limit=10, plateau_patience=patience, plateau_delta=delta)
    assert stop_reason(rules, *scores) is reason


def test_a_failed_evaluation_is_no_idle_iteration():
    assert stop_reason(Rules(iteration_limit=10, plateau_patience=2), 0.5, None, None) is None


def test_a_continuation_does_not_stop_at_once_on_an_old_plateau():
    old = scored(0.82, 0.82, 0.82)
    rules = Rules(iteration_limit=8, first_iteration=4)

    assert next_action(rules, old) == Generate(4)
    assert next_action(rules, [*old, evaluated(4, 0.82)]) == Generate(5)
    assert next_action(rules, [*old, evaluated(4, 0.82), evaluated(5, 0.82)]) == Finish(StopReason.PLATEAU)


def test_a_continuation_of_an_accepted_job_generates_again():
    done = scored(0.9, threshold=0.8)
    assert next_action(Rules(iteration_limit=2, first_iteration=2), done) == Generate(2)


@pytest.mark.parametrize("again", ["same", "  same\n", "same\u00a0"])
def test_an_answer_equal_to_an_earlier_one_after_folding_stops_the_loop(again):
    attempts = [evaluated(1, 0.5, "same"), evaluated(2, 0.5, again)]
    assert next_action(NEVER_FLAT, attempts) == Finish(StopReason.UNCHANGED)


def test_a_word_more_is_a_change():
    attempts = [evaluated(1, 0.5, "same"), evaluated(2, 0.5, "same word")]
    assert next_action(NEVER_FLAT, attempts) == Generate(3)


def test_all_candidates_must_repeat_themselves_to_stop_the_loop():
    first = [evaluated(1, 0.5, "a"), replace(evaluated(1, 0.4, "b"), candidate=2)]
    fresh = [evaluated(2, 0.5, "a"), replace(evaluated(2, 0.4, "c"), candidate=2)]
    stale = [evaluated(2, 0.5, "b"), replace(evaluated(2, 0.4, "a"), candidate=2)]

    assert next_action(NEVER_FLAT, first + fresh) == Generate(3)
    assert next_action(NEVER_FLAT, first + stale) == Finish(StopReason.UNCHANGED)


def test_two_equal_candidates_of_one_iteration_are_no_repetition():
    twins = [evaluated(1, 0.5, "a"), replace(evaluated(1, 0.5, "a"), candidate=2)]
    assert next_action(NEVER_FLAT, twins) == Generate(2)


def test_an_evaluated_duplicate_comes_before_one_that_was_not_evaluated():
    attempts = [evaluated(1, None, "same"), evaluated(2, 0.4, "same")]
    assert earlier_duplicate(Attempt(3, 1, "same"), attempts) == attempts[1]
    assert earlier_duplicate(attempts[0], attempts) is None


@pytest.mark.parametrize(
    ("attempts", "reason"),
    [
        ([evaluated(1, 0.5, "same"), evaluated(2, 0.9, "same", passed=True)], StopReason.ACCEPTED),
        ([evaluated(1, 0.5, "a"), evaluated(2, 0.5, "b"), evaluated(3, 0.9, "c", passed=True)], StopReason.ACCEPTED),
        ([evaluated(1, 0.5, "a"), evaluated(2, 0.5, "b"), evaluated(3, 0.5, "a")], StopReason.UNCHANGED),
        ([evaluated(1, 0.5), evaluated(2, 0.5), evaluated(3, 0.5)], StopReason.ITERATION_LIMIT),
        ([evaluated(1, None, "same"), evaluated(2, None, "same")], StopReason.EVALUATOR_ERROR),
        ([evaluated(1, None), evaluated(2, None), evaluated(3, None)], StopReason.EVALUATOR_ERROR),
    ],
)
def test_acceptance_comes_before_repetition_before_the_limit_before_the_plateau(attempts, reason):
    assert next_action(Rules(iteration_limit=3), attempts) == Finish(reason)


def test_every_candidate_is_evaluated_before_anything_else():
    half_evaluated = [evaluated(1, 0.9, passed=True), Attempt(1, 2, "draft")]
    assert next_action(NEVER_FLAT, half_evaluated) == Evaluate(1)


# The content of the next prompt


def feedback_of(rules: Rules, *attempts: Attempt, guidance: str | None = None) -> Feedback:
    feedback = feedback_for(rules, attempts, guidance)
    assert feedback is not None
    return feedback


def test_a_first_generation_has_no_feedback():
    assert feedback_for(NEVER_FLAT, []) is None


def test_guidance_alone_is_feedback():
    assert feedback_of(NEVER_FLAT, guidance="shorter").guidance == "shorter"


def test_revision_starts_from_the_best_answer_with_its_own_verdict():
    feedback = feedback_of(NEVER_FLAT, evaluated(1, 0.7), evaluated(2, 0.4))
    assert feedback.base == evaluated(1, 0.7)
    assert (feedback.reasoning, feedback.problems) == ("why 1", ("FIX-1",))
    assert feedback.later_problems == ("FIX-2",)


def test_a_problem_that_a_later_attempt_repeats_appears_once():
    feedback = feedback_of(NEVER_FLAT, evaluated(1, 0.7, says="same"), evaluated(2, 0.4, says="same"))
    assert (feedback.problems, feedback.later_problems) == (("same",), ())


def test_only_the_problems_of_the_newest_later_attempt_appear():
    feedback = feedback_of(NEVER_FLAT, evaluated(1, 0.7), evaluated(2, 0.4), evaluated(3, 0.5))
    assert feedback.later_problems == ("FIX-3",)


def test_revision_from_the_last_answer_takes_the_last_verdict():
    rules = replace(NEVER_FLAT, start_from="last")
    feedback = feedback_of(rules, evaluated(1, 0.7), evaluated(2, 0.4))
    assert feedback.base == evaluated(2, 0.4)
    assert (feedback.problems, feedback.later_problems) == (("FIX-2",), ())


@pytest.mark.parametrize("start_from", ["best", "last"])
def test_after_a_failed_evaluation_the_last_good_feedback_is_used(start_from):
    rules = replace(NEVER_FLAT, start_from=start_from)
    feedback = feedback_of(rules, evaluated(1, 0.6, "one", says="Add dates"), evaluated(2, None, "two"))
    assert feedback.problems == ("Add dates",)
    assert feedback.reasoning == "why 1"
    assert feedback.base is not None
    assert feedback.base.answer == {"best": "one", "last": "two"}[start_from]


def test_with_no_good_verdict_at_all_the_last_answer_is_shown_without_feedback():
    feedback = feedback_of(NEVER_FLAT, evaluated(1, None), evaluated(2, None))
    assert feedback.base == evaluated(2, None)
    assert (feedback.reasoning, feedback.problems) == ("", ())


def test_a_fresh_start_has_the_feedback_but_not_the_answer():
    feedback = feedback_of(replace(NEVER_FLAT, strategy="fresh"), evaluated(1, 0.6))
    assert feedback.base is None
    assert (feedback.reasoning, feedback.problems) == ("why 1", ("FIX-1",))


def test_the_loop_continues_with_the_best_of_several_candidates():
    first, second = evaluated(1, 0.4, "weak"), replace(evaluated(1, 0.6, "strong"), candidate=2)
    assert feedback_of(NEVER_FLAT, first, second).base == second
    assert feedback_of(replace(NEVER_FLAT, start_from="last"), first, second).base == second
