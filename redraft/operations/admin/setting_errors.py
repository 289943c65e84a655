"""Reads the settings. Each error names the setting, or its place in `redraft.toml`, and never its value."""

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from dotenv import dotenv_values
from pydantic import ValidationError

from redraft.endpoints import CheckEndpoint, Endpoint, ModelLimit, ModelPrice
from redraft.errors import FieldError, Invalid
from redraft.settings import Settings

_UNREADABLE = re.compile(r'error parsing value for field "(\w+)" from source "(\w+)"')
# Commands read these variables directly from the environment, so they are not in Settings
_OF_COMMANDS = frozenset({"REDRAFT_SERVER", "REDRAFT_API_KEY"})
# docker-compose.yml reads it from .env
_OF_COMPOSE = "REDRAFT_PUBLISH"
_FIELDS = [name for kind in (Endpoint, CheckEndpoint, ModelPrice, ModelLimit) for name in kind.model_fields]


def load_settings() -> Settings:
    """Read the settings. Raises Invalid if a value is wrong. Each error names its setting."""
    try:
        return Settings()
    except ValidationError as error:
        raise Invalid("A setting has a wrong value.", _errors_of(error)) from error
    except ValueError as error:
        raise Invalid(_unreadable(error)) from error


def load_settings_or_exit() -> Settings:
    """Read the settings of a server process. A wrong value ends the process with a message and exit code 1."""
    try:
        return load_settings()
    except Invalid as error:
        lines = (f"  {each.pointer}: {each.detail}" for each in error.errors)
        raise SystemExit("\n".join([str(error), *lines])) from None


def _errors_of(error: ValidationError) -> tuple[FieldError, ...]:
    """Return the errors of the settings. They omit the input, because the input can be a secret."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return tuple(FieldError(_place(each["loc"]), _message(each), each["type"]) for each in found)


def _unreadable(error: ValueError) -> str:
    """Return the message for settings that cannot be read."""
    found = _UNREADABLE.search(str(error))
    if found is None:
        return f"The settings cannot be read: {error}"
    where = " in .env" if found[2].startswith("DotEnv") else ""
    return f"REDRAFT_{found[1].upper()}{where} is no valid JSON: {error.__cause__}."


def _message(error: Mapping[str, Any]) -> str:
    if error["type"] != "extra_forbidden":
        return error["msg"]
    meant = get_close_matches(str(error["loc"][-1]), _FIELDS, n=1)
    if not meant:
        return "There is no such field; docs/settings.md lists the settings."
    names = ", which names the environment variable with the secret" if meant[0].endswith("_env") else ""
    return f"There is no such field: did you mean {meant[0]!r}{names}?"


def _place(location: tuple[int | str, ...]) -> str:
    if not location:
        return "settings"
    first, *rest = map(str, location)
    name = first if first.isupper() else f"REDRAFT_{first.upper()}"
    given = {each.upper() for each in (*os.environ, *dotenv_values(".env"))}
    # The SDKs of the vendors read the same settings without the prefix, so users may have set that name
    name = next((each for each in (name, name.removeprefix("REDRAFT_")) if each in given), name)
    if rest and name not in given:
        return f"redraft.toml: {'.'.join((first, *rest))}"
    return ".".join([name, *rest])


def unknown_names() -> dict[str, str | None]:
    """Return the variables `REDRAFT_…` that have no effect, each with the variable that the user may have meant."""
    settings = {_OF_COMPOSE, *(f"REDRAFT_{name.upper()}" for name in Settings.model_fields)}
    found = {name: _similar(name, settings | _OF_COMMANDS) for name in _unknown(os.environ, settings | _OF_COMMANDS)}
    for name in _unknown(dotenv_values(".env"), settings):
        is_misplaced = name.upper() in _OF_COMMANDS
        meant = f"the environment variable {name.upper()}" if is_misplaced else _similar(name, settings)
        found[f"{name} in .env"] = meant
    return found


def _unknown(names: Iterable[str], known: set[str]) -> list[str]:
    return sorted(name for name in names if name.upper().startswith("REDRAFT_") and name.upper() not in known)


def _similar(name: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(name.upper(), known, n=1)), None)
