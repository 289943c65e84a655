"""Embedded mode: broker and worker as children of this process, over one data folder.

It is on exactly when `REDRAFT_BROKER_URL` is empty: then `stack` brings the schema up to date and starts
Valkey and one worker. With a broker of its own, an installation runs its parts itself, and `stack` starts
nothing. A database named by `REDRAFT_DATABASE_URL` is its owner's to upgrade.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from redraft.embedded.stacks import Stack
    from redraft.settings import Settings


def stack(settings: "Settings", *, worker_log: "Path | None" = None) -> "AbstractContextManager[Stack]":
    """What is needed to run jobs on this machine, while the block lasts; nothing with a broker of one's own.

    Args:
        settings: the data folder, and all that the worker is to know.
        worker_log: the file for the worker's output; None: our standard error.

    Raises:
        Unavailable: the broker does not start, or the database cannot be used.
    """
    # The guard is a module of this package, and must start at once.
    from redraft.embedded.stacks import open_stack

    return open_stack(settings, worker_log)
