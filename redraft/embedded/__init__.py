"""Embedded mode: broker and worker as children of this process, over one data folder.

It is on exactly when `REDRAFT_BROKER_URL` is empty: then `stack` brings the schema up to date and starts
Valkey and one worker. With a broker of its own, an installation runs its parts itself, and `stack` starts
nothing. A database named by `REDRAFT_DATABASE_URL` is its owner's to upgrade.
"""

from redraft.embedded.stacks import Stack, stack

__all__ = ["Stack", "stack"]
