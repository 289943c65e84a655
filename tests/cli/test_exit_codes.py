"""Exit codes, errors in words, interruptions, pipes, help."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextvars import Context, copy_context
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from redraft.cli import exit_codes, option_names, options, output
from redraft.cli.exit_codes import Exit, GuardedGroup
from redraft.errors import Conflict, FieldError, Forbidden, Invalid, NotFound, ProviderError, RedraftError, Unavailable
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.shells import Shell, command_line

CASES = [
    (RedraftError("It broke."), 1),
    (Conflict("Not now."), 1),
    (Invalid("Wrong."), 2),
    (Conflict("Which?", code="ambiguous_id"), 2),
    (Forbidden("No."), 4),
    (Invalid.at("/model", "no key", "provider_auth"), 4),
    (ProviderError("provider_auth", "no key"), 4),
    (ProviderError("provider_quota", "empty"), 1),
    (NotFound("job", "x"), 5),
    (Unavailable("Away."), 75),
    (ProviderError("provider_unavailable", "away"), 75),
    (RedraftError("Late.", code="deadline_exceeded"), 124),
    (KeyboardInterrupt(), 130),
    (BrokenPipeError(), 0),
    (ZeroDivisionError("oops"), 1),
]


def failing(error: BaseException) -> typer.Typer:
    """A command line like ours with one command, which fails."""
    line = typer.Typer(cls=GuardedGroup, pretty_exceptions_enable=False)

    @line.callback()
    def main(*, debug: bool = False) -> None: ...

    @line.command()
    def fail(model: Annotated[str, typer.Argument(metavar="[MODEL]")] = "", *, iter_max: int = 1) -> None:
        raise error

    return line


@pytest.mark.parametrize(("error", "code"), CASES, ids=lambda value: repr(value)[:40])
def test_each_kind_of_error_has_its_exit_code(error: BaseException, code: int) -> None:
    result = CliRunner().invoke(failing(error), ["fail"])
    assert result.exit_code == code
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_field_errors_are_told_one_by_one() -> None:
    errors = (
        FieldError("/iter_max", "too large", "x"),
        FieldError("/odd", "not known", "x"),
        FieldError("", "neither", "x"),
    )
    told = CliRunner().invoke(failing(Invalid("The request is not valid.", errors)), ["fail"]).stderr
    assert told.splitlines() == [
        "Error: The request is not valid.",
        "  --iter-max (/iter_max): too large",
        "  /odd: not known",
        "  neither",
    ]


def test_a_field_error_names_what_the_command_has_and_nothing_that_its_message_says() -> None:
    errors = (
        FieldError("/model", "is unknown", "x"),
        FieldError("/samples", "too many", "x"),
        FieldError("", "Line 1: bad", "x"),
    )
    told = CliRunner().invoke(failing(Invalid("No row is good. Line 1: bad", errors)), ["fail", "foo"]).stderr
    assert told.splitlines() == [
        "Error: No row is good. Line 1: bad",
        "  MODEL (/model): is unknown",
        "  /samples: too many",
    ]


def test_ctrl_c_while_the_commands_are_imported_shows_no_traceback(tmp_path: Path) -> None:
    probe = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'redraft.cli.commands': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from redraft.cli.main import run; run()"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_bug_is_confessed_and_debug_shows_where_it_is() -> None:
    line = failing(ZeroDivisionError("oops"))
    told = CliRunner().invoke(line, ["fail"]).stderr
    assert "ZeroDivisionError: oops" in told
    assert "redraft --debug" in told
    assert "Traceback" in CliRunner().invoke(line, ["--debug", "fail"]).stderr


def test_every_advice_and_code_is_one_that_exists() -> None:
    from redraft.domain.jobs.job_errors import TITLES

    known = {*TITLES, "broker_unavailable", "database_unavailable"}
    assert {code for code in known if exit_codes.advice(code)} >= known - {
        "provider_bad_request",
        "empty_output",
        "schema_mismatch",
        "budget_exhausted",
        "canceled",
    }
    assert exit_codes.exit_of_code("provider_auth") is Exit.AUTH
    assert exit_codes.exit_of_code("refused") is Exit.ERROR


def test_ctrl_c_cancels_and_prints_the_best_so_far(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["first draft", Reply(text="never", latency_s=60)], evaluate=[0.5])
    ask = office.start("ask", "Write.", "--crit", "Good.")
    ask.wait_says("Iteration 2")
    assert (ask.interrupt(), ask.stdout) == (130, "first draft\n")
    assert "redraft jobs continue job_" in ask.stderr
    assert "Traceback" not in ask.stderr
    job = office.run("jobs", "show", ask.stderr.partition("jobs continue ")[2].split()[0], "--json").data
    assert (job["status"], job["stop_reason"]) == ("canceled", "canceled")
    calls = office.run("jobs", "calls", job["id"], "--json").data["data"]
    assert f" · {len(calls)} calls · " in ask.stderr


def test_ctrl_c_while_watching_leaves_the_job_alone(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=[Reply(text="never", latency_s=60)])
    job_id = office.run("ask", "Write.", "--crit", "Good.", "--detach").out.strip()
    watch = office.start("jobs", "watch", job_id)
    watch.wait_says("Iteration 1")
    assert (watch.interrupt(), watch.stdout) == (130, "")
    assert f"redraft jobs watch {job_id}" in watch.stderr
    assert office.run("jobs", "show", job_id, "--json").data["status"] == "running"
    office.run("jobs", "cancel", job_id)


def test_a_reader_that_leaves_early_is_no_trouble(shell: Shell, add_job: Callable[..., str]) -> None:
    add_job("Long. " * 30_000)
    reader, writer = os.pipe()
    os.close(reader)
    show = shell.start("jobs", "show", is_fork=False, stdout=writer)
    os.close(writer)
    assert (show.wait(), show.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a disk that is always full")
def test_a_full_disk_is_no_bug(shell: Shell, add_job: Callable[..., str]) -> None:
    add_job("An answer.")
    with Path("/dev/full").open("w") as full:
        listing = shell.start("jobs", "list", "--json", is_fork=False, stdout=full.fileno())
        assert listing.wait() == 1
    assert (
        listing.stderr
        == "Error: the output cannot be written: No space left on device. Free some disk space, then try again.\n"
    )


def test_help_and_version_need_none_of_the_heavy_parts() -> None:
    heavy = "{'celery', 'sqlalchemy', 'uvicorn', 'openai', 'anthropic', 'fastapi', 'redis', 'alembic', 'pydantic'}"
    probe = f"import sys, redraft.cli.commands; print({heavy} & set(sys.modules))"
    # Other commands compare the revisions of the database and the program, which needs no Alembic
    probe += "; from redraft.storage.engine import schema; schema.head(); print('alembic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["set()", "False"]


def commands(group: object = None, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command's words."""
    found = [path]
    for name, inner in getattr(group or command_line(), "commands", {}).items():
        found += commands(inner, (*path, name))
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_and_option_is_explained(words: tuple[str, ...]) -> None:
    assert Shell({"COLUMNS": "200", "NO_COLOR": "1"}).run(*words, "--help").code == 0
    command = command_line()
    for word in words:
        command = command.commands[word]
    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{' '.join(words)}: {parameter.name}"


