"""An API that stops or dies between commit and bell, or between bell and answer."""

import signal
import threading
from collections.abc import Callable

import httpx2
import pytest

from redraft.messages import INTERACTIVE_QUEUE
from redraft.storage.jobs import jobs
from redraft.storage.jobs.job_filters import JobFilter
from tests.chaos.conftest import Scene
from tests.chaos.members import is_stopped
from tests.chaos.stage import Kind
from tests.support.waiting import patient, wait_until


@pytest.mark.parametrize(
    ("kind", "fault_point"),
    [
        ("sqlite", "submitted"),
        ("sqlite", "notified"),
        pytest.param("postgresql", "submitted", marks=pytest.mark.long),
    ],
)
def test_a_submission_whose_answer_was_lost_is_one_job_and_is_done(
    make_scene: Callable[..., Scene], kind: Kind, fault_point: str
):
    scene = make_scene(kind)
    api = scene.stage.start_api(f"{fault_point}=kill@1")
    wait_until(scene.stage.api_answers, within_s=20, what="the API")
    body = scene.body(iter_max=1)
    with pytest.raises(httpx2.TransportError):
        scene.post(body, key="the-key")
    wait_until(lambda: not api.is_alive, what="the end of the API")
    scene.stage.start_worker()
    api.start_again()
    scene.stage.wait_ready()
    answer = scene.post(body, key="the-key")
    assert (answer.status_code, answer.headers["Idempotent-Replayed"]) == (200, "true")
    job_id = scene.accepted(answer.json()["id"])
    scene.finish()
    assert scene.driver.job(job_id).stop_reason == "accepted"
    assert len(scene.provider.requests()) == 2
    assert scene.problems() == []


def test_nobody_is_rung_for_before_the_job_is_committed(scene: Scene):
    api = scene.stage.start_api("submitted=stop@1")
    wait_until(scene.stage.api_answers, within_s=20, what="the API")
    body = scene.body(iter_max=1)
    client = threading.Thread(target=scene.post, args=(body,), kwargs={"timeout_s": 60})
    client.start()
    wait_until(lambda: is_stopped(api.process.pid), what="the API's stop")
    with scene.stage.valkey.client() as broker, scene.stage.services.database.read() as connection:
        assert broker.llen(INTERACTIVE_QUEUE) == 0
        assert len(jobs.list_page(connection, JobFilter())) == 1
    api.signal(signal.SIGCONT)
    client.join(patient(30))
    with scene.stage.valkey.client() as broker:
        assert broker.llen(INTERACTIVE_QUEUE) == 1
