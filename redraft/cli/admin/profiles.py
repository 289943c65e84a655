"""The commands `redraft profiles …`, which list, show and validate evaluation profiles."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import options, output, sessions
from redraft.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redraft.prompts.profiles import Profile, Profiles

app = options.Group("List, show and check evaluation profiles. The default command is `list`.")


@app.add("list")
def list_profiles(*, as_json: options.AsJson = False) -> None:
    """List the built-in profiles and your own.

    Your own profiles are in the folder that REDRAFT_PROFILES_DIR names.
    """
    _print_profiles(_load().all(), as_json=as_json)


@app.add("show", "redraft profiles show evidence")
def show(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile.")],
    as_json: options.AsJson = False,
) -> None:
    """Print the inputs, the prompts and the reply fields of a profile."""
    profiles = _load().all()
    found = next((each for each in profiles if each.name == name), None)
    if found is None:
        output.say(f"The profiles are {', '.join(each.name for each in profiles)}.")
        raise NotFound("profile", name)
    if as_json:
        output.write_json(_data(found))
        return
    output.show(f"{found.name} {found.version}: {found.title}", "bold")
    output.show(found.description)
    output.show(f"inputs: {', '.join(found.sees)}")
    for role, field in found.mapping.items():
        output.show(f"{role}: {field if isinstance(field, str | bool) else ', '.join(field)}")
    for template, text in found.templates.items():
        output.show(f"\n--- {template}.j2", "bold")
        output.show(text)


@app.add("check", "redraft profiles check ./profiles")
def check(
    *,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of one profile, or a folder with one subfolder per profile.")
    ],
    as_json: options.AsJson = False,
) -> None:
    """Validate the profiles in a folder, and print all errors."""
    from redraft.prompts.profiles import check_profiles

    if not folder.is_dir():
        raise typer.BadParameter(f"There is no folder {folder}.", param_hint="DIR")
    found = check_profiles(folder)
    _print_profiles(found, as_json=as_json)
    output.say(f"✓ {len(found)} profile{'' if len(found) == 1 else 's'} can be used.", "green")


def _load() -> "Profiles":
    from redraft.prompts.profiles import load_profiles

    return load_profiles(sessions.load_settings().profiles_dir)


def _print_profiles(profiles: "Sequence[Profile]", *, as_json: bool) -> None:
    if as_json:
        output.write_json({"data": [_data(profile) for profile in profiles]})
        return
    columns: output.Columns[Profile] = {
        "profile": lambda each: each.name,
        "version": lambda each: each.version,
        "origin": lambda each: "built in" if each.is_built_in else "own",
        "title": lambda each: each.title,
    }
    output.show_table(profiles, columns)


def _data(profile: "Profile") -> dict[str, Any]:
    data = {name: value for name, value in asdict(profile).items() if name not in {"reply", "is_built_in"}}
    return {**data, "built_in": profile.is_built_in}