def test_the_version_is_printed(shell: Shell) -> None:
    assert shell.run("--version").out.startswith("redraft 0.")


@pytest.mark.parametrize("words", [["nope"], ["jobs", "nope"], ["jobs", "cancel"], ["ask", "Hi", "--nope"]])
def test_wrong_usage_is_2(shell: Shell, words: list[str]) -> None:
    assert shell.run(*words).code == 2


def test_a_message_names_the_options_of_nested_fields():
    text = "Raise sampling.max_output_tokens (generator), not sampling.max_output_tokens.x."
    told = Context().run(option_names.in_options, text)
    assert told == "Raise --max-output-tokens (generator), not sampling.max_output_tokens.x."


def test_an_option_that_the_command_lacks_is_named_with_a_command_that_has_it() -> None:
    def told(names: list[str]) -> tuple[str | None, str]:
        output.command_options.set(names)
        return exit_codes.advice("output_truncated"), option_names.in_options("Raise sampling.max_output_tokens.")

    asked, continued = (copy_context().run(told, [name]) for name in ("--max-output-tokens", "--guidance"))
    assert (asked[0] or "").endswith("ask for a shorter answer with --guidance of `redraft jobs continue`.")
    assert asked[1] == "Raise --max-output-tokens."
    assert (continued[0] or "").endswith("with --guidance.")
    assert continued[1] == "Raise --max-output-tokens of `redraft ask`."


def test_the_option_of_a_field_is_the_first_spelling_that_the_command_has():
    ask = command_line().commands["ask"]
    spellings = {parameter.name: parameter.opts[0] for parameter in ask.params}
    assert {each.name: each.flag for each in options.JOB_OPTIONS} == {
        each.name: spellings[each.name] for each in options.JOB_OPTIONS
    }
