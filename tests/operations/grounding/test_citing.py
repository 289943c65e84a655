"""Jobs with sources: what an answer cites is found, kept with its iteration, and told with the result."""

import pytest

from tests.model_server import ModelServer
from tests.operations.driving import Driver

SOURCES = [
    {"content": "The Aare flows through Bern and around its old town.", "chunk_id": "c1", "document_id": "d1"},
    {"content": "Bern has been the federal city of Switzerland since 1848."},
    {"content": "Basel lies on the Rhine."},
]


def test_what_is_cited_is_kept_with_the_iteration_and_told_with_the_result(driver: Driver, model_server: ModelServer):
    first = "Bern was founded by bears [Source 9]."
    second = "The Aare flows through Bern [Source 1]. It has been the federal city since 1848 [Source 2]."
    model_server.script(generate=[first, second], evaluate=[0.4, 0.9])
    job = driver.run_new(sources=SOURCES)

    assert job.result is not None
    assert job.result["sources_used"] == [0, 1]
    assert job.result["grounding_score"] == 1.0
    marks = [(each["source_number"], second[each["start_pos"] : each["end_pos"]]) for each in job.result["citations"]]
    assert marks == [(1, "[Source 1]"), (2, "[Source 2]")]
    assert [each["chunk_id"] for each in job.result["citations"]] == ["c1", None]

    wrong, right = (each.grounding for each in driver.iterations(job.id))
    assert wrong is not None
    assert right is not None
    assert [(issue.code, issue.number) for issue in wrong.issues] == [("out_of_range", 9)]
    assert wrong.grounding_score is not None
    assert wrong.grounding_score < 1
    told = [event.data["citations"] for event in driver.events(job.id) if event.type == "iteration.generated"]
    assert [len(each) for each in told] == [0, 2]
    prompt = model_server.requests("generate")[0].prompt
    assert "[Source 1]" in prompt
    assert prompt.index("flows through Bern") < prompt.index("since 1848") < prompt.index("Rhine")


@pytest.mark.parametrize("fields", [{}, {"sources": SOURCES, "answer_schema": {"type": "object"}}])
def test_without_sources_or_in_a_structured_answer_no_mark_is_looked_for(
    driver: Driver, model_server: ModelServer, fields: dict[str, object]
):
    model_server.script(generate=['{"a": "[Source 1]"}'])
    job = driver.run_new(**fields)
    assert job.result is not None
    assert (job.result["citations"], job.result["sources_used"], job.result["grounding_score"]) == ([], [], None)
    assert driver.iterations(job.id)[0].grounding is None


def test_a_given_answer_is_looked_at_too(driver: Driver):
    job = driver.run(driver.submit_evaluation("The Aare flows through Bern [1].", sources=SOURCES))
    assert job.result is not None
    assert [each["source_index"] for each in job.result["citations"]] == [0]


@pytest.mark.parametrize("mark", ["(Source 1)", "[Bilag 1]", "[1](https://e.test)"])
def test_a_right_answer_with_marks_of_another_spelling_is_told_the_wanted_one(
    driver: Driver, model_server: ModelServer, mark: str
):
    said = "Bern is the seat of the Swiss government"
    model_server.script(generate=[f"{said} {mark}.", f"{said} [Source 1]."], evaluate=[1.0])
    job = driver.run_new(sources=[{"content": f"{said} since 1848."}], iter_max=2)
    assert (job.stop_reason, len(driver.iterations(job.id))) == ("accepted", 2)
    assert "[Source 1]" in model_server.requests("generate")[1].body["messages"][-1]["content"]
