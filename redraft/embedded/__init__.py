"""Embedded mode: broker and worker run as children of this process, and share one data folder.

The mode is on if `REDRAFT_BROKER_URL` is empty: `stack` upgrades the schema and starts Valkey and one worker. Otherwise
`stack` starts nothing. `stack` never upgrades a database that `REDRAFT_DATABASE_URL` names.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from redraft.embedded.stacks import Stack
    from redraft.embedded.stop_signals import StopSignals
    from redraft.settings import Settings


@contextmanager
def stack(
    settings: "Settings", *, worker_log: "Path | None" = None, signals: "StopSignals | None" = None
) -> "Generator[Stack]":
    """Run broker and worker during the block. Raises Unavailable if the broker or the database cannot be used.

    Args:
        settings: the settings of the stack.
        worker_log: the file for the output of the worker; None: the standard error of this process.
        signals: the first signal ends the wait for the broker, so that the block begins without a broker. The second
            signal ends the grace period of the worker.
    """
    # A module-level import would slow down the start of the guard, which is a module of this package
    from redraft.embedded.stacks import Stack

    built = Stack(settings, worker_log, signals)
    try:
        if settings.is_embedded_broker:
            built.open()
        yield built
    finally:
        built.close()
