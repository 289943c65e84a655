"""Pieces of an answer on their way: cleaned as the stored answer is, and never lost without a gap in the offsets."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import redis

from redraft.domain.jobs.states import Step
from redraft.messages import Delta
from redraft.operations.calls.deltas import DeltaPublisher
from redraft.operations.calls.model_calls import Slot
from redraft.operations.services import Services
from redraft.queue import delta_channel
from redraft.setting_values import redis_url
from tests.model_server import ModelServer
from tests.operations.driving import Driver
from tests.support.waiting import patient

SLOT = Slot("job_1", Step.GENERATE, 1, 1, 0)


@contextmanager
def hearing(services: Services, job_id: str) -> Iterator["redis.client.PubSub"]:
    with redis.Redis.from_url(redis_url(services.settings.effective_broker_url)) as client, client.pubsub() as pubsub:
        pubsub.subscribe(delta_channel(job_id))
        assert pubsub.get_message(timeout=patient(5))
        yield pubsub


@pytest.fixture
def heard(services: Services) -> Iterator["redis.client.PubSub"]:
    with hearing(services, SLOT.job_id) as pubsub:
        yield pubsub


def told(pubsub: "redis.client.PubSub", count: int) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    while len(found) < count:
        message = pubsub.get_message(timeout=patient(5))
        assert message is not None
        delta = Delta.decode(message["data"])
        assert delta is not None
        found.append((delta.offset, delta.text))
    return found


def test_what_is_not_published_leaves_a_gap_in_the_offsets(services: Services, heard: "redis.client.PubSub"):
    is_ours = iter([True, False, True])
    teller = DeltaPublisher(services.queue, SLOT, 1, lambda: next(is_ours))
    for piece in ("aa ", "lost ", "bb"):
        teller(piece)
        teller.flush()
    assert told(heard, 2) == [(0, "aa "), (8, "bb")]


def test_pieces_are_cleaned_and_half_a_character_waits_for_its_other_half(
    services: Services, heard: "redis.client.PubSub"
):
    teller = DeltaPublisher(services.queue, SLOT, 1, lambda: True)
    for piece in ("a\x00b\ud83d", "\ude00c"):
        teller(piece)
        teller.flush()
    assert told(heard, 2) == [(0, "ab"), (2, "\U0001f600c")]


def test_an_empty_piece_begins_the_text_anew(services: Services, heard: "redis.client.PubSub"):
    teller = DeltaPublisher(services.queue, SLOT, 1, lambda: True)
    for piece in ("User wants Paris.", "", "Paris."):
        teller(piece)
        teller.flush()
    assert told(heard, 2) == [(0, "User wants Paris."), (0, "Paris.")]


def test_the_text_of_a_speculative_answer_is_not_published(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["first", "second", "third"], evaluate=[0.2, 0.9])
    job_id = driver.submit(stream=True, evaluation={"when": "overlap"})
    with hearing(driver.services, job_id) as pubsub:
        driver.run(job_id)
        last = DeltaPublisher(driver.services.queue, replace(SLOT, job_id=job_id), 1, lambda: True)
        last("the end")
        last.flush()
        texts = [text for _, text in told(pubsub, 2)]
    assert texts == ["first", "the end"]
    assert driver.iterations(job_id)[1].answer == "second"
