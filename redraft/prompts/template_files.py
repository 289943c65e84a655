"""Reads, checks and renders generator templates: the texts from which a generator's prompt is built.

A template has two texts, `system.j2` and `user.j2`. Redraft itself computes the parts that every prompt needs, such as
the sources in their frames. The texts show these parts as variables.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from redraft.domain.bodies.fields import MAX_TEXT
from redraft.domain.jobs.requests import ProfileName
from redraft.errors import Invalid
from redraft.prompts.text_templates import TemplateFault, names_in, render

CODE = "invalid_template"
SYSTEM, USER = "system.j2", "user.j2"
PARTS: Mapping[str, tuple[str, ...]] = {
    SYSTEM: ("system_instructions", "grounding_rules"),
    USER: ("instruct", "resp_format", "sources", "criteria", "schema"),
}
"""The variables that each text must show exactly once. A part that a job does not have is an empty text."""
STANDARD, SHORT = "standard", "short"
"""The built-in templates: the default of all models except the bundled one, and the default of the bundled model."""
_BUILT_IN = Path(__file__).parent / "generator_templates"
_NAMES = frozenset(name for names in PARTS.values() for name in names)


@dataclass(frozen=True, slots=True)
class GeneratorTemplate:
    """A named template. `texts` are its files by name, and `version` is a hash of them."""

    name: str
    version: str
    texts: Mapping[str, str]
    is_file: bool

    @property
    def reference(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def origin(self) -> str:
        """`built-in`, `file` (of REDRAFT_TEMPLATES_DIR) or `saved` (by an administrator)."""
        if not self.is_file:
            return "saved"
        return "built-in" if self.name in built_in_templates() else "file"

    @property
    def variables(self) -> frozenset[str]:
        """The names of `vars` that the texts use; the name `vars` if the texts use all of them."""
        return frozenset(name for text in self.texts.values() for name in names_in(text)) - _NAMES

    def render(self, file: str, parts: Mapping[str, str], variables: Mapping[str, Any]) -> str:
        """Render a text.

        Raises TemplateFault if a variable is missing, or if the text becomes too long or does not show each part.
        """
        # The parts do not count against the limit, because their lengths depend on the job
        most = MAX_TEXT + sum(map(len, parts.values()))
        return render(self.texts[file], variables, parts=parts, most=most).strip("\n")


def make_template(name: str, texts: Mapping[str, str], *, is_file: bool = False) -> GeneratorTemplate:
    """Check the texts of a template. Raises Invalid (`invalid_template`) with the first error of each text."""
    try:
        TypeAdapter(ProfileName).validate_python(name)
    except ValidationError:
        words = f"{name!r} is no name of a template: use small letters, digits, - and _, and begin with a small letter."
        raise Invalid.at("/name", words, CODE) from None
    texts = {file: texts[file].replace("\r\n", "\n").replace("\r", "\n") for file in PARTS}
    # With the lengths, texts that are divided differently into files give another version
    whole = "".join(f"{file}\0{len(text)}\0{text}" for file, text in texts.items())
    template = GeneratorTemplate(name, hashlib.sha256(whole.encode()).hexdigest()[:12], texts, is_file)
    for file, names in PARTS.items():
        try:
            _check(template, file, names)
        except TemplateFault as fault:
            raise Invalid.at(f"/{file.removesuffix('.j2')}", f"{name}/{file} {fault}.", CODE) from None
    return template


def _check(template: GeneratorTemplate, file: str, names: tuple[str, ...]) -> None:
    variables = dict.fromkeys(names_in(template.texts[file]) - _NAMES, "VALUE")
    if foreign := sorted((names_in(template.texts[file]) & _NAMES).difference(names)):
        raise TemplateFault(f"cannot use {foreign[0]}; it is a part of the other text", CODE)
    # A condition in a template may hide a part, so the template is tried with and without the optional parts
    for parts in (_sample(names, is_full=True), _sample(names, is_full=False)):
        template.render(file, parts, variables)


def _sample(names: tuple[str, ...], *, is_full: bool) -> dict[str, str]:
    return {name: f"<The sample of: {name}>" if is_full or name == "instruct" else "" for name in names}


@cache
def built_in_templates() -> Mapping[str, GeneratorTemplate]:
    """Return the built-in templates by name."""
    return _read_all(_BUILT_IN)


def load_templates(folder: Path | None) -> Mapping[str, GeneratorTemplate]:
    """Return the built-in templates and those in the sub-folders of a folder, by name.

    Raises Invalid if there is no such folder, a template is not valid, or a template has the name of a built-in one
    (`invalid_template`).
    """
    if folder is None:
        return built_in_templates()
    if not folder.is_dir():
        raise Invalid(f"There is no folder {folder}: REDRAFT_TEMPLATES_DIR names one with templates.", code=CODE)
    own = _read_all(folder)
    if taken := sorted(own.keys() & built_in_templates().keys()):
        raise Invalid(f"{folder / taken[0]}: {taken[0]} is a built-in template; rename the folder.", code=CODE)
    return {**built_in_templates(), **own}


def _read_all(folder: Path) -> dict[str, GeneratorTemplate]:
    paths = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return {path.name: read_template(path) for path in paths}


def read_template(folder: Path) -> GeneratorTemplate:
    """Read a template from its folder. Raises Invalid (`invalid_template`)."""
    found = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if found != sorted(PARTS):
        words = (
            f"A template has exactly the files {' and '.join(PARTS)}; {folder.name} has {', '.join(found) or 'none'}."
        )
        raise Invalid(words, code=CODE)
    return make_template(folder.name, {file: _text(folder / file) for file in PARTS}, is_file=True)


def _text(path: Path) -> str:
    root = path.parent.parent.resolve()
    if not path.resolve().is_relative_to(root):
        raise Invalid(f"{path.parent.name}/{path.name} is a link that leads out of {root}.", code=CODE)
    if path.stat().st_size > MAX_TEXT:
        raise Invalid(f"{path.parent.name}/{path.name} has more than {MAX_TEXT:,} bytes.", code=CODE)
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path.parent.name}/{path.name} cannot be read as UTF-8 text: {error}.", code=CODE) from None
