"""Requests, rubrics, links and commands in the docs are valid as they are written there."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import TypeAdapter

from redraft.cli.commands import app
from redraft.domain.evaluation.rubrics import Rubric
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.text.languages import LANGUAGES
from tests.rules.sources import ROOT

_PAGES = ("criteria.md", "checks.md", "profiles.md", "grounding.md")
_BLOCK = re.compile(r"^```json\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_RUBRIC: TypeAdapter[Rubric] = TypeAdapter(Rubric)


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


def blocks() -> list[tuple[str, str]]:
    found = ((page, block) for page in _PAGES for block in _BLOCK.findall(text_of(page)))
    return [(page, block) for page, block in found if block.startswith("[") or '"instruct"' in block]


@pytest.mark.parametrize(("page", "block"), blocks())
def test_every_request_and_rubric_in_the_docs_is_accepted(page: str, block: str):
    value = json.loads(block)
    if isinstance(value, list):
        assert _RUBRIC.validate_python(value), page
    else:
        assert GenerateAnswer.model_validate(value).instruct, page


def test_there_are_examples():
    assert len(blocks()) >= 9
    assert sum(block.startswith("[") for _, block in blocks()) >= 1


def test_the_docs_list_the_languages_that_can_be_told_apart():
    listed = text_of("checks.md").partition("the languages with these codes (ISO 639-1):")[2].partition("\n## ")[0]
    assert re.findall(r"`([a-z]{2})`", listed) == sorted(LANGUAGES)


def documents() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_in_the_docs_leads_to_a_file_and_a_heading():
    broken: list[str] = []
    for page in documents():
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text("utf-8")):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.name}: {link}")
    assert broken == []


def commands_of(page: Path) -> Iterator[list[str]]:
    """The words of each `redraft …` in code and in console blocks, without comments and pipes."""
    text = re.sub(r"\\\n\s*", " ", page.read_text("utf-8"))
    prose = re.sub(r"\n(?!\n)\s*", " ", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    inline = re.findall(r"(?<!`)`redraft ([^`]+)`", prose)
    shown = re.findall(r"^\$ (?:\w+=\S+ )*redraft (.+)$", text, re.MULTILINE)
    for command in (*inline, *shown):
        plain = re.sub(r"\"[^\"]*\"|'[^']*'", "TEXT", command)
        yield re.split(r" #| \| | && ", plain)[0].split()


def subcommands(command: Any) -> dict[str, Any]:
    return getattr(command, "commands", {})


def fault_of(words: list[str], command: Any) -> str | None:
    while words and words[0] in subcommands(command):
        command, words = subcommands(command)[words[0]], words[1:]
    # A group without a command runs its first one, with that one's options.
    parameters = [each for taker in (command, *subcommands(command).values()) for each in taker.params]
    options = {name for each in parameters for name in (*each.opts, *each.secondary_opts)}
    unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in options | {"--help"}]
    return f"{command.name}: {unknown[0]}" if unknown else None


def test_every_option_that_the_docs_show_with_a_command_exists():
    root = typer.main.get_command(app)
    found = [words for page in documents() for words in commands_of(page)]
    assert len(found) > 100
    assert [fault for words in found if (fault := fault_of(words, root))] == []


def test_every_command_that_the_docs_show_exists():
    known = subcommands(typer.main.get_command(app))
    named = {words[0] for page in documents() for words in commands_of(page) if words}
    assert known
    assert {name for name in named if name.isalpha() and name not in known} == set()
