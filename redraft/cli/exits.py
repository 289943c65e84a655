"""The table from kinds of errors to exit codes, and the messages and advice for a person."""

import contextlib
import errno
import os
import re
import sys
import traceback
from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from redraft.cli import output
from redraft.errors import Conflict, FieldError, Forbidden, Invalid, NotFound, ProviderError, RedraftError, Unavailable
from redraft.redaction import redact


class Exit(IntEnum):
    """Exit codes."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_ACCEPTED = 3
    AUTH = 4
    NOT_FOUND = 5
    SOME_FAILED = 6
    UNREACHABLE = 75
    DEADLINE = 124
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
    (Conflict, Exit.ERROR),
    (RedraftError, Exit.ERROR),
)
_ADVICE = {
    "provider_auth": "Check the provider's key; `redraft models check` tries it, `redraft doctor` shows which is set.",
    "provider_quota": "Look at the plan and the billing of the provider's account, or choose another model.",
    "provider_rate_limited": "Wait a little, or choose another model.",
    "provider_timeout": "Try again later; REDRAFT_CALL_TIMEOUT_S allows longer calls.",
    "provider_unavailable": "Check the network and the base URL; `redraft models check MODEL` tries it.",
    "unknown_model": "`redraft models` lists what can be used; `redraft models check MODEL` tries one.",
    "context_too_long": "Do what the message says, or choose a model with a larger context.",
    "refused": "Say the task in other words, or choose another model.",
    "content_filtered": "Say the task in other words, or choose another model.",
    "output_truncated": "Allow more with --max-output-tokens in a new job, or continue with --guidance to be shorter.",
    "evaluator_invalid": "Choose another evaluator (--evaluator-model).",
    "draft_invalid": "Say more in the question, or choose another model.",
    "budget_exhausted": "Allow more with --max-tokens or --max-cost.",
    "run_budget_exhausted": "Give it a larger one: redraft eval --resume RUN --max-cost USD",
    "deadline_exceeded": "Allow more time with --deadline.",
    "worker_lost": "See the worker's log.",
    "webhooks_not_configured": "A server's own environment does not reach this command: set it in this shell too.",
    "broker_unavailable": "Check REDRAFT_BROKER_URL and that the broker runs; `redraft doctor` looks at all parts.",
    "database_unavailable": "Check REDRAFT_DATABASE_URL and that it runs; `redraft doctor` looks at all parts.",
}
# Where a field of a request comes from on the command line; of several names, the one that the command has
_OPTIONS = {
    "/defaults/instruct": "--map",
    "/instruct": "INSTRUCT",
    "/resp_format": "--format",
    "/eval_crit": "--crit",
    "/iter_max": "--iter-max",
    "/score_threshold": "--threshold",
    "/model": "--model MODEL",
    "/evaluator_model": "--evaluator-model",
    "/rubric": "--rubric",
    "/profile": "--profile",
    "/evaluation/panel": "--panel",
    "/evaluation/samples": "--samples",
    "/evaluation/audit": "--audit",
    "/evaluation/skip": "--skip",
    "/sources": "--source",
    "/grounding/mode": "--mode",
    "/grounding/output_format": "--output-format",
    "/grounding/citation_style": "--citation-style",
    "/grounding/template": "--template",
    "/answer_schema": "--schema",
    "/question": "QUESTION",
    "/iterations": "--iteration",
    "/candidates": "--candidates",
    "/revision/strategy": "--strategy",
    "/limits/deadline_s": "--deadline",
    "/limits/max_tokens": "--max-tokens",
    "/limits/max_cost_usd": "--max-cost",
    "/sampling/temperature": "--temperature",
    "/sampling/max_output_tokens": "--max-output-tokens",
    "/system_instructions": "--system",
    "/reference": "--reference",
    "/metadata": "--meta",
    "/guidance": "--guidance",
    "/after": "--after",
    "/criterion": "--criterion",
    "/candidate": "--candidate",
    "/score": "--score",
    "/evaluation_id": "--evaluation",
    "/note": "--note",
    "/name": "--name",
    "/repeat": "--repeat",
    "/max_in_flight": "--max-in-flight",
    "/max_cost_usd": "--max-cost",
    "/mapping": "--map",
    "/defaults": "--defaults",
    "/overrides": "--set",
    "/baseline": "--baseline BASE",
    "/webhook": "--webhook",
}


def exit_of(error: RedraftError) -> Exit:
    """The exit code of an error: by its code, else by its class."""
    return _BY_CODE.get(error.code) or next(code for kind, code in _BY_KIND if isinstance(error, kind))


def exit_of_code(code: str) -> Exit:
    """The exit code of a failed job, by its error's code."""
    return _BY_CODE.get(code, Exit.ERROR)


