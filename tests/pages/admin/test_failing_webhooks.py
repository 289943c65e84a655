"""Deliveries that fail: when they are tried again, live, and sending all of them again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect
from pydantic import SecretStr

from redraft.operations.admin.deliveries import Deliverer
from redraft.operations.jobs import webhooks
from redraft.operations.services import Services
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.html_pages import Reader, text_of
from tests.support.receiver import LOOPBACK, SECRET, Answer, Receiver
from tests.support.shells import Shell

CHANGES: dict[str, Any] = {"webhook_secret": SecretStr(SECRET), "webhook_allow_private": LOOPBACK}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """It refuses the first delivery for good and the second for now, then it takes all."""
    with Receiver(Answer(410), Answer(503)) as started:
        yield started


@pytest.fixture
def signed(start_api: Callable[..., ApiServer]) -> ApiServer:
    return start_api(**CHANGES)


@pytest.fixture
def sender(make_services: Callable[..., Services]) -> Services:
    return make_services(**CHANGES)


@pytest.fixture
def job_ids(signed: ApiServer, sender: Services, receiver: Receiver) -> list[str]:
    """Two jobs: the delivery of the first failed, that of the second is failing."""
    return [submit(signed, sender, receiver, number) for number in range(2)]


def submit(api: ApiServer, sender: Services, receiver: Receiver, number: int) -> str:
    webhook = {"url": receiver.url, "events": ["job.queued"]}
    body = {"instruct": f"Number {number}", "eval_crit": "any", "webhook": webhook}
    job_id: str = api.client().post("/v1/generate-answer", json=body).json()["id"]
    send(sender)
    return job_id


def send(sender: Services) -> None:
    deliverer = Deliverer(sender)
    deliverer.send_due()
    assert deliverer.finish(10)


def states(api: ApiServer, job_ids: list[str]) -> list[tuple[str, bool, int, int]]:
    found = [api.client().get(f"/v1/jobs/{each}/webhook-deliveries").json()["data"][0] for each in job_ids]
    return [(each["status"], each["failing"], each["attempts"], each["attempts_left"]) for each in found]


def test_a_failing_delivery_names_its_next_try_and_all_are_sent_again_after_a_question(
    signed: ApiServer, sender: Services, receiver: Receiver, job_ids: list[str]
):
    assert states(signed, job_ids) == [("failed", False, 1, 0), ("pending", True, 1, 9)]
    reader = Reader.of(signed)
    page = reader.go(f"/jobs/{job_ids[1]}/events")
    assert "failing next try 20" in page.text
    assert "UTC, 9 tries left" in page.text
    page = reader.go("/settings/webhooks")
    assert "1 failed, 1 failing and tried again." in page.text
    assert "UTC, 9 tries left" in page.text
    assert "Resend 2 deliveries?" in reader.click("Resend all …").text
    assert len(receiver.hits) == 2
    page = reader.press("Resend all")
    assert "All failed deliveries are sent again now" in page.text
    assert "tries left" not in page.text
    assert page.texts("a[@class='button']") == []
    assert states(signed, job_ids) == [("pending", False, 1, 10), ("pending", False, 1, 10)]
    send(sender)
    assert states(signed, job_ids) == [("delivered", False, 2, 0)] * 2
    assert "No delivery has failed." in reader.go("/settings/webhooks/resend-all").text


@pytest.mark.both_databases
@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_the_api_and_the_command_line_send_all_again(
    signed: ApiServer, sender: Services, receiver: Receiver, job_ids: list[str]
):
    sent = signed.client().post("/v1/webhook-deliveries/redeliver")
    assert (sent.status_code, sent.json()) == (202, {"redelivered": 2})
    assert webhooks.count_failed(sender).total == 0
    shell = Shell.of(sender)
    assert "No delivery has failed." in shell.run("jobs", "webhooks", "--all-failed").err
    receiver.usual = Answer(503)
    send(sender)
    listed = shell.run("jobs", "webhooks", job_ids[0])
    assert "failing" in listed.out
    resent = shell.run("jobs", "webhooks", "--all-failed", "--json")
    assert (resent.data, "2 deliveries" in resent.err) == ({"redelivered": 2}, True)


def test_the_list_of_deliveries_is_live(
    signed: ApiServer, sender: Services, job_ids: list[str], visit: Callable[..., Visitor]
):
    visitor = visit(base_url=signed.url)
    visitor.page.clock.install()
    page = visitor.go("/settings/webhooks")
    expect(page.get_by_text("tries left")).to_have_count(1)
    webhooks.redeliver_all(sender)
    send(sender)
    page.clock.run_for(11_000)
    expect(page.get_by_text("delivered")).to_have_count(2)
    assert text_of(Reader.of(signed).go(f"/jobs/{job_ids[0]}/events").by_id("deliveries")).count("delivered") == 1
