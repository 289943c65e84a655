"""The loop with sources: what no source supports is told to the next answer, and accepted by nobody."""

from typing import Any

import pytest

from redraft.domain.jobs.requests import ContinueJob
from redraft.operations.jobs import lifecycle
from tests.model_server import ModelServer
from tests.operations.driving import Driver

SOURCES = [
    {"content": "The Aare flows through Bern and around its old town.", "chunk_id": "c1"},
    {"content": "Bern has been the federal city of Switzerland since 1848."},
    {"content": "Basel lies on the Rhine."},
]
GOOD = "The Aare flows through Bern [Source 1]. It has been the federal city since 1848 [Source 2]."
OPEN = {"sources": SOURCES, "grounding": {"require_grounding": False}}


def claim(text: str, quote: str, source: int | None, label: str = "supported") -> dict[str, Any]:
    return {"claim": text, "source": source, "quote": quote, "label": label}


def check(*claims: dict[str, Any], grounded: bool = True) -> dict[str, Any]:
    return {"claims": list(claims), "ungrounded_claims": [], "grounded": grounded, "confidence": 0.7}


RIVER = claim("The Aare flows through Bern.", "The Aare flows through Bern", 1)
CITY = claim("It has been the federal city since 1848.", "the federal city of Switzerland since 1848", 2)
MADE_UP = claim("Basel is older than Bern.", "Basel was founded long before Bern", 3)


def test_a_claim_with_a_made_up_quote_is_unsupported_and_the_next_prompt_names_it(
    driver: Driver, model_server: ModelServer
):
    first = f"{GOOD} Basel is older than Bern [Source 3]."
    model_server.script(generate=[first, GOOD], evaluate=[check(RIVER, CITY, MADE_UP), check(RIVER, CITY)])
    job = driver.run_new(sources=SOURCES, profile="grounding", eval_crit=None, score_threshold=0.5)

    assert (job.stop_reason, job.progress.best_iteration) == ("accepted", 2)
    wrong, right = (each.evaluation for each in driver.iterations(job.id))
    assert wrong is not None
    assert right is not None
    assert wrong.grounding is not None
    assert [(each.supported, each.label) for each in wrong.grounding.claims] == [
        (True, "supported"),
        (True, "supported"),
        (False, "not_found"),
    ]
    assert (wrong.score, wrong.passed, right.score, right.confidence) == (pytest.approx(2 / 3), False, 1.0, 0.7)
    (problem,) = wrong.improvement_suggestions
    assert "Basel is older than Bern." in problem
    assert "Source 3 does not hold the quote" in problem
    second = model_server.requests("generate")[1].prompt
    assert problem in second
    assert "Cite a source that says so, or soften or delete the statement." in second
    assert [call.type for call in driver.calls(job.id)] == ["generate", "verify_claims"] * 2
    first_claim = wrong.grounding.claims[0]
    assert SOURCES[0]["content"][first_claim.start : first_claim.end] == "The Aare flows through Bern"
    assert job.result is not None
    assert (job.result["confidence"], job.result["sources_provided"], job.result["unsupported_claims"]) == (0.7, 3, [])


def test_a_mark_that_points_nowhere_is_not_accepted_whatever_the_score(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["Bern lies on the Aare [Source 12].", GOOD], evaluate=[1.0, 0.8])
    job = driver.run_new(sources=SOURCES)

    assert job.result is not None
    assert (job.stop_reason, job.result["best_iteration"], job.result["final_answer"]) == ("accepted", 2, GOOD)
    wrong = driver.iterations(job.id)[0]
    assert wrong.grounding is not None
    assert wrong.evaluation is not None
    assert [issue.message for issue in wrong.grounding.issues] == [
        "[Source 12] cites source 12, but the sources are 1 to 3."
    ]
    assert (wrong.evaluation.score, wrong.evaluation.passed, wrong.evaluation.requirements_met) == (1.0, False, False)
    assert "[Source 12] cites source 12" in model_server.requests("generate")[1].prompt
    told = [
        event.data["message"] for event in driver.events(job.id) if event.type in {"iteration.evaluated", "thinking"}
    ]
    assert told[0] == "Iteration 1 scored 1.00; its sources do not support it."
    assert told[1] == "The sources do not support the answer; the feedback goes into iteration 2."


