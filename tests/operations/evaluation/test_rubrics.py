"""Rubrics in the loop: scores that code computes, what is asked in how many calls, and what goes back to the writer."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from redraft.domain.jobs.requests import ContinueJob, GenerateAnswer
from redraft.errors import Invalid
from redraft.operations.jobs import queries
from redraft.operations.jobs.cost_estimates import preview
from redraft.operations.jobs.lifecycle import continue_job
from redraft.prompts.profiles import BUILT_IN
from tests.model_server import ModelServer
from tests.operations.driving import LEAST, Driver
from tests.operations.rubrics import criterion, found, words_at_most

NO_WORDS = {"eval_crit": None}
FIVE = [
    criterion("right", weight=2, required=True),
    criterion("clear"),
    criterion("invents", weight=-1),
    words_at_most(5),
    criterion("depth", kind="scale", weight=3, anchors={"0": "none", "5": "all"}),
]


def test_the_score_is_computed_from_what_was_found(driver: Driver, model_server: ModelServer):
    model_server.script(
        generate=["three short words"], evaluate=[found(right=True, clear=False, invents=True, depth=3)]
    )
    job = driver.run_new(rubric=FIVE, iter_max=1, score_threshold=0.5, **NO_WORDS)

    assert job.result is not None
    assert job.result["final_score"] == pytest.approx((2 + 0 - 1 + 1 + 3 * 0.6) / (2 + 1 + 1 + 3), abs=1e-12)
    assert job.stop_reason == "accepted"
    [iteration] = driver.iterations(job.id)
    evaluation = iteration.evaluation
    assert evaluation is not None
    assert [(c.id, c.score, c.passed) for c in evaluation.criteria] == [
        ("right", 1.0, True),
        ("clear", 0.0, False),
        ("invents", 1.0, False),
        ("short", 1.0, True),
        ("depth", 0.6, False),
    ]
    assert [(c.id, c.kind, c.passed) for c in evaluation.checks] == [("short", "max_words", True)]
    assert evaluation.improvement_suggestions == [
        "GAP-clear",
        "Make this hold: it must not be true that: TEXT-invents.",
        "GAP-depth",
    ]
    assert evaluation.profile_version
    assert [call.type for call in driver.calls(job.id)] == ["generate", "evaluate"]


def test_an_id_left_out_is_asked_for_once_more_and_then_an_error(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[found(right=True, clear=True, depth=3)])
    job = driver.run_new(rubric=FIVE, iter_max=1, **NO_WORDS)

    assert (job.status, job.stop_reason) == ("succeeded", "evaluator_error")
    assert [call.type for call in driver.calls(job.id)] == ["generate", "evaluate", "repair"]
    [iteration] = driver.iterations(job.id)
    assert iteration.evaluation is not None
    assert (iteration.evaluation.status, iteration.evaluation.score) == ("error", None)
    assert iteration.evaluation.error is not None
    assert "invents" in iteration.evaluation.error["detail"]


@pytest.mark.parametrize(
    ("count", "setting", "asked"),
    [(4, "auto", 1), (5, "auto", 5), (5, "all", 1), (2, "one", 2), (1, "one", 1)],
)
def test_criteria_are_judged_together_or_each_on_its_own(
    make_driver: Callable[..., Driver], model_server: ModelServer, count: int, setting: str, asked: int
):
    driver = make_driver(criteria_per_call=setting)
    rubric = [criterion(f"c{n}") for n in range(count)]
    model_server.respond(None)
    together = found(**{each["id"]: True for each in rubric})
    model_server.script(evaluate=[together if asked == 1 else None])
    if asked > 1:
        model_server.respond(lambda request: _on_its_own(request.prompt, request.role, rubric))
    job = driver.run_new(rubric=rubric, iter_max=1, score_threshold=1, **NO_WORDS)

    assert job.stop_reason == "accepted", driver.iterations(job.id)
    assert [call.type for call in driver.calls(job.id)].count("evaluate") == asked
    assert preview(driver.services, GenerateAnswer.model_validate({**LEAST, "rubric": rubric})).calls_max == 3 * (
        1 + 2 * asked
    )


def _on_its_own(prompt: str, role: str, rubric: list[dict[str, str]]) -> object:
    if role != "evaluate":
        return None
    from tests.model_server.scripts import as_reply

    [name] = [each["id"] for each in rubric if each["text"] in prompt]
    return as_reply(found(**{name: True}))


def test_a_required_criterion_decides_whatever_the_score(driver: Driver, model_server: ModelServer):
    rubric = [criterion("must", required=True), criterion("nice", weight=9)]
    model_server.script(
        generate=["one", "two", "three"],
        evaluate=[found(must=False, nice=True), found(must=True, nice=False), found(must=False, nice=True)],
    )
    job = driver.run_new(rubric=rubric, score_threshold=0.9, **NO_WORDS)

    assert job.stop_reason == "iteration_limit"
    assert job.result is not None
    assert (job.result["final_answer"], job.result["best_iteration"], job.result["final_score"]) == ("two", 2, 0.1)
    assert driver.scores(job.id) == [0.9, 0.1, 0.9]
    first = driver.iterations(job.id)[0].evaluation
    assert first is not None
    assert (first.passed, first.requirements_met) == (False, False)
    thinking = [event.data["message"] for event in driver.events(job.id) if event.type == "thinking"]
    assert thinking[0].startswith("A required criterion is not met")


def test_the_writer_is_told_what_fails_what_to_keep_and_what_was_lost(driver: Driver, model_server: ModelServer):
    rubric = [criterion("a"), criterion("b"), criterion("secret", hidden=True), words_at_most(3)]
    model_server.script(
        generate=["one two three four", "two", "three"],
        evaluate=[
            found(a=True, b=False, secret=False),
            found(a=False, b=True, secret=False),
            found(a=True, b=True, secret=True),
        ],
    )
    job = driver.run_new(rubric=rubric, revision={"from": "last"}, score_threshold=1, **NO_WORDS)
    first, second, third = (request.prompt for request in model_server.requests("generate"))

    assert all(f"TEXT-{name}" in first for name in "ab")
    assert "secret" not in first + second + third
    changes, keeps = second.split("# What to keep")
    assert all(words in changes for words in ("Not met: TEXT-b", "Found: EVIDENCE-b", "Change: GAP-b"))
    assert "4 words" in changes
    assert "TEXT-a" in keeps
    assert "lacks something else" in changes
    assert "Met by an earlier answer, no longer met: TEXT-a" in third
    assert job.stop_reason == "accepted"

    matrix = queries.criteria_matrix(driver.services, job.id)
    assert [row.id for row in matrix.criteria] == ["a", "b", "secret", "short"]
    marks = [[(cell.passed, cell.regressed) for cell in column.cells] for column in matrix.iterations]
    assert [row[0] for row in marks] == [(True, False), (False, True), (True, False)]
    assert [row[3] for row in marks] == [(False, False), (True, False), (True, False)]


def test_from_the_best_a_later_attempt_says_what_it_lost(driver: Driver, model_server: ModelServer):
    model_server.script(
        generate=["one", "two", "three"],
        evaluate=[found(a=True, b=True, c=False), found(a=True, b=False, c=False), found(a=True, b=True, c=True)],
    )
    driver.run_new(rubric=[criterion(name) for name in "abc"], score_threshold=1, **NO_WORDS)
    third = model_server.requests("generate")[2].prompt
    assert "No longer met: TEXT-b. GAP-b" in third.split("# What was wrong with a later attempt")[1]


def test_a_rubric_of_checks_asks_no_model(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["far too many words here", "few words"])
    job = driver.run_new(rubric=[words_at_most(3, required=True)])

    assert job.stop_reason == "accepted"
    assert [call.type for call in driver.calls(job.id)] == ["generate", "generate"]
    assert [warning.code for warning in job.warnings] == ["eval_crit_not_judged"]
    assert "Not met: The answer has at most 3 words" in model_server.requests("generate")[1].prompt
    assert driver.scores(job.id) == [0.0, 1.0]
    assert "5 words" in model_server.requests("generate")[1].prompt
    assert [each.evaluation and each.evaluation.evaluator_model for each in driver.iterations(job.id)] == [None, None]


def test_a_failed_required_check_saves_the_call_if_asked_to(driver: Driver, model_server: ModelServer):
    rubric = [words_at_most(3, required=True), criterion("right")]
    model_server.script(generate=["far too many words here", "few words"], evaluate=[found(right=True)])
    job = driver.run_new(rubric=rubric, evaluation={"skip": "when_checks_fail"}, score_threshold=1, **NO_WORDS)

    assert job.stop_reason == "accepted"
    assert [call.type for call in driver.calls(job.id)] == ["generate", "generate", "evaluate"]
    first = driver.iterations(job.id)[0].evaluation
    assert first is not None
    assert [(c.id, c.score, c.passed) for c in first.criteria] == [("short", 0.0, False), ("right", None, None)]
    assert (first.score, first.requirements_met) == (0.0, False)


def test_too_simple_a_task_is_answered_and_not_judged(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["Hello!"])
    job = driver.run_new(instruct="Hello", evaluation={"skip": "auto"})

    assert (job.status, job.stop_reason) == ("succeeded", "evaluation_skipped")
    assert job.result is not None
    assert (job.result["final_answer"], job.result["success"], job.result["final_score"]) == ("Hello!", None, None)
    [iteration] = driver.iterations(job.id)
    assert iteration.status == "evaluation_skipped"
    assert iteration.evaluation is not None
    assert (iteration.evaluation.status, iteration.evaluation.score) == ("skipped", None)
    assert [call.type for call in driver.calls(job.id)] == ["generate"]
    assert driver.run_new(instruct="Hello", evaluation={"skip": "never"}).stop_reason == "accepted"


def test_unknown_profiles_and_what_a_profile_needs_are_refused_at_once(driver: Driver):
    with pytest.raises(Invalid) as unknown:
        driver.submit(profile="no-such")
    assert unknown.value.errors[0].code == "unknown_profile"


@pytest.mark.parametrize(
    ("profile", "reply", "score", "suggestions"),
    [
        (
            "quality",
            {"quality_score": 0.7, "confidence_score": 0.5, "issues": ["I"], "improvement_hint": "H"},
            0.7,
            ["I", "H"],
        ),
        ("comprehensive", {"comprehensive": False, "reason": "R"}, 0.0, ["R"]),
    ],
)
def test_other_profiles_bring_their_own_criteria(
    driver: Driver, model_server: ModelServer, profile: str, reply: object, score: float, suggestions: list[str]
):
    model_server.script(evaluate=[reply])
    job = driver.run_new(profile=profile, iter_max=1, **NO_WORDS)
    evaluation = driver.iterations(job.id)[0].evaluation
    assert evaluation is not None
    assert (evaluation.score, evaluation.profile, evaluation.improvement_suggestions) == (score, profile, suggestions)


def test_a_worker_that_lacks_the_jobs_profile_ends_the_job_with_its_answer(
    make_driver: Callable[..., Driver], model_server: ModelServer, tmp_path: Path
):
    shutil.copytree(BUILT_IN["quality"], tmp_path / "own")
    job_id = make_driver(profiles_dir=tmp_path).submit(profile="own", iter_max=1, **NO_WORDS)
    job = make_driver().run(job_id)
    assert (job.status, job.stop_reason) == ("succeeded", "error")
    assert job.error is not None
    assert job.error["code"] == "evaluator_invalid"
    assert "no profile 'own'" in job.error["detail"]
    assert "REDRAFT_PROFILES_DIR" in job.error["detail"]


def test_a_continuation_may_bring_other_sources(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["an old source [1]", "a new source [1]"], evaluate=[0.4, 0.9])
    job = driver.run_new(iter_max=1, sources=[{"content": "OLD-SOURCE"}])
    change = ContinueJob.model_validate({"sources": [{"content": "NEW-SOURCE", "title": "TITLE"}]})
    continue_job(driver.services, job.id, change)
    assert driver.run(job.id).stop_reason == "accepted"
    first, second = (request.prompt for request in model_server.requests("generate"))
    assert ("OLD-SOURCE" in first, "OLD-SOURCE" in second, "NEW-SOURCE" in second) == (True, False, True)


def test_a_check_for_a_fault_tells_the_writer_to_undo_it(driver: Driver, model_server: ModelServer):
    fault = {"id": "moon", "kind": "check", "weight": -1, "check": {"kind": "contains", "value": "moon"}}
    model_server.script(generate=["the moon shines", "it shines"])
    job = driver.run_new(rubric=[fault, words_at_most(9)], score_threshold=1, **NO_WORDS)
    assert job.stop_reason == "accepted"
    second = model_server.requests("generate")[1].prompt
    assert 'Change the answer until this is not true any more: The answer contains "moon".' in second
    first = driver.iterations(job.id)[0].evaluation
    assert first is not None
    assert [(check.id, check.passed) for check in first.checks] == [("moon", False), ("short", True)]
    assert not any("word for word" in check.message for check in first.checks)


def test_judges_that_a_rubric_of_checks_does_not_ask_are_told_of(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["few words"])
    judging = {"panel": ["openai:j1", "openai:j2"], "samples": 2, "audit": "openai:j3"}
    job = driver.run_new(rubric=[words_at_most(3)], evaluation=judging, **NO_WORDS)
    assert [warning.code for warning in job.warnings] == ["evaluators_not_asked"]
    assert [call.type for call in driver.calls(job.id)] == ["generate"]
    assert driver.iterations(job.id)[0].further_evaluations == []
