"""Profiles: named ways to evaluate. Each is a folder of files, the built-in ones and a user's own alike."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic_core import to_json

from redraft.domain.evaluation.verdict_parsing import ReplyMap
from redraft.domain.jobs.requests import AnyRequest
from redraft.errors import Invalid
from redraft.prompts import profile_files
from redraft.prompts.profile_files import ProfileFiles, ShownField

BUILT_IN = Path(__file__).parent / "built_in"

_CODE = "invalid_profile"

TemplateName = Literal["system", "user", "rubric_system", "rubric_user"]


@dataclass(frozen=True, slots=True)
class Profile:
    """A named way to evaluate.

    Attributes:
        version: a hash of its files; verdicts of different versions are not comparable.
        needs: the fields of a request that it requires.
        sees: the fields of a request that its prompts show.
        source_chars: the maximum length of each source; None: no limit.
        sources_chars: the maximum length of all sources together; None: no limit.
        media: whether images in the texts stay.
        templates: by name; those for rubrics exist if the profile takes rubrics.
        reply_schema: the JSON Schema of a reply without a rubric.
        mapping: the mapping of reply fields in `profile.toml`.
        reply: the mapping in the form that the parser takes.
        files: the SHA-256 of each file, by name.
    """

    name: str
    version: str
    title: str
    description: str
    is_built_in: bool
    needs: tuple[ShownField, ...]
    sees: tuple[ShownField, ...]
    source_chars: int | None
    sources_chars: int | None
    media: bool
    templates: Mapping[TemplateName, str]
    reply_schema: Mapping[str, Any]
    mapping: Mapping[str, Any]
    reply: ReplyMap
    files: Mapping[str, str]

    @property
    def takes_rubric(self) -> bool:
        return "rubric_user" in self.templates

    @property
    def texts(self) -> dict[str, str]:
        """The texts of its files, by name."""
        templates = {f"{name}.j2": text for name, text in self.templates.items()}
        mapping = to_json(self.mapping, indent=2).decode()
        return {**templates, "reply.json": to_json(self.reply_schema, indent=2).decode(), "mapping": mapping}

    def missing(self, request: AnyRequest) -> list[ShownField]:
        """Return the required fields that a request does not have. A rubric replaces the criteria in words."""
        has_rubric = self.takes_rubric and request.rubric is not None
        return [name for name in self.needs if not getattr(request, name) and not (name == "eval_crit" and has_rubric)]


class Profiles:
    """The profiles that a job may name."""

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self._by_name = {profile.name: profile for profile in profiles}

    def get(self, name: str) -> Profile:
        """The profile of that name.

        Raises:
            Invalid: there is none (code `unknown_profile`).
        """
        if name not in self._by_name:
            words = f"There is no profile {name!r}; there are {', '.join(self._by_name)}."
            raise Invalid.at("/profile", words, "unknown_profile")
        return self._by_name[name]

    def all(self) -> Sequence[Profile]:
        """All of them: the built-in ones first, each kind by name."""
        return tuple(self._by_name.values())


def load_profiles(folder: Path | None) -> Profiles:
    """Load the built-in profiles and those in the sub-folders of a folder.

    Raises:
        Invalid: a profile is invalid; the message names each file, and what to do (code `invalid_profile`).
    """
    built_in = _built_in()
    if folder is None:
        return Profiles(built_in)
    return Profiles([*built_in, *_own(folder, {profile.name for profile in built_in})])


@cache
def _built_in() -> tuple[Profile, ...]:
    return tuple(_profile(path, is_built_in=True) for path in profile_files.folders(BUILT_IN))


def check_profiles(folder: Path) -> Sequence[Profile]:
    """Check the profiles in a folder, or the folder itself if it is a profile.

    Raises:
        Invalid: as `load_profiles`.
    """
    taken = {path.name for path in profile_files.folders(BUILT_IN)}
    if (folder / profile_files.PROFILE).exists():
        return _read_all([folder.absolute()], taken)
    return _own(folder, taken)


def _own(folder: Path, taken: set[str]) -> list[Profile]:
    if not folder.is_dir():
        raise Invalid(f"There is no folder {folder}: REDRAFT_PROFILES_DIR names one with profiles.", code=_CODE)
    if (folder / profile_files.PROFILE).exists():
        words = f"{folder} is a profile itself: REDRAFT_PROFILES_DIR names the folder that profiles' folders are in."
        raise Invalid(words, code=_CODE)
    return _read_all(profile_files.folders(folder), taken)


def _read_all(paths: Sequence[Path], taken: set[str]) -> list[Profile]:
    profiles: list[Profile] = []
    wrong: list[str] = []
    for path in paths:
        try:
            profiles.append(_profile(path, is_built_in=False, taken=taken))
        except profile_files.ProfileError as error:
            wrong.append(f"\n  {error.place}: {error.words}")
    if wrong:
        raise Invalid("A profile cannot be used:" + "".join(wrong), code=_CODE)
    return profiles


def _profile(path: Path, *, is_built_in: bool, taken: Collection[str] = ()) -> Profile:
    if path.name in taken:
        raise profile_files.ProfileError(path.name, "is the name of a built-in profile; rename the folder")
    files: ProfileFiles = profile_files.read(path, may_take_rubric=is_built_in)
    about = files.about
    return Profile(
        name=path.name,
        version=files.version,
        title=about.title,
        description=about.description,
        is_built_in=is_built_in,
        needs=tuple(about.needs),
        sees=tuple(about.sees),
        source_chars=about.source_chars,
        sources_chars=about.sources_chars,
        media=about.media,
        templates=files.templates,
        reply_schema=files.reply_schema,
        mapping=about.mapping.model_dump(exclude_none=True),
        reply=files.reply,
        files=files.hashes,
    )
