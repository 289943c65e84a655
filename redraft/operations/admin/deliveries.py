"""Sends webhooks: takes due entries out of the outbox, posts them side by side, and stores what came of it.

Every worker process does it. An entry is leased while it is sent, so that two workers do not send it at once; a worker
that dies between sending and storing leaves an entry that is sent again, under the same `webhook-id`.
"""

import threading
import time
from collections import Counter
from functools import partial
from typing import Any

import structlog

from redraft import __version__
from redraft.domain.admin.urls import read_url
from redraft.domain.jobs.webhooks import body_of, headers_of, read_retry_after, wait_s
from redraft.errors import Forbidden, Invalid, Unavailable
from redraft.operations.jobs.webhooks import keys_of
from redraft.operations.services import Services
from redraft.outbound import Reply
from redraft.storage.engine.columns import DbNow
from redraft.storage.jobs import webhooks
from redraft.storage.jobs.webhooks import Claimed

log = structlog.get_logger()

AT_ONCE_MAX = 16
"""Deliveries at once in a worker process."""
PER_RECEIVER_MAX = 2
"""Of these to the same host and port."""
SLOW_AT_ONCE_MAX = 8
"""Of these to receivers that did not answer the last time: they never take all places."""
_SLOW_KNOWN_MAX = 200
# Longer than any request: the resolver's own patience, the request's 15 s, the storing.
LEASE_S = 90.0
_STORE_FOR_S = 30.0
_GONE = 410


class Places:
    """Who is being sent to in this process, and who must wait for a place."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._in_flight: Counter[str] = Counter()
        self._slow: dict[str, None] = {}

    @property
    def in_flight(self) -> int:
        with self._changed:
            return self._in_flight.total()

    @property
    def has_room(self) -> bool:
        return self.in_flight < AT_ONCE_MAX

    def spared(self) -> list[str]:
        """The receivers that nothing more is sent to now."""
        with self._changed:
            full = {receiver for receiver, count in self._in_flight.items() if count >= PER_RECEIVER_MAX}
            slow_in_flight = sum(self._in_flight[receiver] for receiver in self._slow)
            return sorted(full | set(self._slow) if slow_in_flight >= SLOW_AT_ONCE_MAX else full)

    def enter(self, receiver: str) -> None:
        with self._changed:
            self._in_flight[receiver] += 1

    def leave(self, receiver: str) -> None:
        with self._changed:
            self._in_flight[receiver] -= 1
            self._in_flight += Counter()
            self._changed.notify_all()

    def record(self, receiver: str, *, is_slow: bool) -> None:
        """Remember whether a receiver answered; of many slow ones, the latest."""
        with self._changed:
            self._slow.pop(receiver, None)
            if is_slow:
                self._slow[receiver] = None
            if len(self._slow) > _SLOW_KNOWN_MAX:
                del self._slow[next(iter(self._slow))]

    def wait_empty(self, within_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._in_flight, within_s)


class Deliverer:
    """One per worker process: `run_once` is called by a thread of its own, again and again."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._places = Places()
        self._is_closing = False

    def run_once(self) -> None:
        """Wait for news of the outbox, or a sweep's pause, then begin to send what is due.

        Raises:
            Unavailable: the database is away.
        """
        news = self._services.database.news["webhooks"]
        news.wait(self._services.settings.sweep_s)
        news.clear()
        self.send_due()

    def send_due(self) -> None:
        """Begin to send what is due, each in a thread, as far as there are places."""
        if self._is_closing or not self._places.has_room:
            return
        with self._services.database.read() as connection:
            is_idle = not webhooks.has_due(connection)
        for claimed in [] if is_idle else self._claim():
            threading.Thread(target=self._send, args=(claimed,), name=claimed.delivery.id[-12:], daemon=True).start()

    def close(self) -> None:
        """Begin nothing more."""
        self._is_closing = True

    def finish(self, within_s: float) -> bool:
        """Wait for what is being sent; whether it came to its end in time. The rest is sent again by somebody else."""
        return self._places.wait_empty(within_s)

    def _claim(self) -> list[Claimed]:
        found: list[Claimed] = []
        try:
            with self._services.database.write() as connection:
                while self._places.has_room:
                    claimed = webhooks.claim(connection, lease_s=LEASE_S, spared=self._places.spared())
                    if claimed is None:
                        break
                    self._places.enter(claimed.delivery.receiver)
                    found.append(claimed)
        except BaseException:
            for claimed in found:
                self._places.leave(claimed.delivery.receiver)
            raise
        return found

    def _send(self, claimed: Claimed) -> None:
        receiver = claimed.delivery.receiver
        try:
            deliver(self._services, claimed, self._places)
        except Unavailable as error:
            log.warning("webhook_outcome_not_stored", delivery_id=claimed.delivery.id, reason=error.message)
        finally:
            self._places.leave(receiver)
            # There may be more for this place than was looked for
            self._services.database.news["webhooks"].set()


