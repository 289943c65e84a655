"""The commands `redraft templates …`, which list, show, check, save and delete generator templates."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import options, output, sessions

if TYPE_CHECKING:
    from redraft.prompts.template_files import GeneratorTemplate

app = options.Group("List, show, check, save and delete generator templates. The default command is `list`.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the template.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with the files system.j2 and user.j2.")]


@app.add("list")
def list_all(*, as_json: options.AsJson = False) -> None:
    """List the templates, each with its current version.

    Templates are built in, in REDRAFT_TEMPLATES_DIR, or saved in the database.
    """
    from redraft.operations.template_lookup import list_templates

    with sessions.opened() as services:
        found = list_templates(services)
    if as_json:
        output.write_json({"data": [_data(each) for each in found]})
    else:
        output.show_table(found, _COLUMNS)


_COLUMNS: "output.Columns[GeneratorTemplate]" = {
    "template": lambda each: each.name,
    "version": lambda each: each.version,
    "origin": lambda each: each.origin,
    "variables": lambda each: ", ".join(sorted(each.variables)),
}


@app.add("show", "redraft templates show brief", "redraft templates show brief@0123456789ab")
def show(*, name: Name, as_json: options.AsJson = False) -> None:
    """Print the texts, the versions and the latest jobs of a template. NAME@VERSION selects one version."""
    from redraft.operations.admin.generator_templates import view_template

    with sessions.opened() as services:
        found = view_template(services, name)
    if as_json:
        rows: Mapping[str, Any] = {"versions": found.versions, "used_by": found.jobs}
        output.write_json({**_data(found.template), **rows})
        return
    output.show(found.template.reference, "bold")
    for file, text in found.template.texts.items():
        output.show(f"\n--- {file}", "bold")
        output.show(text)
    output.show("\nversions: " + (", ".join(each["version"] for each in found.versions) or "none is stored"))
    output.show("used by: " + (", ".join(each["job_id"] for each in found.jobs) or "no job"))


@app.add("check", "redraft templates check ./templates/brief")
def check(*, folder: Folder, as_json: options.AsJson = False) -> None:
    """Validate the template in a folder."""
    template = _read(folder)
    if as_json:
        output.write_json(_data(template))
    output.say(f"✓ {template.reference} can be used.", "green")


@app.add("save", "redraft templates save brief ./templates/brief")
def save(*, name: Name, folder: Folder, as_json: options.AsJson = False) -> None:
    """Store the files of a folder as the current version of a template. Earlier versions are kept."""
    from redraft.operations.admin.generator_templates import save_template

    texts = _read(folder).texts
    with sessions.opened() as services:
        template = save_template(services, name, texts)
    if as_json:
        output.write_json(_data(template))
    output.say(f"✓ {template.reference} is the current version of {name}.", "green")


@app.add("delete", "redraft templates delete brief")
def delete(*, name: Name, as_json: options.AsJson = False) -> None:
    """Delete a saved template. Past jobs keep the versions that they used. The command asks for no confirmation."""
    from redraft.operations.admin.generator_templates import delete_template

    with sessions.opened() as services:
        delete_template(services, name)
    output.say_deleted(name, as_json=as_json)


def _read(folder: Path) -> "GeneratorTemplate":
    from redraft.prompts.template_files import read_template

    if not folder.is_dir():
        raise typer.BadParameter(f"There is no folder {folder}.", param_hint="DIR")
    return read_template(folder.absolute())


def _data(template: "GeneratorTemplate") -> dict[str, Any]:
    return {
        "name": template.name,
        "version": template.version,
        "reference": template.reference,
        "origin": template.origin,
        "texts": dict(template.texts),
        "variables": sorted(template.variables),
    }
