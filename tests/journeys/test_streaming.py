"""Answers that are told while they are written: through a worker process, Valkey and the API to whoever watches."""

from collections.abc import Callable
from typing import Any

import pytest

from redraft.queue import delta_channel
from tests.journeys.desks import Desk
from tests.journeys.offices import Office
from tests.model_server import ModelServer, Reply
from tests.support.event_stream import EventStream, follow
from tests.support.waiting import wait_until

PIECES = [f"piece {number}, " for number in range(12)]
ANSWER = "".join(PIECES).strip()

pytestmark = pytest.mark.parametrize(
    "office", ["postgresql", pytest.param("sqlite", marks=pytest.mark.long)], indirect=True
)


@pytest.fixture
def desk(office: Office) -> Desk:
    return office.desk


@pytest.fixture
def model_server(office: Office) -> ModelServer:
    return office.model_server


class Watcher:
    """A client that shows the text as the contract says: a higher attempt or `step.retrying` withdraws what it has."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.attempts: list[int] = []
        self.withdrawn: list[str] = []
        self.types: list[str] = []

    def watch(self, stream: EventStream) -> None:
        for event in stream.events():
            self.types.append(event.type or "")
            if event.type == "answer.delta":
                assert event.id is None
                self._take(event.data)
            elif event.type == "step.retrying" and event.data["withdrawn"]:
                self._withdraw(event.data)

    def _withdraw(self, retrying: dict[str, Any]) -> None:
        if self.attempts and self.attempts[-1] <= retrying["attempt"]:
            self.withdrawn.append(self.texts.pop(retrying["iteration"], ""))

    def _take(self, delta: dict[str, Any]) -> None:
        number = delta["iteration"]
        if delta["offset"] == 0:
            self.withdrawn += [self.texts[number]] if number in self.texts else []
            self.texts[number] = ""
        assert delta["offset"] == len(self.texts[number])
        self.texts[number] += delta["text"]
        self.attempts.append(delta["attempt"])


Watch = Callable[..., tuple[Watcher, dict[str, Any]]]


@pytest.fixture
def watched(office: Office) -> Watch:
    """Submit a job and watch it to its end; the held first reply is sent when the stream listens to its deltas."""

    def watch(**fields: Any) -> tuple[Watcher, dict[str, Any]]:
        job_id = office.desk.submit(stream=True, **fields)["id"]
        watcher = Watcher()
        with follow(office.desk.client, job_id) as stream:
            wait_until(lambda: office.valkey.listeners(delta_channel(job_id)), what="a listener for deltas")
            office.model_server.release()
            watcher.watch(stream)
        return watcher, office.desk.finished(job_id)

    return watch


def test_the_deltas_add_up_to_the_stored_answer(desk: Desk, model_server: ModelServer, watched: Watch) -> None:
    model_server.script(generate=[Reply(pieces=PIECES, pause_s=0.1, is_held=True)], evaluate=[0.9])
    watcher, job = watched()
    assert job["stop_reason"] == "accepted"
    assert watcher.texts[1].strip() == job["result"]["final_answer"].strip() == ANSWER
    assert watcher.types.count("answer.delta") > 3
    told = watcher.types.index("iteration.generated")
    assert "answer.delta" not in watcher.types[told:]
    assert [event["type"] for event in desk.events(job["id"])] == [t for t in watcher.types if t != "answer.delta"]


def test_a_provider_that_dies_in_mid_stream_is_asked_again_and_its_text_withdrawn(
    desk: Desk, model_server: ModelServer, watched: Watch
) -> None:
    broken = Reply(pieces=["no good ", "at all ", "and cut "], pause_s=0.3, fault="stream_cut", after=2, is_held=True)
    model_server.script(generate=[broken, Reply(pieces=PIECES, pause_s=0.1)], evaluate=[0.9])
    watcher, job = watched()
    assert watcher.texts[1].strip() == job["result"]["final_answer"].strip() == ANSWER
    assert "no good" in watcher.withdrawn[0]
    assert sorted(set(watcher.attempts)) == [1, 2]
    assert [(call["type"], call["status"]) for call in desk.calls(job["id"])] == [
        ("generate", "failed"),
        ("generate", "succeeded"),
        ("evaluate", "succeeded"),
    ]


def test_an_answer_to_sources_is_told_as_text_and_its_citations_when_it_is_written(
    desk: Desk, model_server: ModelServer, watched: Watch
) -> None:
    pieces = ["The Aare flows ", "through Bern ", "[Source ", "1]."]
    model_server.script(generate=[Reply(pieces=pieces, pause_s=0.05, is_held=True)], evaluate=[0.9])
    watcher, job = watched(sources=[{"content": "The Aare flows through Bern.", "chunk_id": "c1"}])
    assert watcher.texts[1] == job["result"]["final_answer"] == "".join(pieces)
    (written,) = [event["data"] for event in desk.events(job["id"]) if event["type"] == "iteration.generated"]
    (citation,) = written["citations"]
    assert (citation["source_number"], citation["chunk_id"]) == (1, "c1")
    assert written["answer"][citation["start_pos"] : citation["end_pos"]] == "[Source 1]"


def test_without_a_listener_nothing_is_lost(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=[Reply(pieces=PIECES)], evaluate=[0.9])
    job = desk.run(stream=True)
    assert job["result"]["final_answer"].strip() == ANSWER
    call = desk.calls(job["id"])[0]
    assert call["request"]["stream"] is True
    assert call["output_tokens"]