def deliver(services: Services, claimed: Claimed, places: Places) -> None:
    """One attempt: post, with no unit of work open, and store what came of it.

    Raises:
        Unavailable: that could not be stored; the entry is sent again when its lease has run out.
    """
    delivery = claimed.delivery
    started_at = time.monotonic()
    values = _attempt(services, claimed, places)
    is_ours = services.database.persist(partial(webhooks.close, delivery=delivery, values=values), for_s=_STORE_FOR_S)
    log.info(
        "webhook_attempted",
        delivery_id=delivery.id,
        job_id=delivery.job_id,
        run_id=delivery.run_id,
        attempt=delivery.attempts,
        outcome=values.get("status", "put_off") if is_ours else "came_late",
        http_status=values["last_status"],
        error=values["last_error"],
        seconds=round(time.monotonic() - started_at, 3),
    )


def _attempt(services: Services, claimed: Claimed, places: Places) -> dict[str, Any]:
    receiver = claimed.delivery.receiver
    try:
        reply = _post(services, claimed)
    except Forbidden as error:
        return _failed(error.message)
    except Invalid as error:
        return _put_off(claimed, error.message)
    except Unavailable as error:
        places.record(receiver, is_slow=True)
        return _put_off(claimed, error.message)
    except Exception as error:
        log.exception("webhook_crashed", delivery_id=claimed.delivery.id)
        return _put_off(claimed, f"The attempt crashed: {type(error).__name__}; the worker's log says more.")
    places.record(receiver, is_slow=False)
    return _outcome_of(claimed, reply)


def _post(services: Services, claimed: Claimed) -> Reply:
    delivery = claimed.delivery
    keys = keys_of(services.settings)
    if not keys:
        raise Invalid("This worker has no REDRAFT_WEBHOOK_SECRET to sign with.")
    body = body_of(_about(claimed), delivery.seq, delivery.type, claimed.event)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"Redraft/{__version__}",
        **headers_of(keys, delivery.id, int(time.time()), body),
    }
    return services.sender.post(read_url(delivery.url), headers, body)


def _about(claimed: Claimed) -> dict[str, Any]:
    run_id, job_id = claimed.delivery.run_id, claimed.delivery.job_id
    if run_id is not None:
        return {"run_id": run_id, "url": f"/v1/runs/{run_id}"}
    return {"job_id": job_id, "url": f"/v1/jobs/{job_id}", "metadata": claimed.metadata}


def _outcome_of(claimed: Claimed, reply: Reply) -> dict[str, Any]:
    if 200 <= reply.status < 300:
        return _ended("delivered", None, reply.status) | {"delivered_at": DbNow()}
    if reply.status == _GONE:
        return _failed("The receiver answered 410: it wants no more of this.", _GONE)
    redirect = ", a redirect, which is not followed" if 300 <= reply.status < 400 else ""
    words = f"The receiver answered {reply.status}{redirect}."
    return _put_off(claimed, words, reply.status, read_retry_after(reply.retry_after))


def _put_off(claimed: Claimed, words: str, status: int | None = None, asked_s: float | None = None) -> dict[str, Any]:
    """Until its next time; failed for good when the schedule is at its end."""
    delivery = claimed.delivery
    wait = wait_s(delivery.attempts - delivery.attempts_before, asked_s=asked_s)
    if wait is None:
        return _failed(words, status)
    return {"next_at": DbNow(round(wait, 3)), "last_status": status, "last_error": words}


def _failed(words: str, status: int | None = None) -> dict[str, Any]:
    return _ended("failed", words, status)


def _ended(outcome: str, words: str | None, status: int | None) -> dict[str, Any]:
    return {"status": outcome, "next_at": None, "last_status": status, "last_error": words}
