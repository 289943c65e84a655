"""Maps errors to exit codes, and prints errors with advice."""

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from redraft.cli import output
from redraft.cli.option_names import with_commands
from redraft.cli.options import JOB_OPTIONS
from redraft.errors import FieldError, Forbidden, Invalid, NotFound, ProviderError, RedraftError, Unavailable
from redraft.redaction import redact


class Exit(IntEnum):
    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_ACCEPTED = 3
    AUTH = 4
    NOT_FOUND = 5
    SOME_FAILED = 6
    # EX_TEMPFAIL of sysexits.h: the same command can succeed later
    UNREACHABLE = 75
    # The exit code of the program `timeout`
    DEADLINE = 124
    # The code by which a shell reports SIGINT: 128 + 2
    INTERRUPTED = 130


_BY_CODE = {
    "provider_auth": Exit.AUTH,
    "provider_timeout": Exit.UNREACHABLE,
    "provider_unavailable": Exit.UNREACHABLE,
    "deadline_exceeded": Exit.DEADLINE,
    "ambiguous_id": Exit.USAGE,
    "schema_outdated": Exit.ERROR,
}
_BY_KIND: tuple[tuple[type[RedraftError], Exit], ...] = (
    (NotFound, Exit.NOT_FOUND),
    (Invalid, Exit.USAGE),
    (Forbidden, Exit.AUTH),
    (Unavailable, Exit.UNREACHABLE),
)
_KEY = "Set REDRAFT_API_KEY to a key of the server; `redraft keys create NAME` on its machine creates one."
_ADVICE = {
    "provider_auth": "Check the provider's key: `redraft doctor` shows which keys are set.",
    "provider_quota": "Check the plan and the billing of the provider's account, or choose another model.",
    "provider_rate_limited": "Wait a moment, or choose another model.",
    "provider_timeout": "Try again later. A larger REDRAFT_CALL_TIMEOUT_S allows longer calls.",
    "provider_unavailable": "Check the network and the base URL; `redraft models check MODEL` tests the connection.",
    "unknown_model": "`redraft models` lists models; `redraft models check MODEL` tests a model.",
    "context_too_long": "Follow the message, or choose a model with a larger context.",
    "refused": "Rephrase the task, or choose another model.",
    "content_filtered": "Rephrase the task, or choose another model.",
    "output_truncated": "Set a larger --max-output-tokens in a new job, or ask for a shorter answer with --guidance.",
    "evaluator_invalid": "Choose another evaluator with --evaluator-model.",
    "check_failed": "Repair the server or the package that the message names.",
    "draft_invalid": "Give more details in the question, or choose another model.",
    "budget_exhausted": "Set a larger --max-tokens or --max-cost.",
    "nothing_to_evaluate_by": "Add criteria: --crit 'Correct and complete.', --check max_words=60, or in a file of "
    "rows a column eval_crit.",
    "run_budget_exhausted": "Set a larger budget: redraft eval --resume RUN --max-cost USD",
    "deadline_exceeded": "Set a longer --deadline.",
    "worker_lost": "Read the log of the worker.",
    "webhooks_not_configured": "Also set the secret in this shell: commands do not read the environment of a server.",
    "unauthenticated": _KEY,
    "invalid_key": _KEY,
    "insufficient_scope": "Set REDRAFT_API_KEY to a key of the server with this scope.",
    "server_not_reached": "Check the URL in REDRAFT_SERVER or --server, the network, and that the server runs.",
    "server_version": "Check the URL in REDRAFT_SERVER or --server. If it is right, the server and this program have "
    "different versions: update the older one.",
    "broker_unavailable": "Check REDRAFT_BROKER_URL and the broker. `redraft doctor` checks all parts.",
    "database_unavailable": "Check REDRAFT_DATABASE_URL and the database server. `redraft doctor` checks all parts.",
}
# The options or arguments that set each request field. If a field has several names, a message shows the name that the
# command has
_OPTIONS = {
    "/defaults/instruct": "--map",
    "/instruct": "INSTRUCT",
    **{f"/{each.field.replace('.', '/')}": each.flag for each in JOB_OPTIONS},
    "/model": "--model MODEL",
    "/sources": "--source",
    "/grounding/mode": "--mode",
    "/grounding/output_format": "--output-format",
    "/grounding/citation_style": "--citation-style",
    "/grounding/template": "--template",
    "/answer_schema": "--schema",
    "/question": "QUESTION",
    "/iterations": "--iteration",
    "/limits/max_cost_usd": "--max-cost",
    "/max_cost_usd": "--max-cost",
    "/mapping": "--map",
    "/overrides": "--set",
    "/baseline": "--baseline BASE",
    "/evaluation_id": "--evaluation",
    **{
        f"/{name}": f"--{name.replace('_', '-')}"
        for name in (
            *("reference", "guidance", "after", "criterion", "candidate", "score", "note", "name", "repeat"),
            *("max_in_flight", "defaults", "webhook"),
        )
    },
}


def exit_of(error: RedraftError) -> Exit:
    """Return the exit code of an error by its error code, or else by its class."""
    return _BY_CODE.get(error.code) or next((code for kind, code in _BY_KIND if isinstance(error, kind)), Exit.ERROR)


