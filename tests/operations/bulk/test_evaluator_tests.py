"""The tests of evaluators: the latest by evaluator and profile version, and warnings about what failed."""

import json

import pytest

from redraft.domain.probes.probe_answers import defaults_of_test, probe_rows
from redraft.operations.bulk import evaluator_tests
from redraft.operations.bulk.report_tables import run_tables
from redraft.operations.bulk.run_resources import Run
from redraft.reports.text import render_text
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import rows, start, work_off
from tests.operations.driving import Driver

JUDGE = ("openai:judge", "criteria")


def run_test(driver: Driver, *evaluators: str, probes: int | None = None) -> Run:
    data = b"".join(json.dumps(row).encode() + b"\n" for row in probe_rows(tasks=2, panel=evaluators)[:probes])
    return work_off(driver, start(driver, data, defaults=defaults_of_test(evaluators, "criteria")))


@pytest.mark.both_databases
def test_the_latest_test_counts_and_its_failures_are_told(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.0])
    assert evaluator_tests.warnings_about(driver.services, [JUDGE]) == []
    older = run_test(driver, "openai:judge", probes=2)
    version = driver.services.profiles.get("criteria").version
    model_server.script(generate=["a"], evaluate=[0.9])
    newer, other = run_test(driver, "openai:judge"), run_test(driver, "openai:a", "openai:b", probes=2)
    found = evaluator_tests.list_tests(driver.services)
    assert [(each.run_id, each.evaluator, each.profile, each.profile_version) for each in found] == [
        (other.id, "openai:a + openai:b", "criteria", version),
        (newer.id, "openai:judge", "criteria", version),
    ]
    assert older.id not in {each.run_id for each in found}
    assert [each.name for each in found[1].failed] == ["flaw_position", "confident_nonsense"]
    words = (
        "openai:judge failed probes of evaluators, so its verdicts may be wrong: a false sentence at the start, in the"
        " middle or at the end (6 of 6 pairs); confident nonsense (2 of 2 pairs)."
    )
    assert evaluator_tests.warnings_about(driver.services, [JUDGE, JUDGE, ("openai:else", "criteria")]) == [words]
    report = run_tables(driver.services, work_off(driver, start(driver, rows(1))).id)
    assert report.facts.evaluator_warnings == (words,)
    assert words[:60] in " ".join(render_text(report).split())
