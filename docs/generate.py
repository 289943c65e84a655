#!/usr/bin/env python3
"""Write the pages and modules that are generated from the code; `--check` only compares them."""

import sys
import types
import typing
from pathlib import Path

import client_models
from pydantic import AliasChoices, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from redraft.setting_values import BatchSettings
from redraft.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
PREFIX = "REDRAFT_"
# Defaults that depend on the machine.
COMPUTED = {"data_dir": "`redraft` in the user's data folder"}

SETTINGS_INTRO = """\
# Settings

Redraft looks for each setting in the environment, then in `.env`, then in `redraft.toml`, and uses the first value
found. Both files are read from the working directory of the command, not from its parent folders or the data folder.
A process reads the settings once, at its start: after a change, restart `redraft serve` and the workers. `redraft
doctor` shows each value and its source.

In `redraft.toml` the names are in lower case, without `REDRAFT_`; another name is an error. An empty value counts as
not set. Objects of several sources are merged. `make docs` generates this page.

| name | type | default | meaning |
|---|---|---|---|
"""
ENV_INTRO = """\
# Copy this file to .env, and uncomment the settings that you change. The values are the defaults.
# `make docs` generates this file.
"""


def names_of(name: str, field: FieldInfo) -> list[str]:
    """Return the environment variables of a setting, by descending precedence."""
    if isinstance(field.validation_alias, AliasChoices):
        return [str(choice) for choice in field.validation_alias.choices]
    return [PREFIX + name.upper()]


def type_of(annotation: object) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return " or ".join(f"`{choice}`" for choice in typing.get_args(annotation))
    if isinstance(annotation, types.UnionType):
        parts = [part for part in typing.get_args(annotation) if part is not types.NoneType]
        return " or ".join(type_of(part) for part in parts)
    if annotation is SecretStr:
        return "secret"
    if typing.get_origin(annotation) is dict:
        return "JSON object"
    return getattr(annotation, "__name__", str(annotation)).lower()


def value_of(name: str, field: FieldInfo) -> str:
    """Return a default as in `.env`, or an empty text if there is none or if it depends on the machine."""
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is None or name in COMPUTED:
        return ""
    return default if isinstance(default, str) else to_json(default).decode()


def default_of(name: str, field: FieldInfo) -> str:
    value = value_of(name, field)
    return COMPUTED.get(name) or (value and f"`{value}`")


def _fields() -> list[tuple[str, FieldInfo]]:
    """Return the settings in the order of the pages: those of the base class come last."""
    return sorted(Settings.model_fields.items(), key=lambda each: each[0] in BatchSettings.model_fields)


def settings_page() -> str:
    return SETTINGS_INTRO + "".join(_row(name, field) for name, field in _fields())


def _row(name: str, field: FieldInfo) -> str:
    names = "<br>".join(f"`{variable}`" for variable in names_of(name, field))
    return f"| {names} | {type_of(field.annotation)} | {default_of(name, field)} | {field.description} |\n"


def env_example() -> str:
    blocks: list[str] = []
    for name, field in _fields():
        variable, *others = names_of(name, field)
        also = f" Also read as {', '.join(others)}." if others else ""
        default = f" Default: {COMPUTED[name].replace('`', '')}." if name in COMPUTED else ""
        blocks.append(f"\n# {field.description}{also}{default}\n# {variable}={value_of(name, field)}\n")
    return ENV_INTRO + "".join(blocks)


PAGES = {
    "docs/settings.md": settings_page,
    ".env.example": env_example,
    "client/redraft_client/models.py": client_models.models_page,
    "client/redraft_client/requests.py": client_models.requests_page,
    "client/redraft_client/client.py": client_models.blocking_client_page,
    "client/redraft_client/_driver.py": client_models.blocking_driver_page,
}


def main(arguments: list[str]) -> int:
    stale = [path for path, page in PAGES.items() if _read(ROOT / path) != page()]
    if arguments == ["--check"]:
        for path in stale:
            sys.stderr.write(f"{path} does not match the code: run `make docs`\n")
        return 1 if stale else 0
    for path in stale:
        (ROOT / path).write_text(PAGES[path](), encoding="utf-8")
    return 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