def exit_of_code(code: str) -> Exit:
    """Return the exit code of a failed job by its error code."""
    return _BY_CODE.get(code, Exit.ERROR)


def advice(code: str) -> str | None:
    """Return advice for an error code, or None if the code has no advice."""
    words = _ADVICE.get(code)
    return words and with_commands(words)


def _print_error(error: RedraftError, names: Collection[str]) -> None:
    """Print an error, the options that caused it, and advice on stderr. `names` are the options of the command."""
    errors = error.errors if isinstance(error, Invalid) else ()
    places = [_place(error, field_error, names) for field_error in errors]
    if len(errors) == 1 and errors[0].detail == error.message:
        output.say(f"Error: {places[0]}{error.message}", "red")
    else:
        output.say(f"Error: {error.message}", "red")
        for place, field_error in zip(places, errors, strict=True):
            if place or field_error.detail not in error.message:
                output.say(f"  {place}{field_error.detail}")
    if words := _words_after(error):
        output.say(words)


_LISTS = {
    "job": "`redraft jobs list` lists the jobs; `redraft ask` creates a job.",
    "run": "`redraft runs list` lists the runs; `redraft eval` starts a run.",
    "dataset": "`redraft datasets list` lists the datasets; `redraft datasets import FILE` adds a dataset.",
}


def _words_after(error: RedraftError) -> str | None:
    if isinstance(error, NotFound):
        return _LISTS.get(error.noun)
    if isinstance(error, ProviderError) and error.retryable:
        return "Try again in a moment, or choose another model."
    if isinstance(error, Invalid) and any(each.pointer == "/grounding/template" for each in error.errors):
        return "--generator-template selects a template of the generator's prompt."
    codes = [error.code, *(each.code for each in error.errors)] if isinstance(error, Invalid) else [error.code]
    return next(filter(None, map(advice, codes)), None)


def _place(error: RedraftError, field_error: FieldError, names: Collection[str]) -> str:
    # No option of the command line causes an error in a row
    if not field_error.pointer or (error.code == "no_good_rows" and not field_error.pointer.startswith("/defaults/")):
        return ""
    field = field_error.pointer.removeprefix("/defaults") or field_error.pointer
    checks = output.given_checks.get().items()
    if check := next((text for start, text in checks if _is_within(field, start)), None):
        return f"--check {check}: "
    found = (
        name for start, name in _OPTIONS.items() if _is_within(field, start) or _is_within(field_error.pointer, start)
    )
    option = next((each for each in next(found, "").split() if each in names), None)
    return f"{option} ({field_error.pointer}): " if option else f"{field_error.pointer}: "


def _is_within(pointer: str, start: str) -> bool:
    return pointer == start or pointer.startswith(start + "/")


class GuardedGroup(TyperGroup):
    """The root of the commands, which turns exceptions into messages and exit codes."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the command. If it raises an exception, exit with the exit code of the exception."""
        output.is_debug.set(bool(ctx.params.get("debug")))
        output.given_checks.set({})
        # The names are read now, because Typer empties both lists of arguments when the command runs
        names = _names_of(self, [*ctx._protected_args, *ctx.args])  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        output.command_options.set(names)
        try:
            result = super().invoke(ctx)
            # A closed pipe must raise here, and not in the interpreter's last flush, where no code can handle it
            sys.stdout.flush()
        except (typer.Abort, typer.Exit, TyperException):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise typer.Exit(_report(error, names)) from error
        return result


def _names_of(command: Any, arguments: Sequence[str]) -> frozenset[str]:
    """Return the options and arguments of the command that a command line selects."""
    while isinstance(command, TyperGroup):
        commands = command.commands
        command = next((commands[each] for each in arguments if each in commands), next(iter(commands.values())))
    return frozenset(name for each in command.params for name in (*each.opts, (each.metavar or "").strip("[]")))


def _report(error: BaseException, names: Collection[str]) -> Exit:
    """Print an error that ends a command, and return the exit code."""
    match error:
        case RedraftError():
            _print_trace()
            _print_error(error, names)
            return exit_of(error)
        case KeyboardInterrupt():
            output.say("Interrupted.", "yellow")
            return Exit.INTERRUPTED
        # A reader such as `head` closes the pipe when it has enough lines, so this is not an error
        case BrokenPipeError():
            _drop_output()
            return Exit.OK
        # A full disk is not a bug in Redraft, so it must not cause the message about a bug
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG):
            _drop_output()
            output.say(
                f"Error: the output cannot be written: {error.strerror}. Free some disk space, then try again.", "red"
            )
        case _:
            _print_trace()
            output.say(f"Unexpected error: {type(error).__name__}: {redact(str(error))}", "red")
            if not output.is_debug.get():
                output.say("This is a bug in Redraft. `redraft --debug …` prints the traceback.")
    return Exit.ERROR


def _print_trace() -> None:
    if output.is_debug.get():
        # Messages of drivers can repeat a key, or a URL with a password
        sys.stderr.write(redact(traceback.format_exc()))


def _drop_output() -> None:
    """Redirect stdout to the null device, because the last flush of the interpreter would fail again."""
    with contextlib.suppress(ValueError):  # A stream without a file descriptor needs no redirection
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
