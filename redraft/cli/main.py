"""The entry point of the console script `redraft`."""

import contextlib
import sys
from io import TextIOWrapper

# A copy of `Exit.INTERRUPTED`, because an import of `exit_codes` could itself be interrupted
_INTERRUPTED = 130


def run() -> None:
    """Run the command line. Ctrl-C during the import of the commands ends the process without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # An answer can contain characters that the encoding of the terminal lacks
            with contextlib.suppress(ValueError):
                stream.reconfigure(errors="backslashreplace")
    try:
        # The import takes a moment, so it is within the `try`
        from redraft.cli.commands import app

        app()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
