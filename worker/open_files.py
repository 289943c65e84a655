"""Raises the limit of open files of a worker process, because each model call in flight has a socket."""

import resource
from contextlib import suppress

import structlog

log = structlog.get_logger()

# Connections to database and broker, logs, pipes to child processes
_OTHERS = 256
# A step with candidates or a panel makes several calls at once
_CALLS_PER_STEP = 4


def allow_descriptors(concurrency: int) -> None:
    """Raise the limit of open files to what the steps of this process need. Warn if the hard limit is too low.

    Many systems start processes with a soft limit of 1,024. At a high concurrency, calls would fail with this limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = min(_finite(hard), _CALLS_PER_STEP * concurrency + _OTHERS)
    if allowed > _finite(soft):
        # Some systems refuse even values below the hard limit
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    limit, needed = resource.getrlimit(resource.RLIMIT_NOFILE)[0], concurrency + _OTHERS
    if _finite(limit) < needed:
        advice = f"Raise the hard limit (ulimit -Hn), or lower REDRAFT_WORKER_CONCURRENCY={concurrency}."
        log.warning("too_few_open_files", limit=limit, needed=needed, advice=advice)


def _finite(limit: int) -> int:
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit
