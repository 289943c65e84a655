"""`python -m worker`: one worker process; `redraft worker` starts it.

With `--embedded` it is a child of `redraft.embedded`: it begins when its parent says so, and ends with it.
"""

import sys

from redraft.embedded.lifelines import EMBEDDED, await_begin, end_with_parent
from redraft.jobs import INTERACTIVE_QUEUE
from worker.app import celery_app, settings

# Nobody waits for a worker whose parent was killed; its leases go back to the next one.
_ORPHAN_GRACE_S = 4.0


def _is_wanted() -> bool:
    if EMBEDDED not in sys.argv[1:]:
        return True
    if not await_begin():
        return False
    end_with_parent(min(settings.shutdown_grace_s, _ORPHAN_GRACE_S))
    return True


if __name__ == "__main__" and _is_wanted():
    celery_app.start(
        [
            "--quiet",
            "worker",
            "--pool=threads",
            f"--concurrency={settings.worker_concurrency}",
            f"--queues={INTERACTIVE_QUEUE}",
            f"--loglevel={settings.log_level}",
            "--without-gossip",
            "--without-mingle",
        ]
    )
