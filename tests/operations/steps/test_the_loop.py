"""The loop over real sockets, step by step, on both databases and in both dialects."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from redraft.settings import ModelPrice
from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver


def verdict(score: float, *suggestions: str, meets: bool = False, reasoning: str = "r") -> Mapping[str, Any]:
    return {"score": score, "meets_criteria": meets, "reasoning": reasoning, "suggestions": list(suggestions)}


DIALECTS = {
    "openai": {},
    "anthropic": {"model": "anthropic:writer", "evaluator_model": "anthropic:judge"},
}


@pytest.fixture(params=DIALECTS)
def spoken(request: pytest.FixtureRequest, make_driver: Callable[..., Driver]) -> Driver:
    """A driver in each dialect."""
    return make_driver(**DIALECTS[request.param])


def test_a_second_answer_that_passes_is_accepted(spoken: Driver, model_server: ModelServer):
    model_server.script(generate=["one", "two"], evaluate=[verdict(0.4, "FIX-1", reasoning="WHY-1"), 0.9])
    job = spoken.run_new()

    assert (job.status, job.stop_reason, job.error) == ("succeeded", "accepted", None)
    assert job.result is not None
    assert job.result["final_answer"] == "two"
    assert (job.result["success"], job.result["total_iterations"]) == (True, 2)
    assert (job.result["final_score"], job.result["best_iteration"]) == (0.9, 2)
    assert (job.progress.best_score, job.progress.best_iteration, job.progress.step) == (0.9, 2, None)
    assert spoken.scores(job.id) == [0.4, 0.9]
    assert [(call.type, call.iteration, call.status) for call in spoken.calls(job.id)] == [
        ("generate", 1, "succeeded"),
        ("evaluate", 1, "succeeded"),
        ("generate", 2, "succeeded"),
        ("evaluate", 2, "succeeded"),
    ]
    second = model_server.requests("generate")[1].prompt
    assert all(word in second for word in ("TASK", "CRITERIA", "one", "FIX-1", "WHY-1"))
    for asked, answer in zip(model_server.requests("evaluate"), ("one", "two"), strict=True):
        assert answer in asked.prompt
        assert not any(word in asked.prompt for word in ("0.8", "0.4", "FIX-1", "WHY-1", "teration"))


def test_the_events_tell_the_story_in_order(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", "two"], evaluate=[0.4, 0.9])
    job = driver.run_new()

    assert driver.event_types(job.id) == [
        "job.queued",
        "job.started",
        "iteration.started",
        "iteration.generated",
        "iteration.evaluated",
        "thinking",
        "iteration.started",
        "iteration.generated",
        "iteration.evaluated",
        "done",
    ]
    events = driver.events(job.id)
    assert events[3].data["answer"] == "one"
    assert (events[4].data["score"], events[4].data["passed"]) == (0.4, False)
    assert events[5].data.keys() >= {"message", "strategy", "retry_count", "ts"}
    assert events[5].data["retry_count"] == 1
    spent = {"input_tokens": job.usage.input_tokens, "output_tokens": job.usage.output_tokens}
    assert job.result == {**events[-1].data["result"], **spent, "latency_ms": job.usage.latency_ms}
    assert all(e.data["seconds"] >= 0 for e in events if e.type in {"iteration.generated", "iteration.evaluated"})


# Case C03
@pytest.mark.parametrize(("scores", "best"), [((0.4, 0.7, 0.6), 2), ((0.5, 0.8, 0.6), 2), ((0.79, 0.5, 0.79), 1)])
def test_at_the_limit_the_best_answer_is_returned_not_the_last(
    driver: Driver, model_server: ModelServer, scores: tuple[float, ...], best: int
):
    model_server.script(generate=["one", "two", "three"], evaluate=list(scores))
    job = driver.run_new(iter_max=3, score_threshold=0.9)

    assert (job.status, job.stop_reason) == ("succeeded", "iteration_limit")
    assert job.result is not None
    assert job.result["success"] is False
    assert job.result["final_answer"] == ("one", "two", "three")[best - 1]
    assert (job.result["final_score"], job.result["best_iteration"]) == (scores[best - 1], best)
    assert job.result["total_iterations"] == 3


# Case C01
def test_a_threshold_of_0_accepts_a_score_of_0_at_once(driver: Driver, model_server: ModelServer):
    """The case has its temperature at the top of the request; by the contract it is `sampling.temperature`."""
    model_server.script(generate=["A"], evaluate=[verdict(0.0)])
    job = driver.run_new(score_threshold=0, sampling={"temperature": 0})

    assert (job.stop_reason, job.usage.calls) == ("accepted", 2)
    assert job.result is not None
    assert job.result["final_score"] == 0.0
    assert job.result["success"] is True
    assert model_server.requests("generate")[0].body["temperature"] == 0
    assert "temperature" not in model_server.requests("evaluate")[0].body


# Case C06
def test_one_iteration_is_one_generation_and_one_evaluation(spoken: Driver, model_server: ModelServer):
    model_server.script(generate=["one"], evaluate=[0.5])
    job = spoken.run_new(iter_max=1, score_threshold=1.0)

    assert job.stop_reason == "iteration_limit"
    assert [asked.role for asked in model_server.requests()] == ["generate", "evaluate"]
    assert [each.number for each in spoken.iterations(job.id)] == [1]


# Case C06
def test_three_iterations_are_three_of_each_numbered_from_1(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.5, 0.55, 0.6])
    job = driver.run_new(iter_max=3, score_threshold=1.0)

    assert [asked.role for asked in model_server.requests()] == ["generate", "evaluate"] * 3
    assert [each.number for each in driver.iterations(job.id)] == [1, 2, 3]


# Case C07
def test_each_evaluator_sees_its_own_draft_and_each_generator_the_newest_feedback(
    driver: Driver, model_server: ModelServer
):
    model_server.script(
        generate=["DRAFT-1", "DRAFT-2", "DRAFT-3"],
        evaluate=[verdict(0.1, "FIX-1"), verdict(0.2, "FIX-2"), verdict(0.3, "FIX-3")],
    )
    driver.run_new(iter_max=3, score_threshold=0.9)

    judged = [asked.prompt for asked in model_server.requests("evaluate")]
    for number, prompt in enumerate(judged, 1):
        assert [f"DRAFT-{n}" in prompt for n in (1, 2, 3)] == [n == number for n in (1, 2, 3)]
    first, second, third = [asked.prompt for asked in model_server.requests("generate")]
    assert "DRAFT" not in first
    assert "FIX" not in first
    assert "DRAFT-1" in second
    assert "FIX-1" in second
    assert "DRAFT-2" in third
    assert "FIX-2" in third
    assert "FIX-1" not in third


# Case C08
def test_template_marks_pass_through_the_whole_loop_verbatim(driver: Driver, model_server: ModelServer):
    task, criteria = 'What does f"{x}" print? {{ 7*7 }} {% raw %} {0} %s ${HOME}', "Mentions {x}"
    answer = "It prints {x!r} and {{ 7*7 }}."
    model_server.script(generate=[answer, "ok"], evaluate=[verdict(0.4, reasoning="keep {braces}"), 0.9])
    job = driver.run_new(instruct=task, eval_crit=criteria, iter_max=2)

    assert job.stop_reason == "accepted"
    for asked in model_server.requests():
        assert task in asked.prompt
        assert criteria in asked.prompt
    assert "keep {braces}" in model_server.requests("generate")[1].prompt
    assert answer in model_server.requests("evaluate")[0].prompt


# Case C09
def test_prompts_do_not_grow_from_iteration_to_iteration(driver: Driver, model_server: ModelServer):
    unit = "é😀" * 20_000
    model_server.script(generate=[f"{n}{unit}" for n in range(5)], evaluate=[verdict(0.5, "shorter")])
    job = driver.run_new(iter_max=5, score_threshold=1.0, stop={"plateau_patience": 0})

    lengths = [len(asked.prompt) for asked in model_server.requests("generate")]
    assert len(lengths) == 5
    assert lengths[4] <= lengths[1] * 1.1
    assert all("\ufffd" not in asked.prompt for asked in model_server.requests())
    assert [each.answer for each in driver.iterations(job.id)] == [f"{n}{unit}" for n in range(5)]


# Case C10
@pytest.mark.parametrize(("score", "meets", "success"), [(0.75, False, True), (0.0, True, False)])
def test_the_score_decides_and_the_evaluators_own_flag_is_only_kept(
    driver: Driver, model_server: ModelServer, score: float, *, meets: bool, success: bool
):
    model_server.script(evaluate=[verdict(score, meets=meets)])
    job = driver.run_new(score_threshold=0.7, iter_max=1)

    assert job.result is not None
    assert job.result["success"] is success
    (iteration,) = driver.iterations(job.id)
    assert iteration.evaluation is not None
    assert (iteration.evaluation.passed, iteration.evaluation.meets_criteria) == (success, meets)
    evaluated = next(e for e in driver.events(job.id) if e.type == "iteration.evaluated")
    assert evaluated.data["passed"] is success


def test_a_repeated_answer_reuses_its_verdict_without_a_call_and_stops(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["same", " same\n"], evaluate=[verdict(0.5, "FIX")])
    job = driver.run_new(iter_max=4, score_threshold=0.9)

    assert job.stop_reason == "unchanged"
    assert len(model_server.requests("generate")) == 2
    assert len(model_server.requests("evaluate")) == 1
    first, second = driver.iterations(job.id)
    assert first.evaluation is not None
    assert second.evaluation is not None
    assert (second.status, second.evaluation.score) == ("evaluated", 0.5)
    assert second.evaluation.reused_from == first.evaluation.id
    assert job.result is not None
    assert job.result["best_iteration"] == 1


def test_no_gain_in_two_iterations_running_stops_the_loop(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.82, 0.82, 0.83])
    job = driver.run_new(iter_max=9, score_threshold=0.95)
    assert (job.stop_reason, len(driver.iterations(job.id))) == ("plateau", 3)
    assert job.result is not None
    assert job.result["final_score"] == 0.83


def test_without_patience_the_loop_goes_on_over_a_plateau(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.82])
    job = driver.run_new(iter_max=5, score_threshold=0.95, stop={"plateau_patience": 0})
    assert (job.stop_reason, len(driver.iterations(job.id))) == ("iteration_limit", 5)


def test_of_three_candidates_the_best_goes_on_and_is_returned(driver: Driver, model_server: ModelServer):
    def judge(asked: Any) -> Reply | None:
        if asked.role == "generate":
            return None
        answer = next(f"draft {n}" for n in range(1, 7) if f"draft {n}" in asked.prompt)
        return Reply(
            verdict=verdict({"draft 1": 0.3, "draft 2": 0.6, "draft 5": 0.9}.get(answer, 0.1), f"FIX {answer}")
        )

    model_server.respond(judge)
    job = driver.run_new(candidates=3, iter_max=2)

    rows = driver.iterations(job.id)
    assert [(row.number, row.candidate) for row in rows] == [(n, c) for n in (1, 2) for c in (1, 2, 3)]
    assert job.usage.calls == 12
    for asked in model_server.requests("generate")[3:]:
        assert "draft 2" in asked.prompt
        assert "draft 1" not in asked.prompt
    assert (job.stop_reason, job.progress.best_score) == ("accepted", 0.9)
    assert job.result is not None
    assert job.result["final_answer"] == "draft 5"


def test_each_iteration_takes_its_rung_of_the_ladder_and_the_last_one_stays(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.1, 0.2, 0.3])
    job = driver.run_new(model=["openai:small", "openai:large"], iter_max=3)

    assert [asked.model for asked in model_server.requests("generate")] == ["small", "large", "large"]
    assert {asked.model for asked in model_server.requests("evaluate")} == {"judge"}
    assert [each.generator_model for each in driver.iterations(job.id)] == [
        "openai:small",
        "openai:large",
        "openai:large",
    ]


def test_the_bundled_model_as_evaluator_is_flagged_unless_only_checks_decide(driver: Driver):
    asked = driver.job(driver.submit(evaluator_model="local:smollm2-135m"))
    short = {"id": "short", "kind": "check", "check": {"kind": "max_words", "value": 9}}
    checked = driver.job(driver.submit(evaluator_model="local:smollm2-135m", eval_crit=None, rubric=[short]))
    assert [warning.code for warning in asked.warnings] == ["evaluator_is_tiny"]
    assert checked.warnings == []


def test_judging_ones_own_answers_is_allowed_and_flagged(driver: Driver):
    own = driver.job(driver.submit(model="openai:judge"))
    other = driver.job(driver.submit())
    assert [warning.code for warning in own.warnings] == ["evaluator_is_generator"]
    assert other.warnings == []


def test_the_evaluator_defaults_to_the_generators_first_model(make_driver: Callable[..., Driver]):
    driver = make_driver(evaluator_model="")
    job = driver.job(driver.submit(model=["openai:a", "openai:b"]))
    assert job.request["evaluator_model"] == "openai:a"


def test_a_fresh_start_shows_the_feedback_and_encouragement_the_answer(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["ONE", "TWO"], evaluate=[verdict(0.4, "FIX"), 0.9])
    driver.run_new(revision={"strategy": "fresh"})
    fresh = model_server.requests("generate")[1]
    assert "FIX" in fresh.prompt
    assert "ONE" not in fresh.prompt

    model_server.log.clear()
    model_server.script(generate=["ONE  \n", "TWO"], evaluate=[verdict(0.4, "FIX"), 0.9])
    driver.run_new(revision={"strategy": "encourage"})
    said = model_server.requests("generate")[1].body["messages"]
    assert [message["role"] for message in said][-3:] == ["user", "assistant", "user"]
    assert said[-2]["content"] == "ONE"


@pytest.mark.parametrize("answer", ["   ", ":", "Thought process:", "..."])
def test_a_trivial_answer_fails_in_code_before_any_evaluator_sees_it(
    driver: Driver, model_server: ModelServer, answer: str
):
    job = driver.run(driver.submit_evaluation(answer, score_threshold=0))

    assert (job.status, job.stop_reason) == ("succeeded", "iteration_limit")
    assert model_server.requests() == []
    (iteration,) = driver.iterations(job.id)
    assert iteration.evaluation is not None
    assert (iteration.evaluation.score, iteration.evaluation.passed) == (0.0, False)
    assert iteration.evaluation.improvement_suggestions
    assert "lacks what is required" in driver.events(job.id)[-1].data["message"]


def test_a_trivial_draft_is_followed_by_a_better_one(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["Thought process:", "A real answer."], evaluate=[0.9])
    job = driver.run_new()
    assert job.stop_reason == "accepted"
    assert len(model_server.requests("evaluate")) == 1
    assert "held no content" in model_server.requests("generate")[1].prompt


@pytest.mark.parametrize(("score", "reason"), [(0.9, "accepted"), (0.3, "iteration_limit")])
def test_a_given_answer_is_judged_once_and_nothing_is_generated(
    spoken: Driver, model_server: ModelServer, score: float, reason: str
):
    model_server.script(evaluate=[score])
    job = spoken.run(spoken.submit_evaluation("GIVEN", reference="GOLD"))

    assert (job.kind, job.status, job.stop_reason) == ("evaluate_answer", "succeeded", reason)
    (asked,) = model_server.requests()
    assert "GIVEN" in asked.prompt
    assert "GOLD" in asked.prompt
    assert job.result is not None
    assert (job.result["final_answer"], job.result["final_score"]) == ("GIVEN", score)
    assert spoken.event_types(job.id) == ["job.queued", "job.started", "iteration.evaluated", "done"]
    words = {
        "accepted": "The answer of iteration 1 was accepted.",
        "iteration_limit": "The answer scored below the threshold.",
    }
    assert spoken.events(job.id)[-1].data["message"] == words[reason]


def test_usage_is_the_sum_of_the_ledger_and_costs_what_the_prices_say(
    make_driver: Callable[..., Driver], model_server: ModelServer
):
    prices = {name: ModelPrice(input=1.0, output=10.0, cached_input=0.5) for name in ("openai:writer", "openai:judge")}
    driver = make_driver(prices=prices)
    usage = {"input": 100, "output": 20, "cached": 40, "reasoning": 10}
    model_server.script(generate=[Reply(text="one", usage=usage)], evaluate=[Reply(score=0.9, usage=usage)])
    job = driver.run_new()

    assert (job.usage.calls, job.usage.input_tokens, job.usage.output_tokens) == (2, 200, 40)
    assert (job.usage.cached_input_tokens, job.usage.cache_write_tokens, job.usage.reasoning_tokens) == (80, 0, 20)
    assert job.usage.cost_usd == "0.00056"
    assert [call.cost_usd for call in driver.calls(job.id)] == ["0.00028", "0.00028"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_tokens_of_reasoning_and_of_writes_to_a_cache_are_in_the_ledger_and_the_sums(
    driver: Driver, model_server: ModelServer, dialect: str, *, stream: bool
):
    usage = {"input": 100, "output": 20, "cached": 40, "written": 30, "reasoning": 8}
    model_server.script(generate=[Reply(text="one", usage=usage)], evaluate=[Reply(score=0.9, usage=usage)])
    job = driver.run_new(model=f"{dialect}:writer", evaluator_model=f"{dialect}:judge", stream=stream)
    assert [(call.cache_write_tokens, call.reasoning_tokens) for call in driver.calls(job.id)] == [(30, 8), (30, 8)]
    iteration = driver.iterations(job.id)[0]
    for sums in (job.usage, iteration.usage):
        assert (sums.cache_write_tokens, sums.reasoning_tokens) == (60, 16)


def test_a_cost_is_unknown_as_soon_as_one_price_is(make_driver: Callable[..., Driver]):
    driver = make_driver(prices={"openai:writer": ModelPrice(input=1.0, output=10.0)})
    assert driver.run_new().usage.cost_usd is None


def test_no_key_is_in_the_ledger(driver: Driver):
    job = driver.run_new()
    assert "sk-test" not in repr(driver.ledger(job.id))
    assert "authorization" not in repr(driver.ledger(job.id)).lower()
