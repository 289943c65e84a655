"""Names the options of commands in messages."""

import re

from redraft.cli import output
from redraft.cli.options import JOB_OPTIONS

_COMMANDS = dict.fromkeys(("--max-cost", *(each.flag for each in JOB_OPTIONS)), "redraft ask") | {
    "--guidance": "redraft jobs continue"
}
_COMMAND_OR_OPTION = re.compile(r"\bredraft [^.`]*|(?<![\w-])--[a-z][a-z-]+")


def in_options(text: str) -> str:
    """Replace dotted names of request fields, such as `limits.max_tokens`, by the options that set these fields."""
    for each in JOB_OPTIONS:
        if "." in each.field:
            text = re.sub(rf"(?<![\w.]){re.escape(each.field)}(?!\w|\.\w)", each.flag, text)
    return with_commands(text)


def with_commands(text: str) -> str:
    """Name, after each option of a job that the running command lacks, a command that has the option."""
    names = output.command_options.get()

    def named(found: re.Match[str]) -> str:
        option = found[0]
        is_known = names is None or option in names or option not in _COMMANDS
        return option if is_known else f"{option} of `{_COMMANDS[option]}`"

    return _COMMAND_OR_OPTION.sub(named, text)
