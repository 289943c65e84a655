"""Rubrics and what evaluators say of them, for tests."""

from collections.abc import Mapping
from typing import Any

from tests.model_server import Reply
from tests.model_server.scripts import Rule, Script


def criterion(id: str, **fields: Any) -> dict[str, Any]:  # noqa: A002 - the field's name
    return {"id": id, "text": f"TEXT-{id}", **fields}


def words_at_most(count: int, **fields: Any) -> dict[str, Any]:
    return {"id": "short", "kind": "check", "check": {"kind": "max_words", "value": count}, **fields}


def found(**verdicts: bool | int) -> Mapping[str, Any]:
    """An evaluator's reply: `True` or `False` for a binary criterion, a level for a scale."""
    return {"criteria": {name: _entry(name, verdict) for name, verdict in verdicts.items()}}


def _entry(name: str, verdict: bool | int) -> dict[str, Any]:  # noqa: FBT001 - it is the datum
    said = {"evidence": f"EVIDENCE-{name}", "gap": "" if verdict is True else f"GAP-{name}"}
    return {**said, "met": verdict} if isinstance(verdict, bool) else {**said, "level": verdict}


def by_model(generate: list[Any] | None = None, **replies: list[Any]) -> Script:
    """A script in which each evaluator says something else."""
    judges = tuple(Rule(tuple(said), role="evaluate", model=model) for model, said in replies.items())
    return Script(rules=(*judges, Rule(tuple(generate or ["one", "two", "three"]), role="generate")))


def down(status: int) -> Reply:
    return Reply(status=status, raw={"error": {"message": "no", "type": "x", "code": "x"}})
