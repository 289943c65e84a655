"""`python -m worker`: one worker process; `redraft worker` starts it.

With `--embedded` it is a child of `redraft.embedded`: it begins when its parent says so, and ends with it.
"""

import os
import socket
import sys

from redraft.embedded.lifelines import EMBEDDED, await_begin, end_with_parent
from worker.app import celery_app, settings
from worker.doorbell import ThreadPool

# Nobody waits for a worker whose parent was killed; its leases go back to the next one.
_ORPHAN_GRACE_S = 4.0
# Threads that wait for their turn wake up each time to ask for it: at Python's own 5 ms, a twelfth of a full worker.
_SWITCH_S = 0.02


def _is_wanted() -> bool:
    if EMBEDDED not in sys.argv[1:]:
        return True
    if not await_begin():
        return False
    end_with_parent(min(settings.shutdown_grace_s, _ORPHAN_GRACE_S))
    return True


def main() -> int:
    sys.setswitchinterval(_SWITCH_S)
    worker = celery_app.Worker(
        hostname=f"redraft-{os.getpid()}@{socket.gethostname()}",
        pool_cls=ThreadPool,
        concurrency=settings.worker_concurrency,
        loglevel=settings.log_level,
        quiet=True,
        without_gossip=True,
        without_mingle=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


if __name__ == "__main__" and _is_wanted():
    # Through the class, not the command line, which imports a whole shell for each worker.
    sys.exit(main())
