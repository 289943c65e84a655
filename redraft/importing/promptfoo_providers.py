"""Turns the providers of promptfoo into models of Redraft."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from redraft.importing.outcomes import Findings
from redraft.importing.sampling_parameters import generator_fields, model_named
from redraft.importing.texts import NotCarried
from redraft.importing.values import Fields, as_list, as_object, one_or_many

_OWN_SERVER = ("apiBaseUrl", "apiHost")
_CHAT_KINDS = {"openai": ("chat", "responses"), "anthropic": ("messages",)}


@dataclass(frozen=True, slots=True)
class Provider:
    """A model with its parameters.

    Attributes:
        prompts: the labels of the prompts that the provider gets; empty: all prompts.
    """

    label: str
    fields: Fields
    prompts: tuple[str, ...] = ()


def providers_of(given: Any, findings: Findings) -> Iterator[Provider]:
    """Yield the given providers that Redraft supports, and report the others."""
    for number, each in enumerate(one_or_many(given), 1):
        where = f"providers, entry {number}"
        try:
            yield _provider(_spec(each), where, findings)
        except NotCarried as error:
            findings.leave_out(where, f"provider {_shown(each)}", str(error))


def model_of(provider: Any) -> str:
    """Return the model of a provider, as Redraft names it. Raises NotCarried."""
    spec = _spec(provider)
    name = spec.get("id")
    if not isinstance(name, str):
        raise NotCarried("it has no id")
    vendor, _, rest = name.partition(":")
    # A provider with its own server is refused, because at OpenAI the same name would be another model
    has_own_server = any(each in as_object(spec.get("config")) for each in _OWN_SERVER)
    if vendor not in _CHAT_KINDS or not rest or has_own_server:
        words = "Redraft has no such provider; describe its server as an endpoint (docs/compatible-servers.md),"
        raise NotCarried(f"{words} and run the dataset with --model ENDPOINT:NAME")
    kind, colon, model = rest.partition(":")
    if not colon or kind == "ft":
        return model_named(vendor, rest)
    if kind not in _CHAT_KINDS[vendor]:
        raise NotCarried(f"{vendor}:{kind} is no chat model")
    return model_named(vendor, model)


def _spec(given: Any) -> Fields:
    if isinstance(given, str):
        return {"id": given}
    if not isinstance(given, dict):
        raise NotCarried("it is no provider")
    fields = as_object(given)
    if "id" not in fields and len(fields) == 1:
        # In an old form, the value maps the provider's id to its settings
        ((name, inner),) = fields.items()
        return {"id": name, **as_object(inner)}
    return fields


def _provider(spec: Fields, where: str, findings: Findings) -> Provider:
    model = model_of(spec)
    label = str(spec.get("label") or model)
    for name in sorted(set(spec) - {"id", "label", "config", "prompts"}):
        findings.leave_out(where, f"provider: {name}", "Redraft has no counterpart")
    fields = generator_fields(as_object(spec.get("config")), where, findings)
    return Provider(label, {"model": model, **fields}, tuple(map(str, as_list(spec.get("prompts")))))


def _shown(given: Any) -> str:
    """Return the id of a provider for messages. Its other fields can hold a key."""
    try:
        return str(_spec(given).get("id"))
    except NotCarried:
        return "without an id"
