"""What is sent begins like what was sent before, so that the provider's cache has most of it."""

import json
from itertools import pairwise
from typing import Any

import pytest

from tests.model_server import ModelServer
from tests.model_server.logbook import Entry
from tests.operations.bulk.test_runs import start, work_off
from tests.operations.driving import Driver

SOURCES = [{"content": f"Fact {n}: " + f"The ferry {n} leaves at {n}. " * 30} for n in range(1, 6)]


def texts_of(entry: Entry) -> list[str]:
    """The request in the order in which a provider caches it, without its breakpoints."""
    parts = [entry.body.get("system", ""), *(message["content"] for message in entry.body["messages"])]
    return ["".join(part["text"] for part in each) if isinstance(each, list) else each for each in parts]


def shared(earlier: str, later: str) -> float:
    length = next((at for at, (a, b) in enumerate(zip(earlier, later, strict=False)) if a != b), len(earlier))
    return length / len(later)


def shares(entries: list[Entry]) -> list[float]:
    sent = ["".join(texts_of(entry)) for entry in entries]
    return [shared(earlier, later) for earlier, later in pairwise(sent)]


def breakpoints(entry: Entry) -> list[str]:
    """What stands before each breakpoint of the last user turn."""
    content: Any = entry.body["messages"][-1]["content"]
    parts = [] if isinstance(content, str) else content
    return [part["text"] for part in parts if "cache_control" in part]


def roles(model_server: ModelServer, role: str) -> list[Entry]:
    return [entry for entry in model_server.requests() if entry.role == role]


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("by", [{"eval_crit": "True."}, {"rubric": [{"id": "a", "text": "It is short."}]}])
def test_a_call_shares_most_of_its_input_with_the_one_before(
    driver: Driver, model_server: ModelServer, dialect: str, by: dict[str, Any]
):
    model_server.script(generate=["one", "two", "three"], evaluate=[0.2, 0.4, 0.9])
    models = {"model": f"{dialect}:writer", "evaluator_model": f"{dialect}:judge"}
    driver.run_new(**{"eval_crit": None, **by}, **models, sources=SOURCES, conversation=[["Hello?", "Hello."]])
    for role in ("evaluate", "generate"):
        entries = roles(model_server, role)
        assert len(shares(entries)) >= 1
        assert min(shares(entries)) >= 0.8, role
    found = [breakpoints(entry) for entry in roles(model_server, "evaluate")]
    assert len({json.dumps(each) for each in found}) == 1
    assert len(found[0]) == (2 if dialect == "anthropic" else 0)


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_the_items_of_a_run_share_criteria_and_sources(driver: Driver, model_server: ModelServer, dialect: str):
    model_server.script(generate=["one"], evaluate=[0.9])
    data = "".join(json.dumps({"instruct": f"[[case:r{n}]] Task {n}?"}) + "\n" for n in range(3)).encode()
    models = {"model": f"{dialect}:writer", "evaluator_model": f"{dialect}:judge"}
    defaults = {"eval_crit": "True.", "sources": SOURCES, "iter_max": 1, **models}
    work_off(driver, start(driver, data, defaults=defaults, max_in_flight=1))
    entries = roles(model_server, "evaluate")
    assert len(entries) == 3
    assert min(shares(entries)) >= 0.8
    # A first item may be the only one with its sources, and providers charge for what they cache
    assert [len(breakpoints(entry)) for entry in entries] == ([0, 1, 1] if dialect == "anthropic" else [0, 0, 0])


def test_what_no_later_call_repeats_is_not_cached(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one"], evaluate=[0.9])
    driver.run_new(model="anthropic:writer", evaluator_model="anthropic:judge", sources=SOURCES, iter_max=1)
    assert not any(breakpoints(entry) for entry in model_server.requests())
