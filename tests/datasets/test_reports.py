"""What a check tells of a dataset before a run."""

from decimal import Decimal

import pytest

from redraft.datasets.items import ItemRequest, Merger
from redraft.datasets.reports import Cost, Report, UnusedColumn, check, no_good_rows
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.errors import Invalid
from tests.datasets.reading import reader_of

CONTENT = """id;question;answer;Instrukt;expected
1;a;;x;
2;b;c;;r
2;d;e;;
;;f;;
3;too;few
"""


def calls_of(request: ItemRequest) -> int:
    return 2 * request.iter_max if isinstance(request, GenerateAnswer) else 1


def report_of(content: str, name: str = "", **options: object) -> Report:
    return check(
        reader_of(content, name, **options),
        Merger({"eval_crit": "c", "iter_max": 2}),
        calls_of=calls_of,
        cost_of=lambda request: Cost(None, ("a:b",)) if request.instruct == "free?" else Cost(Decimal("0.25")),
    )


def test_a_table_is_told_whole():
    report = report_of(CONTENT)
    assert (report.format, report.delimiter) == ("csv", ";")
    assert (report.rows, report.good, report.bad, report.duplicates) == (5, 2, 3, 1)
    assert report.kinds == {"evaluate_answer": 2}
    assert report.mapping == {"custom_id": "id", "instruct": "question", "answer": "answer", "reference": "expected"}
    assert report.unused == [UnusedColumn("Instrukt", 4, "instruct")]
    assert report.blank == {"custom_id": 1, "instruct": 1, "answer": 1, "reference": 3}
    assert [(bad.line, bad.errors[0].code) for bad in report.errors] == [
        (4, "duplicate_custom_id"),
        (5, "missing"),
        (6, "invalid_row"),
    ]
    assert (report.calls_max, report.cost_max_usd) == (2, Decimal("0.50"))


def test_samples_are_normal_requests():
    report = report_of("".join(f'{{"question": "q{number}"}}\n' for number in range(5)))
    assert [(sample["line"], sample["instruct"]) for sample in report.samples] == [(1, "q0"), (2, "q1"), (3, "q2")]
    assert report.samples[0]["kind"] == "generate_answer"
    assert report.samples[0]["iter_max"] == 2
    assert report.samples[0]["custom_id"].startswith("row_")
    assert (report.calls_max, report.kinds) == (20, {"generate_answer": 5})


def test_one_unknown_price_makes_the_cost_unknown():
    report = report_of('{"question": "a"}\n{"question": "free?"}\n{"question": "b"}')
    assert (report.cost_max_usd, report.unpriced_models) == (None, ["a:b"])


def test_a_mapped_column_that_no_row_has_is_told():
    assert report_of('{"question": "a"}', mapping={"reference": "gold"}).never_seen == ["gold"]


def test_braces_without_vars_are_told():
    assert report_of('{"question": "{{ a }}"}\n{"question": "{{ a }}", "vars.a": "b"}').literal == 1


def test_so_many_errors_are_shown():
    report = report_of("{\n" * 30)
    assert (len(report.errors), report.bad) == (20, 30)


def test_a_dataset_without_a_good_row_is_refused():
    report = report_of("[1]\n{}", file_format="jsonl")
    with pytest.raises(Invalid, match=r"No row can be used. Line 1: The row is no JSON object") as caught:
        raise no_good_rows(report.errors)
    assert [error.detail[:7] for error in caught.value.errors] == ["Line 1:", "Line 2:"]


def test_a_dataset_without_any_row_is_refused():
    with pytest.raises(Invalid, match="holds no rows"):
        report_of("", "a.jsonl")
