"""Loads evaluation profiles, both the built-in profiles and those of users. Each profile is a folder of files."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from redraft.errors import Invalid
from redraft.packages.entry_points import Extension, extensions
from redraft.prompts import profile_files
from redraft.prompts.profile_files import BUILT_IN, Profile, ProfileError

_CODE = "invalid_profile"


class Profiles:
    """The profiles that a request can select by name."""

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self._by_name = {profile.name: profile for profile in profiles}

    def get(self, name: str) -> Profile:
        """Return a profile. Raises Invalid (`unknown_profile`) if no profile has this name."""
        if name not in self._by_name:
            words = f"There is no profile {name!r}; known are {', '.join(self._by_name)}."
            raise Invalid.at("/profile", words, "unknown_profile")
        return self._by_name[name]

    def all(self) -> Sequence[Profile]:
        """Return all profiles: first the built-in profiles by name, then the others by name."""
        return tuple(self._by_name.values())


def load_profiles(folder: Path | None) -> Profiles:
    """Load the built-in profiles, those of installed packages, and those in the sub-folders of a folder.

    A profile in the folder replaces a packaged profile with the same name.

    Raises:
        Invalid: if a profile is invalid (`invalid_profile`). The message lists each invalid file with its error.
    """
    # If profiles have the same name, the last one is used
    return Profiles([*_built_in(), *packaged_profiles()[0], *(_own(folder) if folder else ())])


@cache
def packaged_profiles() -> tuple[tuple[Profile, ...], Mapping[str, str]]:
    """Return the profiles of installed packages, and the errors of their entry points by name. Never raises.

    An entry point is a Python package, or a path. Each folder in it is a profile.
    """
    profiles: dict[str, Profile] = {}
    errors: dict[str, str] = {}
    for name, extension in extensions("redraft.profiles").items():
        try:
            found = {each.name: each for each in _read_extension(extension)}
        except ProfileError as error:
            errors[name] = f"{error.place}: {error.words}"
        else:
            profiles |= found
    return tuple(profiles.values()), errors


def _read_extension(extension: Extension) -> list[Profile]:
    if extension.error is not None:
        raise ProfileError(extension.name, extension.error)
    loaded = extension.loaded
    paths = [loaded] if isinstance(loaded, str | Path) else list(getattr(loaded, "__path__", ()))
    folders = [each for path in paths if Path(path).is_dir() for each in profile_files.folders(Path(path))]
    # Python's own folders, such as __pycache__, are no profiles
    found = [profile_files.read(each, is_built_in=False) for each in folders if not each.name.startswith("_")]
    if not found:
        raise ProfileError(extension.name, "is no package or path with a folder for each profile")
    return found


@cache
def _built_in() -> tuple[Profile, ...]:
    return tuple(profile_files.read(path, is_built_in=True) for _, path in sorted(BUILT_IN.items()))


def check_profiles(folder: Path) -> Sequence[Profile]:
    """Check the profiles in a folder, or a folder that is itself a profile. Raises Invalid like `load_profiles`."""
    if (folder / profile_files.PROFILE).exists():
        return _read_all([folder.absolute()])
    return _own(folder)


def _own(folder: Path) -> list[Profile]:
    if not folder.is_dir():
        raise Invalid(f"There is no folder {folder}: REDRAFT_PROFILES_DIR names one with profiles.", code=_CODE)
    if (folder / profile_files.PROFILE).exists():
        words = f"{folder} is itself a profile: REDRAFT_PROFILES_DIR names the folder above the folders of profiles."
        raise Invalid(words, code=_CODE)
    return _read_all(profile_files.folders(folder))


def _read_all(paths: Sequence[Path]) -> list[Profile]:
    profiles: list[Profile] = []
    wrong: list[str] = []
    for path in paths:
        try:
            profiles.append(profile_files.read(path, is_built_in=False))
        except ProfileError as error:
            wrong.append(f"\n  {error.place}: {error.words}")
    if wrong:
        raise Invalid("A profile cannot be used:" + "".join(wrong), code=_CODE)
    return profiles
