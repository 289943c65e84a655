"""Embedded mode: broker and worker as children of this process, over one data folder.

It is on if `REDRAFT_BROKER_URL` is empty: `stack` upgrades the schema and starts Valkey and one worker. Otherwise
`stack` starts nothing. It never upgrades a database that `REDRAFT_DATABASE_URL` names.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from redraft.embedded.stacks import Stack
    from redraft.settings import Settings


def stack(settings: "Settings", *, worker_log: "Path | None" = None) -> "AbstractContextManager[Stack]":
    """Run broker and worker within the block. Raises Unavailable if the broker or the database cannot be used.

    `worker_log` is the file for the output of the worker; None: our standard error.
    """
    # A module-level import would slow down the start of the guard, which is a module of this package
    from redraft.embedded.stacks import open_stack

    return open_stack(settings, worker_log)
