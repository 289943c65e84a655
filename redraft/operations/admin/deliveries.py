"""Sends webhooks: leases due deliveries from the outbox, posts them in parallel, and stores the outcomes.

Every worker process sends webhooks. The lease of a delivery prevents two workers from sending it at the same time. If a
worker dies between sending and storing, another worker sends the delivery again with the same `webhook-id`.
"""

import threading
import time
from collections import Counter
from functools import partial
from typing import Any

import structlog

from redraft import __version__
from redraft.domain.admin.urls import read_url
from redraft.domain.calls.backoff import read_retry_after
from redraft.domain.jobs.webhook_retries import wait_s
from redraft.domain.jobs.webhooks import body_of, headers_of
from redraft.errors import Forbidden, Invalid, Unavailable
from redraft.operations.jobs.webhooks import keys_of
from redraft.operations.services import Services
from redraft.outbound import Reply
from redraft.storage.engine.columns import DbNow
from redraft.storage.jobs import webhooks
from redraft.storage.jobs.webhooks import ClaimedDelivery

log = structlog.get_logger()

AT_ONCE_MAX = 16
"""The maximum of parallel deliveries of one worker process."""
PER_RECEIVER_MAX = 2
"""The maximum of parallel deliveries to one receiver, which is a host and a port."""
SLOW_AT_ONCE_MAX = 8
"""The maximum of parallel deliveries to slow receivers. The remaining slots are free for other receivers."""
# Users choose the receivers, so their number is not bounded
_SLOW_KNOWN_MAX = 200
# Longer than any attempt: it resolves the name, makes a request of at most 15 s, and stores the outcome within 30 s
LEASE_S = 90.0
_STORE_FOR_S = 30.0
_GONE = 410


