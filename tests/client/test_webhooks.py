"""Webhooks that the client verifies: real deliveries, and forged ones."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping

import pytest
from pydantic import SecretStr
from redraft_client import InvalidSignature, Redraft, UnexpectedResponse, verify_webhook
from redraft_client.models import JobWebhookBody, RunWebhookBody

from api.app import create_app
from redraft.operations.services import Services
from redraft.settings import Settings
from tests.journeys.desks import TASK
from tests.model_server.server import ModelServer
from tests.support.api_server import ApiServer
from tests.support.processes import WorkerProcess
from tests.support.receiver import LOOPBACK, SECRET, Receiver

OTHER = "whsec_" + base64.b64encode(b"another key of the tests, 32 byte").decode()
BODY = json.dumps({"type": "dataset.ready", "timestamp": "…", "data": {"job_id": "job_1"}}).encode()


def signed(body: bytes = BODY, secret: str = SECRET, *, age_s: float = 0) -> dict[str, str]:
    """What the server sends; written anew, so that a mistake of the client is not repeated."""
    timestamp = str(int(time.time() - age_s))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, b"whd_1." + timestamp.encode() + b"." + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    return {"Webhook-Id": "whd_1", "Webhook-Timestamp": timestamp, "Webhook-Signature": signature}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_deliveries_of_a_job_and_of_a_run(
    make_settings: Callable[..., Settings],
    make_services: Callable[..., Services],
    start_worker: Callable[..., WorkerProcess],
    model_server: ModelServer,
):
    settings = {"webhook_secret": SecretStr(f"{OTHER} {SECRET}"), "webhook_allow_private": LOOPBACK}
    model_server.script(evaluate=[0.9])
    start_worker(make_services(**settings))
    server = ApiServer(create_app(make_settings(**settings)))
    with server, Receiver() as receiver, Redraft(server.url) as redraft:
        job = redraft.submit(**TASK, webhook={"url": receiver.url})
        ended = redraft.jobs.wait(job.id)
        [hit] = receiver.wait_for(1, within_s=20)
        delivery = verify_webhook(hit.body, hit.headers, SECRET)
        assert isinstance(delivery, JobWebhookBody)
        assert (delivery.type, delivery.data.job_id) == ("job.done", job.id)
        assert delivery.data.event.status == "succeeded"
        assert delivery.data.event.result is not None
        assert ended.result is not None
        assert delivery.data.event.result["final_answer"] == ended.result.final_answer
        dataset = redraft.datasets.upload([TASK])
        run = redraft.runs.start(dataset_id=dataset.id, webhook={"url": receiver.url})
        redraft.runs.wait(run.id)
        _, hit = receiver.wait_for(2, within_s=20)
        delivery = verify_webhook(hit.body, hit.headers, OTHER)
        assert isinstance(delivery, RunWebhookBody)
        assert (delivery.data.run_id, delivery.data.event.counts.accepted) == (run.id, 1)


def test_an_unknown_type_is_verified_and_passed_on():
    delivery = verify_webhook(BODY, signed(), f"{OTHER} {SECRET}")
    assert (delivery.type, delivery.data) == ("dataset.ready", {"job_id": "job_1"})


@pytest.mark.parametrize(
    ("body", "headers", "words"),
    [
        (BODY + b" ", signed(), "No signature fits"),
        (BODY, signed(secret=OTHER), "No signature fits"),
        (BODY, {**signed(), "Webhook-Id": "whd_2"}, "No signature fits"),
        (BODY, {**signed(), "Webhook-Timestamp": "1"}, "No signature fits"),
        (BODY, {**signed(), "Webhook-Signature": "v1, v2,x v1,ä"}, "No signature fits"),
        (BODY, {**signed(), "Webhook-Signature": ""}, "header is missing"),
        (BODY, {}, "header is missing"),
        (BODY, signed(age_s=86_400), "more than 300 s old"),
        (BODY, signed(age_s=-86_400), "more than 300 s old"),
    ],
)
def test_what_our_server_did_not_send_now_is_refused(body: bytes, headers: Mapping[str, str], words: str):
    with pytest.raises(InvalidSignature, match=words):
        verify_webhook(body, headers, SECRET)


@pytest.mark.parametrize("secret", ["", " ", "whsec_", "whsec_*", "secret!"])
def test_a_secret_that_is_none_verifies_nothing(secret: str):
    with pytest.raises(ValueError, match="whsec_"):
        verify_webhook(BODY, signed(), secret)


def test_a_signed_body_of_another_form_is_an_error():
    for body in (b"[]", b'{"type": "run.finished", "timestamp": "", "data": {}}'):
        with pytest.raises(UnexpectedResponse, match="is signed"):
            verify_webhook(body, signed(body), SECRET)
