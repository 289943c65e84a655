"""Batch endpoints when a process, a connection or the provider fails."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from redraft.errors import ProviderError
from redraft.providers.batches.batch_endpoint import BatchCounts, BatchState, ProviderBatch
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.settings import Settings
from tests.model_server import BatchScript, ModelServer, Reply
from tests.model_server.batch_store import Batch
from tests.providers.batches.conftest import Client, MakeClient
from tests.support.receiver import Receiver

LOST = Reply(fault="reset")


def fails(call: Callable[[], object]) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        call()
    return caught.value


def others(server: ModelServer, count: int, wire_format: str) -> None:
    """Batches of somebody else."""
    prefix = {"openai": "batch_other", "anthropic": "msgbatch_other"}[wire_format]
    for number in range(count):
        batch = Batch(f"{prefix}_{number}", wire_format, [], {}, time.time(), state="completed", ended_at=time.time())
        server.add_batch(batch)


def test_a_batch_whose_answer_was_lost_is_found_again(client: Client, server: ModelServer):
    server.script(batch=BatchScript(polls=0, answers={"create": [LOST]}))
    file = client.file()
    error = fails(lambda: client.submit(file))
    assert (error.code, error.retryable) == ("provider_unavailable", True)
    [theirs] = server.batches()
    found = client.find(file)
    assert found
    assert found.id == theirs.id
    assert len(client.lines(client.ended(found), file)) == 3


def test_a_batch_that_never_reached_the_provider_is_not_found(client: Client, server: ModelServer):
    server.script(batch=BatchScript(polls=0, answers={"create": [Reply(status=503)]}))
    file = client.file()
    assert fails(lambda: client.submit(file)).retryable
    others(server, 3, client.format)
    assert client.find(file) is None
    client.submit(file)
    assert client.find(file)


def test_a_lost_batch_is_found_behind_many_newer_ones(make_client: MakeClient, server: ModelServer):
    client = make_client("openai")
    file = client.file()
    theirs = client.submit(file)
    others(server, 230, "openai")
    found = client.find(file)
    assert found
    assert found.id == theirs.id
    assert client.find(file, "another_batch") is None


def test_older_batches_are_not_searched(client: Client, server: ModelServer):
    server.script(batch=BatchScript(polls=0))
    file = client.file()
    client.submit(file)
    assert client.find(file, since=datetime.now(UTC))
    assert client.find(file, since=datetime.now(UTC) + timedelta(hours=1)) is None


def test_a_running_batch_of_anthropic_is_decided_when_it_has_ended(make_client: MakeClient, server: ModelServer):
    server.script(batch=BatchScript(is_held=True, polls=0))
    client = make_client("anthropic")
    file = client.file()
    theirs = client.submit(file)
    error = fails(lambda: client.find(file))
    assert (error.code, error.retryable) == ("provider_unavailable", True)
    assert theirs.id in error.message
    # Batches of ours that are stored cannot be the lost one
    assert client.find(file, known=[theirs.id]) is None
    server.release()
    client.ended(theirs)
    found = client.find(file)
    assert found
    assert found.id == theirs.id


def test_a_batch_of_anthropic_with_other_ids_is_not_taken_for_the_lost_one(
    make_client: MakeClient, server: ModelServer
):
    server.script(batch=BatchScript(polls=0))
    client = make_client("anthropic")
    client.submit(client.file(2))
    ours = client.files(client.requests(4)[2:])[0]
    assert client.find(ours) is None


@pytest.mark.parametrize(
    ("reply", "code", "wait_s"),
    [
        (Reply(status=429, headers={"retry-after": "7"}), "provider_rate_limited", 7.0),
        (Reply(status=503), "provider_unavailable", None),
        (Reply(status=529), "provider_unavailable", None),
        (Reply(fault="cut_body"), "provider_unavailable", None),
        (Reply(fault="garbage"), "provider_unavailable", None),
        (Reply(raw="<html>Bad gateway</html>"), "provider_unavailable", None),
        (Reply(raw={"hello": "world"}), "provider_unavailable", None),
    ],
)
def test_a_failed_poll_is_repeated_later(
    client: Client, server: ModelServer, reply: Reply, code: str, wait_s: float | None
):
    server.script(batch=BatchScript(polls=0, answers={"read": [reply]}))
    batch = client.submit(client.file())
    error = fails(lambda: client.read(batch))
    assert (error.code, error.retryable, error.retry_after_s) == (code, True, wait_s)
    assert client.read(batch).state == BatchState.COMPLETED


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_poll_without_an_answer_ends_by_its_timeout(
    server: ModelServer, settings: Settings, tmp_path: Path, name: str
):
    catalog = ProviderCatalog(settings.model_copy(update={"first_byte_timeout_s": 0.2}))
    client = Client(name, catalog, catalog.batches(f"via-{name}"), tmp_path)
    server.script(batch=BatchScript(answers={"read": [Reply(fault="hang")]}))
    error = fails(lambda: client.read(ProviderBatch("batch_1", BatchState.UNKNOWN, "", BatchCounts())))
    catalog.close()
    assert (error.code, error.retryable) == ("provider_timeout", True)
    assert error.message.endswith("batches/batch_1 in time.")


def test_a_wrong_key_is_not_retried(client: Client, server: ModelServer):
    server.script(batch=BatchScript(answers={"create": [Reply(status=401)], "upload": [Reply(status=401)]}))
    error = fails(lambda: client.submit(client.file()))
    assert (error.code, error.retryable) == ("provider_auth", False)
    assert server.batches() == []


def test_a_download_that_breaks_leaves_no_file_and_can_be_repeated(client: Client, server: ModelServer):
    broken = {"content": [Reply(fault="cut_body")], "results": [Reply(fault="cut_body")]}
    server.script(batch=BatchScript(polls=0, answers=broken))
    file = client.file(30)
    batch = client.ended(client.submit(file))
    path = client.folder / "results.jsonl"
    error = fails(lambda: CALLS_LOOP.run(client.endpoint.download(batch, path)))
    assert error.retryable
    assert [each.name for each in client.folder.iterdir()] == [file.path.name]
    assert len(client.lines(batch, file)) == 30


def test_a_batch_that_the_provider_does_not_know_is_no_transient_error(client: Client):
    error = fails(lambda: client.read(ProviderBatch("batch_x/../y", BatchState.UNKNOWN, "", BatchCounts())))
    assert (error.http_status, error.retryable) == (404, False)


def test_results_are_never_fetched_from_another_host(make_client: MakeClient, server: ModelServer):
    with Receiver() as elsewhere:
        server.script(batch=BatchScript(polls=0, results_url=f"{elsewhere.url}/results"))
        client = make_client("anthropic")
        file = client.file()
        assert len(client.lines(client.ended(client.submit(file)), file)) == 3
        assert elsewhere.hits == []


def test_a_submission_that_is_not_confirmed_creates_no_batch(client: Client, server: ModelServer):
    def refuse() -> None:
        raise InterruptedError

    # The HTTP client translates what the body of a request raises
    with pytest.raises((InterruptedError, ProviderError)):
        client.submit(client.file(), confirm=refuse)
    assert server.batches() == []


def test_the_files_of_a_batch_are_deleted_once(client: Client, server: ModelServer):
    batch = client.ended(client.submit(client.file()))
    for _ in range(2):
        CALLS_LOOP.run(client.endpoint.discard(batch))
    assert server.files() == []
