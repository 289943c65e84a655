"""The rows of a test and its figures: each fault is found by its probe, and a fair evaluator passes all."""

from collections.abc import Callable, Mapping
from typing import Any

from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.probes.probe_answers import PROBES, probe_rows
from redraft.domain.probes.probe_tasks import TASKS
from redraft.domain.probes.report import ProbeResult, report_probes

PANEL = ("openai:a", "openai:b")
Judge = Callable[[Mapping[str, Any]], float | None]


def is_right(row: Mapping[str, Any]) -> bool:
    form = row["custom_id"].partition(".")[2]
    return form.startswith("right") or form == "reworded"


def fair(row: Mapping[str, Any]) -> float:
    return 1.0 if is_right(row) else 0.0


def judge_all(judge: Judge, **options: Any) -> dict[str, ProbeResult]:
    rows = probe_rows(panel=PANEL, **options)
    return {each.name: each for each in report_probes([outcome(row["custom_id"], judge(row)) for row in rows])}


def outcome(name: str, score: float | None) -> ItemOutcome:
    if score is None:
        return ItemOutcome(name, status="failed")
    return ItemOutcome(name, status="succeeded", success=score >= 0.8, final_score=score)


def results(found: Mapping[str, ProbeResult]) -> dict[str, str]:
    return {name: each.result for name, each in found.items()}


def test_each_row_has_an_id_of_its_own_and_each_pair_has_its_rows():
    ids = [row["custom_id"] for row in probe_rows(panel=PANEL)]
    assert len(set(ids)) == len(ids)
    wanted = {f"{task.name}.{form}" for task in TASKS for probe in PROBES for pair in probe.pairs for form in pair}
    assert wanted == set(ids)


def test_a_fair_evaluator_passes_every_probe():
    found = judge_all(fair)
    assert set(results(found).values()) == {"passed"}
    assert len(found) == len(PROBES)
    assert {each.flips + each.missing for each in found.values()} == {0}


def test_one_model_is_tested_without_the_order_of_a_panel():
    rows = probe_rows(tasks=2)
    assert len(rows) == 2 * 20
    assert not any("evaluation" in row for row in rows)
    assert "panel_order" not in [each.name for each in report_probes([outcome(r["custom_id"], fair(r)) for r in rows])]


def test_an_evaluator_that_obeys_planted_verdicts_fails_this_probe_alone():
    found = judge_all(lambda row: 1.0 if "planted" in row["custom_id"] else fair(row))
    assert {name for name, result in results(found).items() if result == "failed"} == {"planted_verdict"}
    planted = found["planted_verdict"]
    assert (planted.flips, planted.pairs, planted.score_change) == (24, 24, 1.0)
    assert planted.wrong_rows[0] == "tides.planted-1"
    assert planted.rate
    assert planted.rate.low > 0.5


def test_an_evaluator_that_prefers_long_answers_is_found():
    found = judge_all(lambda row: 1.0 if len(row["answer"]) > 250 else 0.0)
    assert found["verbosity"].result == "failed"


def test_an_evaluator_that_passes_or_fails_everything_is_found_by_what_must_change():
    for score in (0.0, 1.0):
        found = judge_all(lambda _, score=score: score)
        failed = {name for name, result in results(found).items() if result == "failed"}
        assert failed == {"flaw_position", "confident_nonsense"}


def test_a_score_that_moves_within_the_same_verdict_is_a_flip():
    found = judge_all(lambda row: 0.3 if "again" in row["custom_id"] and not is_right(row) else fair(row))
    assert (found["drift"].flips, found["drift"].result) == (16, "failed")


def test_evaluations_that_failed_are_counted_and_never_a_success():
    found = judge_all(lambda row: None if "long" in row["custom_id"] else fair(row))
    verbosity = found["verbosity"]
    assert (verbosity.result, verbosity.missing, verbosity.rate) == ("no verdicts", 16, None)


def test_few_flips_are_unclear():
    found = judge_all(lambda row: 0.0 if row["custom_id"] == "tides.reworded" else fair(row))
    assert results(found)["wording"] == "unclear"


def test_a_profile_without_rubrics_gets_the_criteria_as_text():
    row = probe_rows(tasks=1, with_rubric=False)[0]
    assert "rubric" not in row
    assert row["eval_crit"].startswith("- Names the gravity of the Moon")
