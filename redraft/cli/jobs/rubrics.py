"""Evaluation criteria on the command line: a rubric from a file, checks as KIND=VALUE."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import typer

from redraft.cli import output
from redraft.cli.files import read_json

DEFAULT_CRITERION = "Answers the task completely and correctly, in the wanted form."

_OWN_PROFILE = "criteria"


def rubric_file(path: str | None) -> list[Any] | None:
    """The criteria that a file holds, alone or as a request's; what is wrong with one is told with the request."""
    if path is None:
        return None
    found = read_json(path, "--rubric")
    if isinstance(found, dict):
        found = cast("dict[str, Any]", found).get("rubric")
    if not isinstance(found, list):
        words = f"{path} holds no JSON list of criteria, nor a request with a `rubric`."
        raise typer.BadParameter(words, param_hint="--rubric")
    return cast("list[Any]", found)


def add_checks(body: dict[str, Any], checks: Sequence[str] | None) -> None:
    """Put checks, as KIND=VALUE, behind the criteria of a request.

    Without other criteria a rubric of checks would leave `eval_crit` unjudged: it becomes a criterion beside them.
    """
    if not checks:
        return
    rubric: Any = body.get("rubric") or []
    if not isinstance(rubric, list):
        return
    lines = [*cast("list[Any]", rubric)]
    if not lines and body.get("eval_crit"):
        lines.append({"id": "criteria", "text": body.pop("eval_crit")})
    for text in checks:
        lines.append(_check(text, lines))
    body["rubric"] = lines


def _check(text: str, before: Sequence[Any]) -> dict[str, Any]:
    from redraft.domain.checks.shorthand import read_check
    from redraft.domain.jobs.drafts import free_id, kebab

    kind, equals, value = text.partition("=")
    kind = kind.strip().replace("-", "_")
    try:
        check = read_check(kind, value if equals else None)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}", param_hint="--check") from error
    taken = [str(cast("Mapping[str, Any]", each).get("id")) for each in before if isinstance(each, dict)]
    return {
        "id": free_id(kebab(kind), taken),
        "kind": "check",
        "required": True,
        "check": check.model_dump(mode="json", exclude_none=True),
    }


def ensure_criteria(body: dict[str, Any]) -> bool:
    """Give a request that has no criteria the default criterion; returns whether it was added."""
    has_own = body.get("eval_crit") is not None or body.get("rubric") is not None
    if has_own or body.get("profile", _OWN_PROFILE) != _OWN_PROFILE:
        return False
    body["eval_crit"] = DEFAULT_CRITERION
    return True


def say_default_criterion() -> None:
    """Say that the request has the default criterion; call it when the request is valid."""
    output.say(f"No criteria given (--crit); evaluating by: {DEFAULT_CRITERION}", "dim")
