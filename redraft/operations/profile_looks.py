"""Profiles as people read them: one of them, or two beside each other."""

from collections.abc import Mapping

from pydantic_core import to_json

from redraft.domain.diffs import Diff, compare_words
from redraft.errors import Invalid, NotFound
from redraft.operations.services import Services
from redraft.prompts.profiles import Profile


def find_profile(services: Services, name: str) -> Profile:
    """The profile of that name.

    Raises:
        NotFound: there is none.
    """
    try:
        return services.profiles.get(name)
    except Invalid:
        raise NotFound("profile", name) from None


def compare_profiles(old: Profile, new: Profile) -> dict[str, Diff]:
    """What differs between two profiles, by file; files that only one has are told as well."""
    before, after = _texts(old), _texts(new)
    names = dict.fromkeys([*after, *before])
    found = {name: compare_words(before.get(name, ""), after.get(name, "")) for name in names}
    return {name: diff for name, diff in found.items() if any(part.kind != "equal" for part in diff.parts)}


def _texts(profile: Profile) -> Mapping[str, str]:
    templates = {f"{name}.j2": text for name, text in profile.templates.items()}
    return {**templates, "reply.json": to_json(profile.reply_schema, indent=2).decode()}
