"""The settings in effect: value, origin and description of each. Secrets are masked."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from pydantic import AliasChoices, BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import to_json
from pydantic_settings import DotEnvSettingsSource, EnvSettingsSource, TomlConfigSettingsSource

from redraft.redaction import redact_known
from redraft.settings import Settings


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting in effect.

    Attributes:
        name: the environment variable. If a setting has several names, this is the one that is set, or else the one
            without the prefix `REDRAFT_`.
        value: the value in the syntax of an environment variable; secrets and passwords are masked.
        origin: `default`, `redraft.toml`, `.env`, `environment`, or `command line`.
    """

    name: str
    value: str
    origin: str
    description: str
    is_secret: bool

    @property
    def is_default(self) -> bool:
        return self.origin == "default"


def settings_in_effect(settings: Settings) -> list[Setting]:
    """Return all settings, in the order of docs/settings.md."""
    # pydantic-settings does not keep the origin of a value, so the sources are read again, in order of precedence
    environment, dotenv = EnvSettingsSource(Settings), DotEnvSettingsSource(Settings)
    sources = (("environment", environment), (".env", dotenv), ("redraft.toml", TomlConfigSettingsSource(Settings)))
    by_source = {origin: {name.lower().removeprefix("redraft_") for name in source()} for origin, source in sources}

    def origin_of(name: str, field: FieldInfo) -> str:
        default = field.get_default(call_default_factory=True, validated_data={})
        # Only options of commands change a setting after the sources were read
        fallback = "default" if getattr(settings, name) == default else "command line"
        return next((origin for origin, names in by_source.items() if name in names), fallback)

    return [
        Setting(
            _name_of(name, [environment.env_vars, dotenv.env_vars]),
            _shown(name, getattr(settings, name)),
            origin_of(name, field),
            field.description or "",
            is_secret="SecretStr" in str(field.annotation),
        )
        for name, field in Settings.model_fields.items()
    ]


def in_lines(settings: Settings, found: Sequence[Setting]) -> list[Setting]:
    """Split each setting with named entries, such as endpoints, into one per entry. Other settings stay unchanged."""
    lines: list[Setting] = []
    for each in found:
        value = getattr(settings, each.name.lower().removeprefix("redraft_"), None)
        entries = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        named = [(f"{each.name}.{name}", _shown("", entry)) for name, entry in entries.items()]
        lines += [replace(each, name=name, value=shown) for name, shown in named] or [each]
    return lines


def _name_of(setting: str, environments: Sequence[Collection[str]]) -> str:
    alias = Settings.model_fields[setting].validation_alias
    if not isinstance(alias, AliasChoices):
        return f"REDRAFT_{setting.upper()}"
    names = [str(each) for each in alias.choices]
    used = (name for environment in environments for name in names if name.lower() in environment)
    return next(used, names[-1])


def _shown(name: str, value: Any) -> str:
    if isinstance(value, SecretStr):
        secret = value.get_secret_value()
        # The shown characters distinguish two keys, and nobody can guess the masked ones
        return f"{secret[:3]}…{secret[-4:]}" if len(secret) >= 16 else "…"
    if value is None or value == {}:
        return ""
    if name.endswith("_url"):
        return without_password(str(value))
    is_json = isinstance(value, dict | BaseModel)
    return redact_known(to_json(value, exclude_none=True).decode() if is_json else str(value))


def without_password(url: str) -> str:
    """Return the URL with its password masked."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user_and_host = parts.netloc.replace(f":{parts.password}@", ":…@")
    return urlunsplit(parts._replace(netloc=user_and_host))
