"""Profiles as people read them: what each says, what it said before, and what differs from another one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from weakref import WeakKeyDictionary

from pydantic_core import to_json
from sqlalchemy import Connection

from redraft.domain.text.diffs import Diff, compare_words
from redraft.errors import Invalid, NotFound
from redraft.operations.services import Services
from redraft.prompts.profiles import Profile
from redraft.storage.admin import profile_versions
from redraft.storage.engine.work import Database

_VERSIONS_MAX = 50
# By database what this process knows to be kept there: an evaluation need not ask again.
_kept: WeakKeyDictionary[Database, set[tuple[str, str]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Version:
    """A version that has judged."""

    version: str
    first_used_at: datetime


@dataclass(frozen=True, slots=True)
class ProfileLook:
    """A profile with its versions that have judged, the latest first.

    Attributes:
        changes: what differs, by file, where it is compared with an earlier version or another profile.
    """

    profile: Profile
    versions: Sequence[Version]
    changes: Mapping[str, Diff] | None


def keep_version(database: Database, connection: Connection, profile: Profile) -> None:
    """Keep what this version says, in the unit of work of an evaluation by it."""
    known, key = _kept.setdefault(database, set()), (profile.name, profile.version)
    if key in known:
        return
    if profile_versions.is_kept(connection, *key):
        known.add(key)
    else:
        # Known when it is found: this unit of work may come to nothing
        profile_versions.keep(connection, *key, texts_of(profile))


def look(services: Services, name: str, *, version: str = "", other: str = "") -> ProfileLook:
    """A profile, compared with a version that has judged or with another profile where one is named.

    Raises:
        NotFound: there is no such profile, or no such version of it.
    """
    profile = _find(services, name)
    with services.database.read() as connection:
        found = profile_versions.list_of(connection, name, limit=_VERSIONS_MAX)
        before = profile_versions.texts_of(connection, name, version) if version else None
    if version and before is None:
        raise NotFound("version", f"{name} {version}")
    if before is None and other:
        before = texts_of(_find(services, other))
    changes = None if before is None else _compare(before, texts_of(profile))
    return ProfileLook(profile, [Version(**each) for each in found], changes)


def _find(services: Services, name: str) -> Profile:
    try:
        return services.profiles.get(name)
    except Invalid:
        raise NotFound("profile", name) from None


def texts_of(profile: Profile) -> dict[str, str]:
    """What its files say, by name."""
    templates = {f"{name}.j2": text for name, text in profile.templates.items()}
    mapping = to_json(profile.mapping, indent=2).decode()
    return {**templates, "reply.json": to_json(profile.reply_schema, indent=2).decode(), "mapping": mapping}


def _compare(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Diff]:
    """Of files that differ; those that only one has are told as well."""
    names = dict.fromkeys([*after, *before])
    found = {name: compare_words(before.get(name, ""), after.get(name, "")) for name in names}
    return {name: diff for name, diff in found.items() if any(part.kind != "equal" for part in diff.parts)}