@pytest.mark.parametrize("require_grounding", [True, False])
def test_a_marker_that_is_not_understood_is_mended_by_the_next_answer(
    driver: Driver, model_server: ModelServer, *, require_grounding: bool
):
    unread = GOOD.replace("Source 1", "Quelltext 1")
    model_server.script(generate=[unread, GOOD], evaluate=[0.7, 0.9])
    job = driver.run_new(sources=SOURCES, grounding={"require_grounding": require_grounding})
    assert (job.stop_reason, job.progress.best_iteration) == ("accepted", 2)
    wrong = driver.iterations(job.id)[0].grounding
    assert wrong is not None
    assert [(issue.code, issue.number) for issue in wrong.issues] == [("unread_mark", 1)]
    told = "[Quelltext 1] is not understood as a citation: write [Source 1] if it is one"
    assert told in model_server.requests("generate")[1].prompt


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("The Aare flows through Bern.", "The answer cites no source"),
        (f"{GOOD} The Rhine has 97 bridges [Source 3].", 'No source holds the number 97 in "The Rhine has 97 bridges'),
        (f"{GOOD} Fondue tastes best in winter.", 'No source is given for "Fondue tastes best in winter."'),
    ],
)
def test_what_no_source_supports_becomes_feedback(driver: Driver, model_server: ModelServer, answer: str, words: str):
    model_server.script(generate=[answer, GOOD], evaluate=[0.9])
    job = driver.run_new(sources=SOURCES)
    assert (job.stop_reason, job.progress.best_iteration) == ("accepted", 2)
    assert words in model_server.requests("generate")[1].prompt


def test_the_best_answer_is_a_grounded_one_even_with_the_lower_score(driver: Driver, model_server: ModelServer):
    model_server.script(
        generate=["No mark points here [Source 9].", GOOD, "Nor here [Source 8]."], evaluate=[0.7, 0.5, 0.7]
    )
    job = driver.run_new(sources=SOURCES, stop={"plateau_patience": 0})
    assert job.result is not None
    assert (job.stop_reason, job.result["best_iteration"], job.result["final_score"]) == ("iteration_limit", 2, 0.5)


def test_without_the_rule_it_is_only_told(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["Fondue tastes best in winter [Source 9]."], evaluate=[0.9])
    job = driver.run_new(**OPEN)
    assert job.stop_reason == "accepted"
    assert job.result is not None
    assert job.result["unsupported_claims"] == ["Fondue tastes best in winter [Source 9]."]
    (iteration,) = driver.iterations(job.id)
    assert iteration.evaluation is not None
    assert iteration.evaluation.improvement_suggestions == []


def test_unverified_statements_are_listed_beneath_the_final_answer_only(driver: Driver, model_server: ModelServer):
    answer = f"{GOOD} Fondue tastes best in winter."
    model_server.script(generate=[answer], evaluate=[0.9])
    job = driver.run_new(sources=SOURCES, grounding={"require_grounding": False, "annotate_unverified": True})
    assert job.result is not None
    assert job.result["final_answer"].startswith(answer)
    assert job.result["final_answer"].endswith(
        'Unverified: no source given supports these statements.\n\n- "Fondue tastes best in winter."'
    )
    assert driver.iterations(job.id)[0].answer == answer
    marks = {job.result["final_answer"][each["start_pos"] : each["end_pos"]] for each in job.result["citations"]}
    assert marks == {"[Source 1]", "[Source 2]"}


def test_without_sources_the_answer_asks_for_them(driver: Driver, model_server: ModelServer):
    model_server.script(
        generate=["Since 1191 [Source 1].", "No sources were given. Please send me some on Bern."], evaluate=[0.9]
    )
    job = driver.run_new(grounding={"mode": "grounded"})
    assert (job.stop_reason, job.progress.best_iteration) == ("accepted", 2)
    assert [warning.code for warning in job.warnings] == ["no_context"]
    writer, judge = model_server.requests("generate")[0].prompt, model_server.requests("evaluate")[0].prompt
    assert "No sources were given, and you must not answer from memory." in writer
    assert "The answer should be based on sources, but no sources were given." in judge
    assert "there are no sources" in model_server.requests("generate")[1].prompt


def test_a_json_answer_is_read_in_its_prose(driver: Driver, model_server: ModelServer):
    wrong = '{"answer": "The Aare flows through Bern.", "sources": [9]}'
    right = '{"answer": "The Aare flows through Bern.", "sources": [1]}'
    model_server.script(generate=[wrong, right], evaluate=[0.9])
    job = driver.run_new(sources=SOURCES, grounding={"output_format": "json"})
    assert job.result is not None
    assert (job.stop_reason, job.result["parsed"]["sources"], job.result["sources_used"]) == ("accepted", [1], [0])
    assert [call.type for call in driver.calls(job.id)] == ["generate", "repair", "evaluate"]
    (citation,) = job.result["citations"]
    assert job.result["cited_text"][citation["start_pos"] : citation["end_pos"]] == "[Source 1]"


