"""`python -m worker`: one worker process; `redraft worker` starts it."""

from redraft.jobs import INTERACTIVE_QUEUE
from worker.app import celery_app, settings

if __name__ == "__main__":
    celery_app.worker_main(
        [
            "worker",
            "--pool=threads",
            f"--concurrency={settings.worker_concurrency}",
            f"--queues={INTERACTIVE_QUEUE}",
            f"--loglevel={settings.log_level}",
            "--without-gossip",
            "--without-mingle",
        ]
    )