class DeliverySlots:
    """Counts the deliveries in flight of this process by receiver, and lists the receivers that were slow."""

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
        """Return the receivers to which no further delivery is sent now."""
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
            # Adding a counter removes the entries with 0. Otherwise the counter would grow with every new receiver
            self._in_flight += Counter()
            self._changed.notify_all()

    def record(self, receiver: str, *, is_slow: bool) -> None:
        """Record whether a receiver was slow. Only the latest slow receivers are kept."""
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
    """Sends the webhooks of one worker process. A separate thread calls `run_once` repeatedly."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._slots = DeliverySlots()
        self._is_closing = False

    def run_once(self) -> None:
        """Wait for a new entry in the outbox, at most `sweep_s`, and start the due deliveries.

        Raises Unavailable if the database cannot be reached.
        """
        changed = self._services.database.changed_tables["webhooks"]
        changed.wait(self._services.settings.sweep_s)
        changed.clear()
        self.send_due()

    def send_due(self) -> None:
        """Start the due deliveries, each in its own thread, while slots are free."""
        if self._is_closing or not self._slots.has_room:
            return
        with self._services.database.read() as connection:
            is_idle = not webhooks.has_due(connection)
        for claimed in [] if is_idle else self._claim():
            # Daemon threads: a process that ends must not wait for a slow receiver
            threading.Thread(target=self._send, args=(claimed,), name=claimed.delivery.id[-12:], daemon=True).start()

    def close(self) -> None:
        """Start no further delivery."""
        self._is_closing = True

    def finish(self, within_s: float) -> bool:
        """Wait for the deliveries in flight, and return whether all ended in time. Other workers repeat the rest."""
        return self._slots.wait_empty(within_s)

    def _claim(self) -> list[ClaimedDelivery]:
        found: list[ClaimedDelivery] = []
        try:
            with self._services.database.write() as connection:
                while self._slots.has_room:
                    claimed = webhooks.claim(connection, lease_s=LEASE_S, except_receivers=self._slots.spared())
                    if claimed is None:
                        break
                    self._slots.enter(claimed.delivery.receiver)
                    found.append(claimed)
        # The claims are rolled back, so they must not occupy slots
        except BaseException:
            for claimed in found:
                self._slots.leave(claimed.delivery.receiver)
            raise
        return found

    def _send(self, claimed: ClaimedDelivery) -> None:
        receiver = claimed.delivery.receiver
        try:
            deliver(self._services, claimed, self._slots)
        except Unavailable as error:
            log.warning("webhook_outcome_not_stored", delivery_id=claimed.delivery.id, reason=error.message)
        finally:
            self._slots.leave(receiver)
            # A slot is free now, and due deliveries may be waiting for one
            self._services.database.changed_tables["webhooks"].set()


def deliver(services: Services, claimed: ClaimedDelivery, slots: DeliverySlots) -> None:
    """Make one attempt: post the event, and store the outcome. No transaction is open while the request is made.

    Raises Unavailable if the outcome cannot be stored; the delivery is sent again after its lease expires.
    """
    delivery = claimed.delivery
    started_at = time.monotonic()
    values = _attempt(services, claimed, slots)
    is_ours = services.database.persist(partial(webhooks.close, delivery=delivery, values=values), for_s=_STORE_FOR_S)
    log.info(
        "webhook_attempted",
        delivery_id=delivery.id,
        job_id=delivery.job_id,
        run_id=delivery.run_id,
        attempt=delivery.attempts,
        outcome=values.get("status", "rescheduled") if is_ours else "lease_lost",
        http_status=values["last_status"],
        error=values["last_error"],
        seconds=round(time.monotonic() - started_at, 3),
    )


def _attempt(services: Services, claimed: ClaimedDelivery, slots: DeliverySlots) -> dict[str, Any]:
    receiver = claimed.delivery.receiver
    try:
        reply = _post(services, claimed)
    # The address is not allowed, and no retry changes that
    except Forbidden as error:
        return _failed(error.message)
    # This worker has no secret to sign with. Another worker may have a secret, so the delivery is tried again
    except Invalid as error:
        return _reschedule(claimed, error.message)
    except Unavailable as error:
        slots.record(receiver, is_slow=True)
        return _reschedule(claimed, error.message)
    except Exception as error:
        log.exception("webhook_crashed", delivery_id=claimed.delivery.id)
        return _reschedule(claimed, f"The attempt crashed: {type(error).__name__}; the worker's log says more.")
    slots.record(receiver, is_slow=False)
    return _outcome_of(claimed, reply)


def _post(services: Services, claimed: ClaimedDelivery) -> Reply:
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


def _about(claimed: ClaimedDelivery) -> dict[str, Any]:
    run_id, job_id = claimed.delivery.run_id, claimed.delivery.job_id
    if run_id is not None:
        return {"run_id": run_id, "url": f"/v1/runs/{run_id}"}
    return {"job_id": job_id, "url": f"/v1/jobs/{job_id}", "metadata": claimed.metadata}


def _outcome_of(claimed: ClaimedDelivery, reply: Reply) -> dict[str, Any]:
    if 200 <= reply.status < 300:
        return _ended("delivered", None, reply.status) | {"delivered_at": DbNow()}
    if reply.status == _GONE:
        return _failed("The receiver answered 410: it accepts no further events.", _GONE)
    redirect = ", a redirect, which is not followed" if 300 <= reply.status < 400 else ""
    words = f"The receiver answered {reply.status}{redirect}."
    return _reschedule(claimed, words, reply.status, read_retry_after(reply.retry_after))


def _reschedule(
    claimed: ClaimedDelivery, words: str, status: int | None = None, retry_after_s: float | None = None
) -> dict[str, Any]:
    """Return the new columns after a failed attempt: the time of the next attempt, or the failure after the last."""
    delivery = claimed.delivery
    wait = wait_s(delivery.attempts - delivery.attempts_before, asked_s=retry_after_s)
    if wait is None:
        return _failed(words, status)
    return {"next_at": DbNow(round(wait, 3)), "last_status": status, "last_error": words}


def _failed(words: str, status: int | None = None) -> dict[str, Any]:
    return _ended("failed", words, status)


def _ended(outcome: str, words: str | None, status: int | None) -> dict[str, Any]:
    return {"status": outcome, "next_at": None, "last_status": status, "last_error": words}
