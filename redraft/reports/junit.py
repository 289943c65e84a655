"""Renders a run as JUnit XML for CI servers, with a test case for each item and each gate.

The file is valid under both schemas in use: the schema of Ant (windyroad) and the schema of Jenkins.
"""

from collections.abc import Iterable
from datetime import UTC
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from redraft.domain.bulk.gates import GateResult
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.text.control_characters import one_line
from redraft.reports.example_sections import item_name, stop_words
from redraft.reports.model import GATE_NAMES
from redraft.reports.tables import RunFacts, RunTables
from redraft.reports.wording import score

_NOT_RUN = {"queued": "Not started yet.", "running": "Not finished yet.", "canceled": "Canceled."}


def render_junit(tables: RunTables) -> str:
    root = Element("testsuites")
    _suite(root, tables.facts, tables.facts.name, (_case(item, tables.facts) for item in tables.items))
    if tables.gates:
        _suite(root, tables.facts, f"{tables.facts.name}: gates", (_gate(gate) for gate in tables.gates))
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _suite(root: Element, facts: RunFacts, name: str, cases: Iterable[Element]) -> None:
    number = len(root)
    suite = SubElement(root, "testsuite")
    properties = SubElement(suite, "properties")
    for fact, value in [
        ("run", facts.id),
        ("status", facts.status),
        ("dataset", facts.dataset_name),
        ("dataset_version", facts.dataset_version or ""),
        ("models", ", ".join(facts.models)),
        ("evaluator_models", ", ".join(facts.evaluator_models)),
        ("score_threshold", "" if facts.score_threshold is None else f"{facts.score_threshold:g}"),
    ]:
        SubElement(properties, "property", name=fact, value=one_line(value))
    suite.extend(cases)
    found = suite.findall("testcase")
    for case in found:
        case.set("classname", one_line(name))
    # The schema of Ant requires each of these attributes, and a timestamp without a time zone
    suite.attrib |= {
        "id": str(number),
        "package": "redraft",
        "name": one_line(name),
        "hostname": "redraft",
        "timestamp": f"{facts.created_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}",
        "tests": str(len(found)),
        "failures": str(len(suite.findall("testcase/failure"))),
        "errors": str(len(suite.findall("testcase/error"))),
        "skipped": str(len(suite.findall("testcase/skipped"))),
        "time": f"{sum(float(case.get('time', 0)) for case in found):.3f}",
    }
    # The schema of Ant requires this element and the next one, even if they are empty
    SubElement(suite, "system-out")
    SubElement(suite, "system-err")


def _case(item: ItemOutcome, facts: RunFacts) -> Element:
    case = Element("testcase", name=one_line(item_name(item)), time=f"{item.seconds or 0:.3f}")
    if item.status in _NOT_RUN:
        SubElement(case, "skipped", message=_NOT_RUN[item.status])
    elif item.is_deleted:
        SubElement(case, "skipped", message="Its job was deleted.")
    # In JUnit, an error is a test that could not run, and a failure is a test with a bad result
    elif item.status != "succeeded":
        _add_result(case, "error", item.error_code or item.status, item.error_words or f"The item is {item.status}.")
    elif item.success is None:
        SubElement(case, "skipped", message="No verdict was requested.")
    elif not item.has_verdict:
        _add_result(
            case, "error", item.error_code or "no_verdict", item.error_words or "The evaluator gave no usable verdict."
        )
    elif not item.is_accepted:
        _add_result(case, "failure", item.stop_reason or "not_accepted", _why_not(item, facts.score_threshold))
    return case


def _add_result(case: Element, tag: str, kind: str, words: str) -> None:
    # XML cannot contain most control characters, so `one_line` replaces them by readable escapes
    SubElement(case, tag, type=one_line(kind), message=one_line(words)).text = one_line(words)


def _why_not(item: ItemOutcome, threshold: float | None) -> str:
    words = f"Not accepted: score {score(item.final_score)}"
    words += "" if threshold is None else f", threshold {threshold:g}"
    words += f"; {stop_words(item)}" if item.stop_reason else ""
    if len(item.scores_by_iteration) > 1:
        words += f"; by iteration: {', '.join(map(score, item.scores_by_iteration))}"
    return f"{words}." + (f" {item.error_words}" if item.error_words else "")


def _gate(gate: GateResult) -> Element:
    case = Element("testcase", name=GATE_NAMES[gate.gate], time="0.000")
    if not gate.passed:
        _add_result(case, "failure", gate.gate, gate.words)
    return case
