"""What `--help` prints, on a terminal of 80 columns."""

from collections.abc import Iterator

import pytest
import typer
from typer.core import TyperGroup

from redraft.cli.commands import app
from tests.support.shells import Shell

SHELL = Shell({"COLUMNS": "80"})
GROUP = typer.main.get_group(app)


def commands(group: TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The words of each command, and the choices that its options name."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), [each.metavar for each in command.params if "|" in (each.metavar or "")]


@pytest.mark.parametrize(("path", "choices"), list(commands(GROUP)), ids=str)
def test_help_fits_80_columns_with_whole_choices_and_bare_flags(path: tuple[str, ...], choices: list[str]) -> None:
    done = SHELL.run(*path, "--help")
    assert done.code == 0
    assert "<bool>" not in done.out
    assert [each for each in choices if each not in done.out] == []
    options = done.out.partition("Options:")[2].partition("Examples:")[0]
    assert max(map(len, options.splitlines())) <= 80
    assert ("--output " in options) == ("-o, --output" in options)


@pytest.mark.parametrize("command", ["ask", "eval"])
def test_help_names_the_defaults_of_a_job(command: str) -> None:
    out = " ".join(SHELL.run(command, "--help").out.split())
    for words in ("(default: 3)", "(default: 0.8)", "(default: REDRAFT_MODEL)", "(default: revise)", "(default: 600)"):
        assert words in out


@pytest.mark.parametrize(
    "group", ["", *(name for name, each in GROUP.commands.items() if isinstance(each, TyperGroup))]
)
def test_the_list_of_commands_cuts_no_summary(group: str) -> None:
    lines = SHELL.run(*group.split(), "--help").out.partition("Commands:")[2].splitlines()
    assert [line for line in lines if line.endswith(("...", "…"))] == []
