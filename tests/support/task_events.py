"""Receives the task events of workers, as Flower does."""

import threading
from typing import Any, Self

from celery import Celery

from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

_ENDS = frozenset({"task-succeeded", "task-failed", "task-retried"})


class TaskEvents:
    """A context manager that collects all task events on a broker."""

    def __init__(self, valkey: ValkeyServer) -> None:
        self._valkey = valkey
        self._app = Celery(broker=valkey.url, set_as_current=False)
        self._connection = self._app.connection_for_read()
        self._receiver = self._app.events.Receiver(self._connection, handlers={"*": self._add})
        self._thread = threading.Thread(target=self._receiver.capture, kwargs={"wakeup": False})
        self.all = list[dict[str, Any]]()

    def _add(self, event: dict[str, Any]) -> None:
        if event["type"].startswith("task-"):
            self.all.append(event)

    def __enter__(self) -> Self:
        with self._valkey.client() as broker:
            before = broker.pubsub_numpat()
            self._thread.start()
            # An event that is sent before the subscription reaches nobody
            wait_until(lambda: broker.pubsub_numpat() > before, what="the subscription")
        return self

    def __exit__(self, *_: object) -> None:
        self._receiver.should_stop = True
        self._thread.join()
        self._connection.close()
        self._app.close()

    def of(self, task_id: str) -> list[dict[str, Any]]:
        return [event for event in self.all if event["uuid"] == task_id]

    def kinds_of(self, task_id: str, *, ends: int = 1) -> list[str]:
        """The types of the task's events, as soon as this many of its attempts have ended."""
        wait_until(lambda: sum(e["type"] in _ENDS for e in self.of(task_id)) >= ends, what=f"the end of {task_id}")
        return [event["type"] for event in self.of(task_id)]
