"""An API that dies between commit and bell, or between bell and answer: the client repeats, and there is one job."""

import httpx2
import pytest

from tests.chaos.conftest import Scene
from tests.support.waiting import wait_until


@pytest.mark.parametrize("boundary", ["submitted", "rung"])
def test_a_submission_whose_answer_was_lost_is_one_job_and_is_done(scene: Scene, boundary: str):
    api = scene.stage.start_api(f"{boundary}=kill@1")
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
