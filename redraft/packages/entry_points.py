"""Loads checks, profiles and providers that installed Python packages add to Redraft by their entry points.

Only an administrator can add a package, by installing it; no request can. A package that cannot be loaded is reported,
and everything else works without it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

Group = Literal["redraft.checks", "redraft.profiles", "redraft.providers"]
GROUPS: tuple[Group, ...] = ("redraft.checks", "redraft.profiles", "redraft.providers")


@dataclass(frozen=True, slots=True)
class Extension:
    """One entry point. `loaded` is its object, or None if `error` says why the entry point cannot be used."""

    group: Group
    name: str
    origin: str
    loaded: Any = None
    error: str | None = None


@cache  # the installed packages do not change while a process runs
def extensions(group: Group) -> Mapping[str, Extension]:
    """Load the entry points of a group, by name. Never raises."""
    found: dict[str, Extension] = {}
    for point in sorted(entry_points(group=group), key=lambda each: (each.name, each.value)):
        origin = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        if point.name in found:
            words = f"{found[point.name].origin} and {origin} both provide this name; remove one of them"
            found[point.name] = Extension(group, point.name, origin, error=words)
        else:
            found[point.name] = _load(group, point, origin)
    return found


def _load(group: Group, point: EntryPoint, origin: str) -> Extension:
    try:
        loaded = point.load()
    # Importing a package runs its code, which can raise anything
    except (Exception, SystemExit) as error:  # noqa: BLE001
        words = f"{point.value} cannot be loaded: {type(error).__name__}: {error}"
        return Extension(group, point.name, origin, error=words[:500])
    if group != "redraft.profiles" and not callable(loaded):
        return Extension(group, point.name, origin, error=f"{point.value} is no function")
    return Extension(group, point.name, origin, loaded)
