"""The client at a real API with keys, behind a proxy with a path, and at servers that fail."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from threading import Event
from typing import Any

import pytest
from redraft_client import ApiError, AsyncRedraft, Redraft, Retries, ServerNotReached, UnexpectedResponse

from redraft.operations.admin import keys
from redraft.operations.services import Services
from tests.journeys.desks import TASK
from tests.support.api_server import ApiServer
from tests.support.proxy import proxied
from tests.support.receiver import Answer, Receiver

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
SOON = Retries(attempts=3, first_pause_s=0.01)
ROOT = "/tools/redraft"
KEY = "rd_a-secret-key"


@ON_SQLITE
@pytest.mark.parametrize("strips", [True, False])
def test_a_server_with_keys_beneath_a_path(
    start_api: Callable[..., ApiServer], services: Services, *, strips: bool, monkeypatch: pytest.MonkeyPatch
):
    token = keys.create_key(services, "test")[1]
    server = start_api(root_path=ROOT, require_auth=True)
    with proxied(server.url, ROOT, strips=strips) as url:
        with Redraft(f"{url}{ROOT}/", token) as redraft:
            job = redraft.submit(**TASK)
            assert job.urls["self"] == f"{ROOT}/v1/jobs/{job.id}"
            assert [each.id for each in redraft.jobs.list().data] == [job.id]
            assert redraft.jobs.cancel(job.id).status == "canceled"
            assert [each.type for each in redraft.jobs.events(job.id)][-1] == "done"
        with Redraft(f"{url}{ROOT}") as redraft, pytest.raises(ApiError, match="REDRAFT_API_KEY") as caught:
            redraft.jobs.list()
        assert caught.value.code == "unauthenticated"
        monkeypatch.setenv("REDRAFT_SERVER", f"{url}{ROOT}")
        monkeypatch.setenv("REDRAFT_API_KEY", token)
        with Redraft() as redraft:
            assert redraft.jobs.get(job.id).id == job.id
            assert redraft.request("GET", "/v1/usage").startswith(b'{"object":"usage"')


def test_a_cut_submission_is_repeated_with_its_key(office: Any, url: str):
    with Redraft(url) as redraft:
        accepted = redraft.request("POST", "/v1/generate-answer", json=TASK)
    answers = (Answer(raw=b""), Answer(503, {"Retry-After": "0"}), Answer(202, body=accepted))
    with Receiver(*answers) as receiver, Redraft(_base(receiver), retries=SOON) as redraft:
        redraft.submit(**TASK)
    sent = {(hit.path, hit.headers["idempotency-key"], hit.body) for hit in receiver.hits}
    assert (len(receiver.hits), len(sent)) == (3, 1)


def test_both_clients_give_up_alike_and_name_the_key_of_the_request():
    answers = [Answer(raw=b"")] * 3

    async def submit(url: str) -> None:
        async with AsyncRedraft(url, retries=SOON) as redraft:
            await redraft.submit(**TASK)

    for run in (lambda url: asyncio.run(submit(url)), lambda url: Redraft(url, retries=SOON).submit(**TASK)):
        with Receiver(*answers) as receiver, pytest.raises(ServerNotReached, match=_base(receiver)) as caught:
            run(_base(receiver))
        assert [hit.headers["idempotency-key"] for hit in receiver.hits] == [caught.value.idempotency_key] * 3


def test_a_request_that_acts_twice_is_sent_once():
    with Receiver(Answer(raw=b"")) as receiver, Redraft(_base(receiver), retries=SOON) as redraft:
        with pytest.raises(ServerNotReached):
            redraft.jobs.continue_("job_1")
        assert len(receiver.hits) == 1


def test_a_server_that_never_answers_is_given_up():
    released = Event()
    with Receiver(usual=Answer(before=released.wait)) as receiver:
        with Redraft(_base(receiver), timeout_s=0.2, retries=SOON) as redraft:
            for act, attempts in ((lambda: redraft.jobs.get("job_1"), 3), (lambda: redraft.jobs.continue_("job_1"), 1)):
                receiver.hits.clear()
                with pytest.raises(ServerNotReached, match="ReadTimeout"):
                    act()
                assert len(receiver.hits) == attempts
        released.set()


def test_nobody_at_the_port():
    with Receiver() as receiver:
        url = _base(receiver)
    with Redraft(url, retries=SOON) as redraft, pytest.raises(ServerNotReached, match="does the server run"):
        redraft.jobs.list()


@pytest.mark.parametrize(
    "server", ["redraft.example.com", "ftp://x", "http://", "https://user:pw@x", "https://x?a=1", "https://x#y"]
)
def test_a_wrong_url_is_refused_without_repeating_it(server: str):
    with pytest.raises(ValueError, match="server") as caught:
        Redraft(server)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("key", ["rd_ä", "rd_\nx", "two words"])
def test_a_key_that_no_header_can_carry_is_refused_without_repeating_it(key: str):
    with pytest.raises(ValueError, match="API key") as caught:
        Redraft("http://x", key)
    assert key not in str(caught.value)


def test_the_key_is_in_no_text(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with ExitStack() as stack:
        receiver = stack.enter_context(Receiver(Answer(401, body=b"no"), Answer(200, body=b"?"), Answer(raw=b"")))
        redraft = stack.enter_context(Redraft(_base(receiver), KEY, retries=Retries(attempts=1)))
        errors: list[Exception] = []
        for kind in (ApiError, UnexpectedResponse, ServerNotReached):
            with pytest.raises(kind) as caught:
                redraft.submit(**TASK)
            errors.append(caught.value)
        texts = [repr(redraft), repr(vars(redraft)), repr(redraft.jobs), caplog.text, *map(repr, errors)]
        assert receiver.hits[0].headers["authorization"] == f"Bearer {KEY}"
    assert not any(KEY in text for text in texts)


def _base(receiver: Receiver) -> str:
    return f"http://127.0.0.1:{receiver.port}"
