"""Each code of an error of a request or a command is documented in docs/errors.md."""

import ast
import re

from tests.rules.sources import ROOT, dotted, nodes

# What stands at which place of a call; elsewhere a code is named
POSITIONS = {"Invalid.at": 2, "FieldError": 2}
# `__init__`: an error class that gives its code to the one it is derived from
RAISED = {"Conflict", "Forbidden", "HttpProblem", "Invalid", "Invalid.at", "FieldError", "Unavailable", "__init__"}
# Between worker and ledger, and of a delivery: no request meets them
INTERNAL = {"lease_lost", "receiver_unavailable"}


def code_of(call: ast.Call) -> str | None:
    name = dotted(call.func)
    named = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
    position = POSITIONS.get(name)
    given = named or (call.args[position : position + 1] if position is not None else [])
    if name not in RAISED or not given or not isinstance(given[0], ast.Constant):
        return None
    return str(given[0].value)


def test_the_code_of_an_error_is_found_wherever_a_call_gives_it():
    calls = ['Conflict("w", code="a")', 'Invalid.at("/x", "w", "a")', 'FieldError("/x", "w", code="a")']
    calls.append('super().__init__("w", code="a")')
    found = [code_of(call) for text in calls if isinstance(call := ast.parse(text, mode="eval").body, ast.Call)]
    assert found == ["a"] * 4
    assert code_of(ast.parse('other("w", code="a")', mode="eval").body) is None  # type: ignore[arg-type]


def test_every_code_is_documented():
    documented = set(re.findall(r"`([a-z_]+)`", (ROOT / "docs/errors.md").read_text("utf-8")))
    raised = {
        (code, path)
        for path, node in nodes("redraft", "api", "worker")
        if isinstance(node, ast.Call) and (code := code_of(node))
    }
    assert len(raised) > 50
    assert sorted((code, path) for code, path in raised if code not in documented | INTERNAL) == []
