"""Datasets, runs and ratings through the client."""

from pathlib import Path

import pytest
from redraft_client import ApiError, Redraft

from tests.journeys.desks import TASK
from tests.journeys.offices import Office

ROWS = [{**TASK, "custom_id": "a"}, {**TASK, "custom_id": "b"}]


def test_two_runs_of_a_dataset_are_awaited_reported_and_compared(redraft: Redraft, office: Office):
    office.model_server.script(evaluate=[0.9])
    dataset = redraft.datasets.upload(ROWS, name="cities.jsonl")
    baseline = redraft.runs.start(dataset_id=dataset.id, name="baseline")
    assert [each.type for each in redraft.runs.events(baseline.id)][-1] == "done"
    office.model_server.script(evaluate=[0.2])
    run = redraft.runs.start(dataset_id=dataset.id, defaults={"iter_max": 1})
    run = redraft.runs.wait(run.id)
    assert (run.status, run.counts.total, run.counts.accepted) == ("succeeded", 2, 0)
    assert redraft.runs.report(run.id).counts.total == 2
    assert "Pass rate" in redraft.runs.report_as(baseline.id, "markdown")
    comparison = redraft.runs.compare(run.id, baseline.id)
    assert (comparison.n, comparison.losses, comparison.newly_failing) == (2, 2, ["a", "b"])
    assert "baseline" in redraft.runs.compare_as(run.id, baseline.id, "text")
    assert [line.count('"custom_id"') for line in redraft.runs.results(run.id).splitlines()] == [1, 1]
    assert {each.id for each in redraft.runs.list().data} >= {run.id, baseline.id}
    assert redraft.runs.cancel(run.id).status == "succeeded"


def test_verdicts_are_rated(redraft: Redraft, office: Office):
    office.model_server.script(evaluate=[0.9])
    job = redraft.generate_answer(**TASK).job
    rating = redraft.ratings.rate(job.id, 1, verdict="disagree", note="Too short.")
    assert [each.id for each in redraft.ratings.list(job.id).data] == [rating.id]
    assert redraft.ratings.calibration().data[0].n == 1


def test_a_dataset_comes_from_a_file_from_bytes_or_from_rows(redraft: Redraft, tmp_path: Path):
    file = tmp_path / "cities.csv"
    file.write_text("custom_id,question,eval_crit\nx,Which city?,Names it.\n")
    dataset = redraft.datasets.upload(file, map={"instruct": "question"})
    assert (dataset.name, dataset.rows, dataset.bad_rows, dataset.format) == ("cities.csv", 1, 0, "csv")
    # Equal rows are the same dataset
    rows = [{"custom_id": "x", "question": "Which city?", "eval_crit": "Names it."}]
    assert redraft.datasets.check(rows, map={"instruct": "question"}).errors == []
    with file.open("rb") as opened:
        assert redraft.datasets.upload(opened, map={"instruct": "question"}).id == dataset.id
    content = file.read_bytes()
    assert redraft.datasets.upload(content, name="again.csv", map={"instruct": "question"}).id == dataset.id
    assert dataset.id in [each.id for each in redraft.datasets.list().data]
    assert [each.custom_id for each in redraft.datasets.items(dataset.id).data] == ["x"]
    redraft.datasets.delete(dataset.id)
    with pytest.raises(ApiError, match="not_found"):
        redraft.datasets.get(dataset.id)
