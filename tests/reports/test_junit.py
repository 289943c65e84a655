"""JUnit XML, beside what the schemas of Ant and Jenkins ask for."""

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

from hypothesis import given, settings

from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.reports.junit import render_junit
from redraft.reports.tables import RunTables
from tests.domain.bulk.outcomes import failed, looped
from tests.reports.sheets import HOSTILE, HOSTILE_RUNS, run_tables

_SUITE = {"id", "package", "name", "hostname", "timestamp", "tests", "failures", "errors", "skipped", "time"}


def _check(root: ET.Element) -> None:
    assert (root.tag, root.attrib) == ("testsuites", {})
    for suite in root:
        assert suite.tag == "testsuite"
        assert set(suite.attrib) == _SUITE
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
        order = [child.tag for child in suite]
        assert order == ["properties", *["testcase"] * int(suite.attrib["tests"]), "system-out", "system-err"]
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[kind]) == len(suite.findall(f"testcase/{tag}"))
        for case in suite.findall("testcase"):
            _check_case(case)


def _check_case(case: ET.Element) -> None:
    assert set(case.attrib) == {"name", "classname", "time"}
    assert len(case) <= 1
    for child in case:
        assert child.tag in ("failure", "error", "skipped")
        assert set(child.attrib) == ({"message"} if child.tag == "skipped" else {"type", "message"})


def _read(tables: RunTables) -> ET.Element:
    return ET.fromstring(render_junit(tables).encode())


def _outcome(item: ItemOutcome) -> tuple[str, str, str]:
    """What became of an item's test case: its tag, type and message."""
    case = _read(run_tables([item])).find("testsuite/testcase")
    assert case is not None
    for child in case:
        return child.tag, child.get("type", ""), child.get("message", "")
    return "passed", "", ""


@settings(max_examples=25)
@given(HOSTILE_RUNS)
def test_whatever_a_run_holds_the_file_is_valid(items):
    root = _read(run_tables(items))
    _check(root)
    assert len(root.findall("testsuite[1]/testcase")) == len(items)


def test_each_item_is_a_test_case():
    assert _outcome(looped("a", 0.9)) == ("passed", "", "")
    assert _outcome(looped("a", 0.5, 0.6)) == (
        "failure",
        "iteration_limit",
        "Not accepted: score 0.60, threshold 0.8; iteration limit; by iteration: 0.50, 0.60.",
    )
    assert _outcome(failed("a", "refused", error_words="No.")) == ("error", "refused", "No.")
    assert _outcome(failed("a", None)) == ("error", "failed", "The item is failed.")
    invalid = ItemOutcome("a", status="invalid", error_code="invalid_row", error_words="Line 9.")
    assert _outcome(invalid) == ("error", "invalid_row", "Line 9.")
    assert _outcome(ItemOutcome("a")) == ("skipped", "", "Not started yet.")
    assert _outcome(ItemOutcome("a", status="running")) == ("skipped", "", "Not finished yet.")
    assert _outcome(ItemOutcome("a", status="canceled")) == ("skipped", "", "Canceled.")


def test_a_missing_verdict_is_no_failure():
    skipped = looped("a", None, success=None, stop_reason="evaluation_skipped")
    assert _outcome(skipped) == ("skipped", "", "No verdict was requested.")
    unusable = looped("a", None, stop_reason="evaluator_error")
    assert _outcome(unusable) == ("error", "no_verdict", "The evaluator gave no usable verdict.")


def test_an_answer_that_ended_early_says_why():
    item = looped("a", 0.5, stop_reason="error", error_words="The provider is away.")
    assert _outcome(item)[2] == ("Not accepted: score 0.50, threshold 0.8; a step failed. The provider is away.")


def test_repeats_have_names_of_their_own_and_gates_are_a_suite():
    tables = run_tables([looped("a", 0.9), looped("a", 0.9, repeat=2), looped("b", 0.1)])
    root = _read(tables)
    assert [case.get("name") for case in root.findall("testsuite[1]/testcase")] == ["a", "a (repeat 2)", "b"]
    gate = root.find("testsuite[2]/testcase")
    assert gate is not None
    assert (gate.get("name"), gate[0].get("type")) == ("Pass rate", "min_pass_rate")
    assert len(_read(replace(tables, gates=()))) == 1


def test_characters_that_xml_forbids_are_made_visible():
    case = _read(run_tables([failed(HOSTILE, error_words=HOSTILE)])).find("testsuite/testcase")
    assert case is not None
    assert case.get("name", "").endswith("\\x1b[31m\\u202egpj.exe\\x00\\ud800")
    assert "<script>" in case.get("name", "")
