"""Builds the page of a profile: its texts, its earlier versions, and a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redraft.domain.text.diffs import Diff, compare_words
from redraft.errors import Invalid, NotFound
from redraft.operations.services import Services
from redraft.prompts.profiles import Profile
from redraft.storage.admin import profile_versions

_VERSIONS_MAX = 50


@dataclass(frozen=True, slots=True)
class ProfileView:
    """A profile with the versions that evaluations have used.

    Attributes:
        versions: the latest first, each with `version` and `first_used_at`.
        changes: by file, the diff to an earlier version or to another profile; None without a comparison.
    """

    profile: Profile
    versions: Sequence[Mapping[str, Any]]
    changes: Mapping[str, Diff] | None


def view_profile(services: Services, name: str, *, version: str = "", other: str = "") -> ProfileView:
    """View a profile. If `version` or `other` is given, compare it with this version or with this other profile.

    Raises NotFound if a profile does not exist, or the profile has no such version.
    """
    profile = _find(services, name)
    with services.database.read() as connection:
        found = profile_versions.list_of(connection, name, limit=_VERSIONS_MAX)
        before = profile_versions.texts_of(connection, name, version) if version else None
    if version and before is None:
        raise NotFound("version", f"{name} {version}")
    if before is None and other:
        before = _find(services, other).texts
    return ProfileView(profile, found, None if before is None else _compare(before, profile.texts))


def _find(services: Services, name: str) -> Profile:
    try:
        return services.profiles.get(name)
    except Invalid:
        raise NotFound("profile", name) from None


def _compare(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Diff]:
    """Return the diffs of the files that differ, or that only one side has."""
    names = dict.fromkeys([*after, *before])
    found = {name: compare_words(before.get(name, ""), after.get(name, "")) for name in names}
    return {name: diff for name, diff in found.items() if any(part.kind != "equal" for part in diff.parts)}
