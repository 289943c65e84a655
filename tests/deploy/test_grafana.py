"""`deploy/grafana`: each expression uses metrics and labels that `/metrics` exports."""

import ast
import inspect
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from redraft.operations.admin import metrics
from redraft.operations.services import Services
from tests.deploy.manifests import DEPLOY
from tests.operations.driving import Driver
from tests.rules.sources import ROOT

DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text("utf-8"))
RULES = [rule for group in yaml.safe_load((DEPLOY / "grafana" / "alerts.yaml").read_text("utf-8"))["groups"]
         for rule in group["rules"]]  # fmt: skip
_METRIC = re.compile(r"\bredraft_(\w+)(?:\{([^}]*)\})?")
_GROUPS = re.compile(r"\bby \(([^)]*)\)")
# Labels of the scrape, not of Redraft
_OF_PROMETHEUS = {"job"}


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for rule in RULES:
        yield rule["alert"], rule["expr"]


def written_labels() -> dict[str, set[str]]:
    """The labels of each metric, as the code names them."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for node in ast.walk(ast.parse(inspect.getsource(metrics))):
        match node:
            case ast.Call(func=ast.Attribute(attr="add"), args=[ast.Constant(value=str() as name), *_]):
                found[name] |= {str(each.arg) for each in node.keywords}
            case _:
                pass
    return dict(found)


def exported(services: Services) -> dict[str, set[str]]:
    """The labels of each metric in an exposition."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in metrics.collect(services).exposition().splitlines():
        if not line.startswith("#"):
            name, labels = re.findall(r"redraft_(\w+)(?:\{(.*)\})? ", line)[0]
            found[name] |= set(re.findall(r'(\w+)="', labels))
    return dict(found)


def test_the_labels_in_the_code_are_those_of_the_exposition(services: Services):
    Driver(services).run_new(iter_max=1)
    found = exported(services)
    assert {name: written_labels()[name] for name in found} == found
    assert metrics.FAMILIES.keys() - found.keys() == {"calls_open"}


@pytest.mark.parametrize(("title", "expression"), list(expressions()))
def test_expressions_use_metrics_and_labels_that_exist(title: str, expression: str):
    known = written_labels()
    used = _METRIC.findall(expression)
    assert used or "up{" in expression, title
    own: set[str] = set()
    for name, matchers in used:
        assert name in metrics.FAMILIES, title
        own |= known[name]
        assert set(re.findall(r"(\w+)\s*(?:=|!=)", matchers)) <= known[name] | _OF_PROMETHEUS, title
    for labels in _GROUPS.findall(expression):
        assert {each.strip() for each in labels.split(",")} <= own, title
    assert expression.count("(") == expression.count(")")


def test_values_of_labels_exist():
    words = " ".join(expression for _, expression in expressions())
    assert set(re.findall(r'outcome="(\w+)"', words)) <= set(metrics._OUTCOMES.values())
    assert set(re.findall(r'state="(\w+)"', words)) <= set(metrics._STATES)
    assert set(re.findall(r'stop_reason="(\w+)"', words)) == {"accepted"}
    assert set(re.findall(r'[{,]status="(\w+)"', words)) == {"failed"}


def test_legends_name_labels_that_are_grouped_by():
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            outer = _GROUPS.findall(target["expr"])
            assert named <= ({each.strip() for each in outer[0].split(",")} if outer else set()), panel["title"]


def test_panels_are_whole_and_do_not_overlap():
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells, panel["title"]
        assert max(x for x, _ in own) < 24
        cells |= own
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["datasource", "job"]


def anchors(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_each_alert_has_a_severity_a_summary_and_a_page_that_exists():
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        page, _, anchor = rule["annotations"].get("runbook", "docs/operations.md#monitoring").partition("#")
        assert anchor in anchors(page), rule["alert"]
        labels: Any = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
        assert set(labels) <= {each.strip() for each in _GROUPS.findall(rule["expr"])[0].split(",")} if labels else True
