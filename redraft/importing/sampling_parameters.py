"""Turns models and parameters of other programs into model, sampling and answer_schema of a request."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from redraft.domain.calls.model_names import parse_model
from redraft.domain.jobs.sampling import Sampling
from redraft.errors import Invalid
from redraft.importing.outcomes import Findings, is_storable
from redraft.importing.texts import NotCarried
from redraft.importing.values import as_object

_SAME = ("temperature", "top_p", "seed", "reasoning_effort")
_LIMITS = ("max_tokens", "max_completion_tokens", "max_completions_tokens", "max_output_tokens")


def model_named(provider: str, name: Any) -> str:
    """Return the model as Redraft names it. Raises NotCarried if the name cannot be used."""
    try:
        return str(parse_model(f"{provider}:{name if is_storable(name) else ''}"))
    except Invalid as error:
        raise NotCarried("its name cannot be used") from error


def generator_fields(given: Mapping[str, Any], where: str, findings: Findings) -> dict[str, Any]:
    """Return the request fields of a generator's parameters. Parameters that Redraft does not have are left out."""
    fields: dict[str, Any] = {}
    rest = {name: value for name, value in given.items() if value is not None}
    for name in ("response_format", "text"):
        found = rest.pop(name, None)
        schema = _schema_of(found)
        if schema is not None:
            fields["answer_schema"] = schema
        elif found is not None and not _is_plain_text(found):
            findings.leave_out(where, f"{name} of the model", "it is no JSON Schema of the answer")
    if sampling := sampling_of(rest, where, findings):
        fields["sampling"] = sampling
    return fields


def sampling_of(given: Mapping[str, Any], where: str, findings: Findings) -> dict[str, Any]:
    """Return the fields of `Sampling`. Parameters that Redraft does not have are left out."""
    found: dict[str, Any] = {}
    effort = as_object(given.get("reasoning")).get("effort")
    for name, value in {**given, "reasoning_effort": given.get("reasoning_effort", effort)}.items():
        target = name if name in _SAME else "max_output_tokens" if name in _LIMITS else None
        # The effort in `reasoning` is read as `reasoning_effort`
        if value is None or (name == "reasoning" and effort is not None):
            continue
        if target is None or not _is_valid(target, value):
            # Only the name is reported, because the value can be a key or a password
            why = "Redraft has no such parameter" if target is None else "Redraft cannot use its value"
            findings.leave_out(where, f"parameter {name}", why)
        else:
            found[target] = value
    return found


def _is_valid(name: str, value: Any) -> bool:
    try:
        Sampling.model_validate({name: value})
    except ValidationError:
        return False
    return True


def _schema_of(found: Any) -> dict[str, Any] | None:
    """Return the schema in `response_format` of Chat Completions or in `text` of Responses."""
    spec = as_object(as_object(found).get("format")) or as_object(found)
    inner = as_object(spec.get("json_schema")) or spec
    return as_object(inner.get("schema")) or None if spec.get("type") == "json_schema" else None


def _is_plain_text(found: Any) -> bool:
    return found in ({"type": "text"}, {"format": {"type": "text"}})