def in_options(text: str) -> str:
    """The text with the options of this program in place of a request's nested fields."""
    for pointer, option in _OPTIONS.items():
        field = pointer[1:].replace("/", ".")
        if "." in field:
            text = re.sub(rf"(?<![\w.]){re.escape(field)}(?!\w|\.\w)", option, text)
    return text


def advice(code: str) -> str | None:
    """Advice for an error code; empty where the user can do nothing."""
    return _ADVICE.get(code)


def complain(error: RedraftError, names: Collection[str] | None = None) -> None:
    """Print on stderr what is wrong, where, and what to do.

    Args:
        error: the error.
        names: the options and arguments of the command; None: any.
    """
    errors = error.errors if isinstance(error, Invalid) else ()
    places = [_place(field_error, names) if _is_given(error, field_error) else "" for field_error in errors]
    if len(errors) == 1 and errors[0].detail == error.message:
        output.say(f"Error: {places[0]}{error.message}", "red")
    else:
        output.say(f"Error: {error.message}", "red")
        for place, field_error in zip(places, errors, strict=True):
            if place or field_error.detail not in error.message:
                output.say(f"  {place}{field_error.detail}")
    if words := _words_after(error):
        output.say(words)


def _words_after(error: RedraftError) -> str | None:
    if isinstance(error, NotFound) and error.noun == "job":
        return "`redraft jobs list` shows the jobs there are; `redraft ask` makes one."
    if isinstance(error, NotFound) and error.noun == "run":
        return "`redraft runs list` shows the runs there are; `redraft eval` starts one."
    if isinstance(error, NotFound) and error.noun == "dataset":
        return "`redraft datasets list` shows the datasets there are; `redraft datasets import FILE` adds one."
    if isinstance(error, ProviderError) and error.retryable:
        return "Try again in a moment, or choose another model."
    return advice(error.code)


def _is_given(error: RedraftError, field_error: FieldError) -> bool:
    """Whether a validation error belongs to an option; an error in a row has no place on the command line."""
    return error.code != "no_good_rows" or field_error.pointer.startswith("/defaults/")


def _place(error: FieldError, names: Collection[str] | None) -> str:
    if not error.pointer:
        return ""
    field = error.pointer.removeprefix("/defaults") or error.pointer
    found = (name for start, name in _OPTIONS.items() if _is_within(field, start) or _is_within(error.pointer, start))
    choices = next(found, "").split()
    option = next((each for each in choices if names is None or each in names), None)
    return f"{option} ({error.pointer}): " if option else f"{error.pointer}: "


def _is_within(pointer: str, start: str) -> bool:
    return pointer == start or pointer.startswith(start + "/")


class GuardedGroup(TyperGroup):
    """The root of the commands: no expected error leaves it as a traceback."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the command, and end with the table's exit code."""
        output.is_debug.set(bool(ctx.params.get("debug")))
        # Both are emptied when the command runs
        names = _names_of(self, [*ctx._protected_args, *ctx.args])  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except RedraftError as error:
            _trace()
            complain(error, names)
            raise typer.Exit(exit_of(error)) from error
        except KeyboardInterrupt as error:
            output.say("Interrupted.", "yellow")
            raise typer.Exit(Exit.INTERRUPTED) from error
        except BrokenPipeError as error:
            _drop_output()
            raise typer.Exit(Exit.OK) from error
        except Exception as error:
            if isinstance(error, _TYPERS_OWN):
                raise
            if isinstance(error, OSError) and error.errno in _FULL:
                _drop_output()
                output.say(f"Error: it cannot be written: {error.strerror}. Make room, then try again.", "red")
                raise typer.Exit(Exit.ERROR) from error
            _trace()
            _confess(error)
            raise typer.Exit(Exit.ERROR) from error
        return result


def _names_of(command: Any, arguments: Sequence[str]) -> frozenset[str]:
    """The options and arguments of the command that a command line names."""
    while isinstance(command, TyperGroup):
        commands = command.commands
        command = next((commands[each] for each in arguments if each in commands), None)
    parameters = command.params if command else ()
    return frozenset(name for each in parameters for name in (*each.opts, (each.metavar or "").strip("[]")))


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_TYPERS_OWN = (typer.Abort, typer.Exit, TyperException)


def _trace() -> None:
    if output.is_debug.get():
        sys.stderr.write(redact(traceback.format_exc()))


def _confess(error: Exception) -> None:
    output.say(f"Something went wrong that should not: {type(error).__name__}: {redact(str(error))}", "red")
    if not output.is_debug.get():
        output.say("This is a bug in Redraft. `redraft --debug …` shows where it is.")


def _drop_output() -> None:
    """Redirect stdout to nowhere, since its reader has left: the interpreter would fail again when it flushes."""
    with contextlib.suppress(ValueError):  # a stream without a file has nobody to lose
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
