"""Publications: in order, in bundles, and never waited for."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import redis

from redraft.publisher import Publisher
from tests.support.valkey import ValkeyServer
from tests.support.waiting import patient, wait_until

CHANNEL = "test:publisher"


@contextmanager
def publisher(client: redis.Redis, failed: Event | None = None) -> Iterator[Publisher]:
    """A publisher that sends nothing after the broker has `failed`."""
    failed = failed or Event()
    made = Publisher(client, is_paused=failed.is_set, on_failure=failed.set)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def heard(valkey: ValkeyServer) -> Iterator[list[bytes]]:
    """What comes on the channel, collected by the client's own thread."""
    found: list[bytes] = []
    with valkey.client() as client, client.pubsub() as listener:
        listener.subscribe(**{CHANNEL: lambda message: found.append(message["data"])})
        wait_until(lambda: client.pubsub_numsub(CHANNEL)[0][1] == 1, what="the subscription")
        thread = listener.run_in_thread(sleep_time=0.01)
        yield found
        thread.stop()
        thread.join()


def test_publications_come_in_order(valkey: ValkeyServer) -> None:
    with heard(valkey) as found, valkey.client() as client, publisher(client) as made:
        for number in range(1000):
            made.publish(CHANNEL, str(number))
        wait_until(lambda: len(found) == 1000, what="a thousand publications")
    assert [int(each) for each in found] == list(range(1000))


def test_closing_sends_what_waits(valkey: ValkeyServer) -> None:
    with heard(valkey) as found, valkey.client() as client:
        with publisher(client) as made:
            for number in range(500):
                made.publish(CHANNEL, str(number))
        wait_until(lambda: len(found) == 500, what="all publications")


def test_after_closing_it_begins_anew(valkey: ValkeyServer) -> None:
    with heard(valkey) as found, valkey.client() as client, publisher(client) as made:
        made.publish(CHANNEL, "before")
        made.close()
        made.publish(CHANNEL, "after")
        wait_until(lambda: found == [b"before", b"after"], what="both")


def test_a_hung_broker_keeps_nobody_waiting() -> None:
    own, failed = ValkeyServer().start(), Event()
    client = redis.Redis.from_url(f"unix://{own.socket}", socket_timeout=0.5)
    try:
        client.ping()
        os.kill(own.pid, signal.SIGSTOP)
        with publisher(client, failed) as made:
            for number in range(1000):
                made.publish(CHANNEL, str(number))
            assert not failed.is_set(), "Whoever publishes waited until the broker was given up."
            assert failed.wait(patient(10))
    finally:
        client.close()
        own.remove()


def test_a_broker_that_rests_is_left_alone(valkey: ValkeyServer) -> None:
    failed = Event()
    with heard(valkey) as found, valkey.client() as client, publisher(client, failed) as made:
        failed.set()
        made.publish(CHANNEL, "lost")
        failed.clear()
        made.publish(CHANNEL, "heard")
        wait_until(lambda: found == [b"heard"], what="the second one alone")
