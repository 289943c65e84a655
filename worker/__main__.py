"""`python -m worker`: one worker process; `redraft worker` starts it."""

from worker.app import celery_app, settings
from redraft.jobs import INTERACTIVE_QUEUE

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
