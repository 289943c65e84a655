"""The dataset that comes with the project, and the one that benchmarks make."""

from collections import Counter
from pathlib import Path

from benchmarks.datasets import write
from redraft.datasets.items import Item, Merger
from redraft.datasets.reports import Cost, check
from redraft.datasets.rows import RowReader
from redraft.domain.checks.any_check import run_check
from redraft.domain.jobs.requests import EvaluateAnswer
from tests.datasets.reading import good

EXAMPLE = Path(__file__).parents[2] / "examples" / "questions.jsonl"


def example_items() -> list[Item]:
    with EXAMPLE.open("rb") as file:
        return good(list(Merger().items(RowReader(file, EXAMPLE.name))))


def test_the_example_holds_50_good_rows_and_uses_all_columns():
    with EXAMPLE.open("rb") as file:
        report = check(RowReader(file, EXAMPLE.name), Merger(), calls_of=lambda _: 1, cost_of=lambda _: Cost(None))
    assert (report.rows, report.good, report.unused) == (50, 50, [])
    assert report.kinds == Counter(generate_answer=38, evaluate_answer=12)


def test_references_pass_the_example_s_own_checks():
    for item in example_items():
        for criterion in item.request.rubric or []:
            assert item.request.reference is not None
            assert criterion.check is not None
            assert run_check(criterion.check, item.request.reference).passed, item.custom_id


def test_people_say_of_answers_what_the_checks_can_be_compared_with():
    given = [item for item in example_items() if isinstance(item.request, EvaluateAnswer)]
    assert all(item.human_score is not None and item.human_pass is not None for item in given)
    assert {item.human_pass for item in given} == {True, False}


def test_generated_datasets_are_the_same_in_each_format(tmp_path: Path):
    versions = set[str]()
    for suffix in ("jsonl", "json", "csv"):
        path = tmp_path / f"rows.{suffix}"
        write(path, 30)
        with path.open("rb") as file:
            reader = RowReader(file, path.name)
            assert len(good(list(Merger().items(reader)))) == 30
        versions.add(reader.digest)
    assert len(versions) == 1
