"""Images and PDFs reach generator and evaluator in both wire formats, and their data are stored once per job."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from redraft.domain.jobs.attachments import PDF as PDF_TYPE
from redraft.domain.jobs.requests import ContinueJob, GenerateAnswer, RescoreJob
from redraft.errors import Invalid, NotFound
from redraft.operations.evaluation.rescore import rescore
from redraft.operations.jobs import attachments, cost_estimates, lifecycle
from redraft.storage.engine.tables import attachments as table
from tests.media import GIF, PDF, PNG, attachment, pdf
from tests.model_server.logbook import Entry
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.operations.driving import Driver

IMAGE, DOCUMENT = attachment(PNG, title="Chart"), attachment(PDF, PDF_TYPE)
SENT = {base64.b64encode(content).decode() for content in (PNG, PDF)}


def media_of(asked: Entry) -> set[str]:
    """The base64 of all files that a model got."""
    parts: list[Any] = [part for m in asked.body["messages"] if isinstance(m["content"], list) for part in m["content"]]
    return {_data_of(part).rpartition(",")[2] for part in parts if part["type"] != "text"}


def _data_of(part: dict[str, Any]) -> str:
    if "source" in part:
        return part["source"]["data"]
    return part["image_url"]["url"] if "image_url" in part else part["file"]["file_data"]


def stored(driver: Driver, job_id: str) -> int:
    with driver.services.database.read() as connection:
        return len(connection.execute(table.select().where(table.c.job_id == job_id)).all())


@pytest.mark.both_databases
@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [False, True])
def test_each_call_gets_the_files_and_the_ledger_keeps_references(
    driver: Driver, model_server: ModelServer, dialect: str, *, stream: bool
):
    model_server.script(generate=["one", "two"], evaluate=[0.4, 0.9])
    models = {"model": f"{dialect}:m", "evaluator_model": f"{dialect}:e"}
    job = driver.run_new(attachments=[IMAGE, DOCUMENT, IMAGE], stream=stream, **models)

    assert job.stop_reason == "accepted"
    asked = model_server.requests()
    assert [media_of(each) for each in asked] == [SENT] * 4
    assert 'Attachment 1, titled "Chart":' in asked[0].prompt
    assert ["are data" in each.prompt for each in asked] == [False, True, False, True]
    assert stored(driver, job.id) == 2
    for call in driver.ledger(job.id):
        text = json.dumps(call["request"])
        assert not any(data in text for data in SENT)
        assert text.count("attachment:image/png;sha256=") == 2


def test_the_request_of_a_job_shows_the_files_without_their_data(driver: Driver):
    job = driver.job(driver.submit(attachments=[IMAGE, attachment(pdf(3), PDF_TYPE)]))
    image, document = job.request["attachments"]
    assert (image["media_type"], image["title"], image["size"], document["pages"]) == (
        "image/png",
        "Chart",
        len(PNG),
        3,
    )
    assert image["url"] == f"/v1/jobs/{job.id}/attachments/{image['digest']}"
    assert not {"data"} & {*image, *document}
    file = attachments.get(driver.services, job.id, image["digest"])
    assert (file.media_type, file.data) == ("image/png", PNG)


def test_a_profile_without_media_gets_no_files(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[{"reason": "r", "comprehensive": True}])
    driver.run_new(attachments=[IMAGE], profile="comprehensive", eval_crit=None)
    assert media_of(model_server.requests("generate")[0])
    evaluator = model_server.requests("evaluate")[0]
    assert not media_of(evaluator)
    assert "Attachment" not in evaluator.prompt
    assert "attachments" not in evaluator.prompt


def test_a_continuation_and_a_rescoring_keep_the_files(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.1])
    job_id = driver.run_new(attachments=[IMAGE], iter_max=1).id
    lifecycle.continue_job(driver.services, job_id, ContinueJob(iter_max=1))
    driver.run(job_id)
    other = rescore(driver.services, job_id, RescoreJob(evaluator_model="openai:other")).job.id
    lifecycle.delete(driver.services, job_id)
    driver.run(other)
    assert all(media_of(each) == {IMAGE["data"]} for each in model_server.requests())
    assert stored(driver, other) == 1
    assert stored(driver, job_id) == 0
    with pytest.raises(NotFound):
        attachments.get(driver.services, job_id, driver.job(other).request["attachments"][0]["digest"])


def test_an_evaluation_of_a_given_answer_gets_the_files(driver: Driver, model_server: ModelServer):
    driver.run(driver.submit_evaluation("An answer.", attachments=[DOCUMENT]))
    assert media_of(model_server.requests("evaluate")[0]) == {DOCUMENT["data"]}


def test_the_reply_cache_tells_files_apart(driver: Driver, model_server: ModelServer):
    for image in (IMAGE, IMAGE, attachment(GIF, "image/gif", title="Chart")):
        driver.run_new(attachments=[image], cache="use")
    assert len(model_server.requests("generate")) == 2


@pytest.mark.parametrize(
    ("dialect", "status", "message"),
    [
        ("openai", 400, "Invalid content type. image_url is only supported by certain models."),
        ("openai", 404, "No endpoints found that support image input"),
        ("openai", 500, "image input is not supported - hint: you may need to provide the mmproj"),
        ("openai", 400, "vllm-model is not a multimodal model"),
        ("openai", 422, "messages[0]: unknown variant `image_url`, expected `text`"),
        ("anthropic", 400, "'claude-x' does not support image input."),
        ("anthropic", 400, "messages.0.content.1: PDF documents are not supported by this model"),
    ],
)
def test_a_model_that_refuses_files_ends_the_job_at_once(
    driver: Driver, model_server: ModelServer, dialect: str, status: int, message: str
):
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    model_server.script(generate=[Reply(status=status, raw=refusal)])
    job = driver.run_new(attachments=[IMAGE], model=f"{dialect}:m", evaluator_model="openai:e")
    assert job.status == "failed"
    assert job.error
    assert (job.error["code"], job.error["retryable"]) == ("provider_bad_request", False)
    assert job.error["detail"].endswith("Use a model that reads images and PDFs, or leave the attachments out.")
    assert len(model_server.requests()) == 1


def test_budgets_count_the_most_that_a_file_can_cost(make_driver: Callable[..., Driver], model_server: ModelServer):
    priced = {"prices": {name: {"input": 1.0, "output": 1.0} for name in ("openai:m", "anthropic:m")}}
    driver = make_driver(**priced)
    for model, tokens in (("openai:m", 16_400), ("anthropic:m", 4_800)):
        fields: dict[str, Any] = {"model": model, "evaluator_model": model, "iter_max": 1}
        job = driver.run_new(attachments=[IMAGE], limits={"max_tokens": tokens}, **fields)
        assert job.stop_reason == "budget_exhausted"
        job = driver.run_new(attachments=[IMAGE], limits={"max_tokens": 2 * tokens + 20_000}, **fields)
        assert job.stop_reason == "accepted"
    models = {"model": "anthropic:m", "evaluator_model": "anthropic:m"}
    body = {"instruct": "Q", "eval_crit": "C", "iter_max": 1, **models}
    with_file, without = (
        cost_estimates.cost_max(driver.services, GenerateAnswer.model_validate({**body, "attachments": files})).usd
        for files in ([attachment(pdf(10), PDF_TYPE)], [])
    )
    assert with_file
    assert without
    # A generation, an evaluation and its repair
    assert float(with_file - without) == pytest.approx(3 * 10 * 7_800 / 1e6, rel=0.01)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"attachments_max": 1}, "too_many_attachments"),
        ({"attachment_max_bytes": 20}, "attachment_too_large"),
        ({"attachments_max_bytes": 100}, "attachments_too_large"),
    ],
)
def test_limits_are_settings(make_driver: Callable[..., Driver], changes: dict[str, int], code: str):
    with pytest.raises(Invalid) as caught:
        make_driver(**changes).submit(attachments=[IMAGE, DOCUMENT])
    assert (caught.value.code, next(iter(changes)).upper() in caught.value.message) == (code, True)


def test_a_digest_is_no_file(driver: Driver):
    known = driver.job(driver.submit(attachments=[IMAGE])).request["attachments"][0]
    known = {name: value for name, value in known.items() if name != "url"}
    with pytest.raises(Invalid) as caught:
        driver.submit(attachments=[known])
    assert caught.value.errors[0].pointer == "/attachments/0/data"


def test_a_text_that_looks_like_a_reference_stays_a_text(driver: Driver, model_server: ModelServer):
    digest = driver.job(driver.submit(attachments=[IMAGE])).request["attachments"][0]["digest"]
    text = f"attachment:image/png;sha256={digest};size={len(PNG)}"
    driver.run_new(attachments=[IMAGE], instruct=text)
    assert text in model_server.requests("generate")[0].prompt
