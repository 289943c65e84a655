"""Describes this installation: its models with prices, its database, its broker and its versions."""

import platform
from dataclasses import dataclass
from decimal import Decimal

from redraft import __version__
from redraft.domain.calls.model_names import ModelRef, parse_model
from redraft.errors import Invalid
from redraft.operations.admin.configuration import without_password
from redraft.operations.services import Services
from redraft.packages.entry_points import Group, extensions
from redraft.prompts.profiles import packaged_profiles
from redraft.providers.shared.protocol import Usage
from redraft.storage.admin import metrics
from redraft.storage.engine import schema

# Prices per million tokens are computed from the price of a short call, since some prices rise with the prompt's length
_SAMPLE_TOKENS = 1000
_PER_MILLION = Decimal(1_000_000) / _SAMPLE_TOKENS / 10**9


@dataclass(frozen=True, slots=True)
class ModelLine:
    """A model that jobs can use.

    Attributes:
        is_ready: whether jobs can call the model, since its provider is configured.
        uses: the roles of the model in jobs that name no model: `generator`, `evaluator`.
        input_usd: the price in USD per million input tokens; None if it is unknown.
        output_usd: the price in USD per million output tokens; None if it is unknown.
    """

    id: str
    provider: str
    is_ready: bool
    uses: tuple[str, ...]
    note: str
    input_usd: str | None
    output_usd: str | None


@dataclass(frozen=True, slots=True)
class Parts:
    """The versions and addresses of the parts, without passwords."""

    version: str
    python: str
    database: str
    database_bytes: int
    schema: str
    broker: str


def extension_errors(services: Services, group: Group) -> dict[str, str]:
    """Return the errors of those entry points of installed packages that cannot be used, by name."""
    if group == "redraft.providers":
        return services.providers.package_errors()
    errors = {name: each.error for name, each in extensions(group).items() if each.error is not None}
    return {**errors, **packaged_profiles()[1]} if group == "redraft.profiles" else errors


def list_models(services: Services) -> list[ModelLine]:
    """List models of each provider, the default models, and the models with a price or a limit in the settings."""
    settings, known = services.settings, services.providers.models()
    notes = {each.provider: each.note for each in known}
    names = [settings.evaluator_model, *settings.prices, *settings.model_limits]
    named = [ref for name in names if (ref := _read(name)) and services.providers.is_known(ref.provider)]
    refs = [*(parse_model(each.id) for each in known), *named]
    uses = _uses(services)
    return [
        ModelLine(
            str(ref),
            ref.provider,
            services.providers.is_configured(ref.provider),
            uses.get(ref, ()),
            notes[ref.provider],
            _price(services, ref, Usage(_SAMPLE_TOKENS, 0, 0)),
            _price(services, ref, Usage(0, 0, _SAMPLE_TOKENS)),
        )
        for ref in dict.fromkeys(refs)
    ]


def _read(name: str) -> ModelRef | None:
    """Return the model with this name; None for a pattern such as `openai:*`, which a limit may name."""
    if not name or "*" in name:
        return None
    try:
        return parse_model(name, "/model")
    except Invalid:
        return None


def _uses(services: Services) -> dict[ModelRef, tuple[str, ...]]:
    generator = services.providers.default_model()
    evaluator = _read(services.settings.evaluator_model) or generator
    if evaluator == generator:
        return {generator: ("generator", "evaluator")}
    return {generator: ("generator",), evaluator: ("evaluator",)}


def _price(services: Services, ref: ModelRef, usage: Usage) -> str | None:
    nano = services.providers.price(ref, usage)
    return None if nano is None else f"{(nano * _PER_MILLION).normalize():f}"


def inspect_parts(services: Services) -> Parts:
    """Collect the versions and addresses. Raises Unavailable if the database cannot be reached."""
    settings = services.settings
    with services.database.read() as connection:
        size = metrics.size_bytes(connection)
    return Parts(
        version=__version__,
        python=platform.python_version(),
        database=without_password(settings.effective_database_url),
        database_bytes=size,
        schema=schema.current(services.database) or "none",
        broker=without_password(settings.effective_broker_url),
    )