def test_named_structures_are_answers_of_their_own_schema(driver: Driver, model_server: ModelServer):
    answer = (
        '{"answer": "Bern lies on the Aare [Source 1].", "confidence": 0.4, "sources_used": [1],'
        ' "key_facts": ["The Aare flows through Bern [Source 1]."], "limitations": []}'
    )
    model_server.script(generate=[answer], evaluate=[0.9])
    job = driver.run_new(sources=SOURCES, answer_schema="answer_with_sources")
    assert job.result is not None
    assert (job.stop_reason, job.result["confidence"], job.result["sources_used"]) == ("accepted", 0.4, [0])
    assert job.request["answer_schema"] == "answer_with_sources"


def test_other_sources_are_judged_anew(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["Basel lies on the Rhine [Source 2]."], evaluate=[0.9])
    job = driver.run_new(sources=SOURCES[:1], iter_max=1)
    assert job.stop_reason == "iteration_limit"
    change = ContinueJob.model_validate({"sources": SOURCES[1:], "iter_max": 1})
    lifecycle.continue_job(driver.services, job.id, change)
    again = driver.run(job.id)
    assert again.stop_reason == "accepted"
    assert again.result is not None
    assert again.result["best_iteration"] == 2


def test_a_verdict_on_other_sources_is_not_reused(driver: Driver, model_server: ModelServer):
    answer = "The Aare flows through Bern [Source 1]."
    model_server.script(generate=[answer], evaluate=[0.7, 0.2])
    job = driver.run_new(sources=SOURCES[:1], iter_max=1)
    other = [{"content": "Never through Bern flows the Aare."}]
    change = ContinueJob.model_validate({"sources": other, "score_threshold": 0.5, "iter_max": 1})
    lifecycle.continue_job(driver.services, job.id, change)
    again = driver.run(job.id)
    verdict = driver.iterations(job.id)[1].evaluation
    assert verdict is not None
    assert (verdict.reused_from, verdict.score) == (None, 0.2)
    assert again.stop_reason != "accepted"
    assert again.result is not None
    # The better score was for other sources
    assert again.result["best_iteration"] == 2


def test_a_judge_that_leaves_claims_out_has_not_vouched_for_them(driver: Driver, model_server: ModelServer):
    lazy = "The Aare flows through Bern. Basel was founded by aliens. Everyone there is rich."
    model_server.script(generate=[lazy, GOOD], evaluate=[check(RIVER), check(RIVER, CITY)])
    job = driver.run_new(sources=SOURCES, profile="grounding", eval_crit=None, score_threshold=0.5)
    assert (job.stop_reason, job.progress.best_iteration) == ("accepted", 2)
    assert 'No part of "Basel was founded by aliens."' in model_server.requests("generate")[1].prompt


def test_a_panel_must_agree_on_the_claims(driver: Driver, model_server: ModelServer):
    no = check({**CITY, "label": "not_found"}, RIVER)
    model_server.script(generate=[GOOD], evaluate=[check(RIVER, CITY), no])
    panel = {"panel": ["openai:a", "openai:b"]}
    job = driver.run_new(
        sources=SOURCES, profile="grounding", eval_crit=None, score_threshold=0.5, evaluation=panel, iter_max=1
    )
    assert job.stop_reason == "iteration_limit"
    assert job.result is not None
    assert job.result["unsupported_claims"] == ["It has been the federal city since 1848."]


def test_numbers_of_a_title_stand_in_the_source(driver: Driver, model_server: ModelServer):
    source = {"content": "Revenue rose to 5 million.", "title": "Annual report 2023", "metadata": {"page": 12}}
    model_server.script(generate=["In 2023 revenue rose to 5 million (page 12) [Source 1]."], evaluate=[0.9])
    assert driver.run_new(sources=[source], iter_max=1).stop_reason == "accepted"


def test_a_schema_of_ones_own_is_warned_of(driver: Driver, model_server: ModelServer):
    model_server.script(generate=['{"text": "Basel has 97 bridges."}'], evaluate=[0.9])
    job = driver.run_new(sources=SOURCES, answer_schema={"type": "object"})
    assert "grounding_not_read" in [warning.code for warning in job.warnings]


def test_what_an_iteration_took_is_told(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[GOOD], evaluate=[0.9])
    job = driver.run_new(sources=SOURCES)
    (iteration,) = driver.iterations(job.id)
    assert iteration.usage.calls == 2
    assert iteration.usage.input_tokens == job.usage.input_tokens > 0
    assert job.usage.output_tokens == iteration.usage.output_tokens > 0
    assert job.usage.latency_ms is not None
    assert iteration.usage.latency_ms >= 0
