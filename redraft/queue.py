"""Sends messages to workers, and notifications to clients that wait for a job.

All state is in the database, so a lost message only delays a step.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import redis
import structlog
from celery import Celery
from kombu import Exchange
from kombu import Queue as KombuQueue
from kombu.exceptions import KombuError
from redis.backoff import NoBackoff
from redis.exceptions import AskError, ClusterCrossSlotError, ClusterDownError, MasterDownError, NoPermissionError
from redis.retry import Retry

from redraft.errors import Unavailable
from redraft.messages import (
    BULK_QUEUE,
    CANARY_TASK,
    HEARTBEAT_COMMAND,
    INTERACTIVE_QUEUE,
    Delta,
    StepMessage,
    canary_queue,
    list_of,
    task_message,
)
from redraft.publisher import Publisher
from redraft.setting_values import kombu_url, redis_url
from redraft.settings import Settings

log = structlog.get_logger()

_BROKER_FAILURES = (KombuError, redis.RedisError, OSError)
# Failures that only a change of settings resolves, so a retry is useless
_REFUSALS = (redis.AuthenticationError, NoPermissionError, AskError, ClusterDownError, ClusterCrossSlotError)
# These keys never exist. They belong to different slots, so a cluster refuses a command for both
_NO_KEYS = ("redraft:none:1", "redraft:none:2")
# The sweeper repeats messages of unclaimed steps, so older messages would only fill the queue
_MESSAGE_LIFE_S = 120
_PAUSE_S = 2.0
# kombu reads the queues of priority 0 before those of priority 9, so single jobs come before items of runs
_LOWEST_PRIORITY = 9


def celery_options(settings: Settings, *, socket_timeout_s: float) -> dict[str, Any]:
    """Return the settings of Celery that differ from its defaults, or that we pin (docs/decisions/0002)."""
    return {
        "broker_url": kombu_url(settings.effective_broker_url),
        "accept_content": ["json"],
        "task_ignore_result": True,
        "task_default_queue": INTERACTIVE_QUEUE,
        # A message is only a notification: if it is lost, the sweeper sends another one
        "task_acks_late": False,
        "task_publish_retry": False,
        # A message waits in the broker until a thread is free, so that any worker can take it
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": True,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "broker_connection_retry_on_startup": True,
        # Reconnects have no limit, because a worker must survive a long outage of its broker
        "broker_connection_max_retries": None,
        # A reconnect helps during a failover, when the server answers READONLY, UNBLOCKED or MASTERDOWN
        "broker_channel_error_retry": True,
        "broker_connection_timeout": 1,
        "broker_pool_acquire_timeout": 1,
        "broker_transport_options": {
            "visibility_timeout": 300,
            "socket_timeout": socket_timeout_s,
            "socket_connect_timeout": 1,
            "socket_keepalive": True,
            "health_check_interval": 25,
            "retry_on_timeout": False,
            "max_retries": 0,
            "max_connections": 100,
        },
    }


def canary_listener(worker_id: str) -> KombuQueue:
    """Return the canary queue of a worker. It is not declared, so that the broker keeps no queues of ended workers."""
    name = canary_queue(worker_id)
    return KombuQueue(name, Exchange("canary"), routing_key=name, no_declare=True, no_ack=True)


def job_channel(job_id: str) -> str:
    return f"redraft:job:{job_id}"


def delta_channel(job_id: str) -> str:
    return f"redraft:delta:{job_id}"


class Queue:
    """Sends messages, best effort. A call takes about a second at most.

    After a failure of the broker, no message is sent for `_PAUSE_S`: otherwise hundreds of callers would wait a second.
    """

    def __init__(self, settings: Settings) -> None:
        self._paused_until = 0.0
        self._celery = Celery("redraft-sender", set_as_current=False)
        self._celery.conf.update(celery_options(settings, socket_timeout_s=1))
        self._redis = redis.Redis.from_url(
            redis_url(settings.effective_broker_url),
            socket_timeout=1,
            socket_connect_timeout=1,
            health_check_interval=25,
            retry=Retry(NoBackoff(), 0),
        )
        self._publisher = Publisher(self._redis, is_paused=self._is_paused, on_failure=self._pause)

    def notify(self, message: StepMessage) -> bool:
        """Notify the workers that a step is due. Return False if the broker fails; the sweeper then notifies them."""
        if message.is_bulk:
            return self._send(message.task, message.payload, BULK_QUEUE, priority=_LOWEST_PRIORITY)
        return self._send(message.task, message.payload, INTERACTIVE_QUEUE)

    def send_canary(self, worker_id: str) -> bool:
        """Send a worker a message, so that it can check that messages reach it. Return False if the broker refuses."""
        queue = canary_queue(worker_id)
        if not self._send(CANARY_TASK, {}, queue):
            return False
        with contextlib.suppress(*_BROKER_FAILURES):
            self._redis.expire(queue, _MESSAGE_LIFE_S)
        return True

    def _send(self, task: str, payload: dict[str, Any], queue: str, priority: int = 0) -> bool:
        message = task_message(task, payload, queue, priority=priority, life_s=_MESSAGE_LIFE_S)
        return self._attempt(partial(self._redis.lpush, list_of(queue, priority), message), task, payload)

    def _attempt(self, send: Callable[[], object], task: str, payload: Mapping[str, Any]) -> bool:
        """Call `send`, except in a pause. Return whether the broker accepted the message."""
        if self._is_paused():
            return False
        try:
            send()
        except _BROKER_FAILURES as error:
            log.warning("broker_unavailable", task=task, **payload, error=type(error).__name__)
            self._pause()
            return False
        return True

    def wake(self, job_id: str) -> None:
        """Wake the clients that wait for a change of this job. Clients also poll, since a notification may be lost."""
        self._publisher.publish(job_channel(job_id), "")

    def request_heartbeats(self) -> None:
        """Ask all workers for a heartbeat now, best effort. At a heartbeat, a worker aborts the calls of ended jobs."""
        self._attempt(partial(self._celery.control.broadcast, HEARTBEAT_COMMAND), HEARTBEAT_COMMAND, {})

    def publish_delta(self, job_id: str, delta: Delta) -> None:
        """Publish a piece of text to the clients that watch this job. The complete answer replaces lost pieces.

        Call `wake` for earlier events first, since clients receive notifications and pieces in the order of the calls.
        """
        self._publisher.publish(delta_channel(job_id), delta.encode())

    def _is_paused(self) -> bool:
        return time.monotonic() < self._paused_until

    def _pause(self) -> None:
        self._paused_until = time.monotonic() + _PAUSE_S

    def ping(self) -> None:
        """Send a write command for two keys. It fails for a user without write permission, and on a cluster.

        Raises Unavailable if the broker does not answer (`broker_unavailable`), or refuses the command
        (`broker_refuses`).
        """
        try:
            self._redis.delete(*_NO_KEYS)
        except _BROKER_FAILURES as error:
            # MasterDownError is a ClusterDownError, but it is transient: a failover causes it
            if isinstance(error, _REFUSALS) and not isinstance(error, MasterDownError):
                words = f"The broker refuses what Redraft needs: {str(error).rstrip('.')}. Check the user and the"
                words += " password in REDRAFT_BROKER_URL, and what that user may do; a cluster cannot be the broker."
                raise Unavailable(words, code="broker_refuses") from error
            words = f"The broker does not take messages ({type(error).__name__})."
            raise Unavailable(words, code="broker_unavailable") from error

    def close(self) -> None:
        self._publisher.close()
        self._redis.close()
        self._celery.close()
