"""No batch is submitted twice, although workers are taken for lost, answers are late and lists lag."""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import update

from redraft.operations.bulk.run_resources import Run
from redraft.storage.engine.bulk_tables import batches as batches_table
from redraft.storage.engine.columns import DbNow
from tests.model_server import BatchScript, ModelServer, Reply
from tests.operations.batches.batching import JUDGE, WRITER, BatchDriver
from tests.support.waiting import wait_until

HELD = Reply(is_held=True)
AN_HOUR = 3600.0


def script(server: ModelServer, **batch: Any) -> None:
    server.script(generate=["a"], evaluate=[0.9], batch=BatchScript(**batch))


@contextmanager
def another_worker(batches: BatchDriver, server: ModelServer, sign: Callable[[], object]) -> Generator[None]:
    """A worker is taken for lost while the server holds its request. It goes on at the end of the block."""
    with ThreadPoolExecutor(1) as threads:
        lost = threads.submit(batches.deliver)
        wait_until(sign, what="the request of the lost worker")
        batches.restart()
        try:
            yield
        finally:
            server.release()
        lost.result()


def test_a_worker_that_is_taken_for_lost_during_its_upload_submits_nothing(
    batches: BatchDriver, model_server: ModelServer
):
    script(model_server, answers={"upload": [HELD]})
    run = batches.start()
    batches.work(run)
    with another_worker(batches, model_server, model_server.files):
        batches.deliver()
        assert len(model_server.batches()) == 1
    assert len(model_server.batches()) == 1
    assert batches.run_all(run).counts.accepted == 3
    batches.ensure_once(run)


@pytest.mark.parametrize("model", [WRITER, JUDGE])
def test_a_batch_whose_answer_and_listing_are_late_is_looked_for_and_not_submitted_again(
    make_batches: Callable[..., BatchDriver], model_server: ModelServer, model: str
):
    batches = make_batches(batch_resubmit_s=AN_HOUR)
    script(model_server, unlisted=2, answers={"create": [HELD]})
    run = batches.start(defaults={"model": model})
    batches.work(run)
    with another_worker(batches, model_server, model_server.batches):
        batches.deliver()
        [waiting] = batches.now(run).rounds[0].batches
        assert "was interrupted" in (waiting.error or "")
        assert waiting.provider_batch_id is None
        wait_until(lambda: batches.deliver() or batches.now(run).rounds[0].batches[0].provider_batch_id)
    assert batches.run_all(run).counts.accepted == 3
    assert len(model_server.batches()) == 2
    batches.ensure_once(run)


@pytest.mark.parametrize("model", [WRITER, JUDGE])
def test_a_batch_that_never_arrived_is_submitted_again_after_the_pause(
    make_batches: Callable[..., BatchDriver], model_server: ModelServer, model: str
):
    batches = make_batches(batch_resubmit_s=AN_HOUR)
    script(model_server, answers={"create": [Reply(status=503)]})
    run = batches.start(defaults={"model": model})
    batches.work(run)
    for _ in range(3):
        batches.deliver()
    assert model_server.batches() == []
    with batches.services.database.write() as connection:
        connection.execute(update(batches_table).values(resubmit_at=DbNow(-1.0)))
    assert batches.run_all(run).counts.accepted == 3
    batches.ensure_once(run)


def test_a_batch_that_the_provider_has_no_room_for_is_submitted_again_without_the_pause(
    make_batches: Callable[..., BatchDriver], model_server: ModelServer
):
    batches = make_batches(batch_resubmit_s=AN_HOUR)
    script(model_server, answers={"create": [Reply(status=429)]})
    run = batches.start()
    batches.work(run)
    for _ in range(2):
        batches.deliver()
    assert len(model_server.batches()) == 1
    batches.ensure_once(run)


def test_the_files_of_a_batch_are_deleted_after_its_results_are_stored(batches: BatchDriver, model_server: ModelServer):
    script(model_server)
    model_server.script(generate=[Reply("b", fault="line_error"), "c"], case="r0")
    run = batches.run_all(batches.start())
    assert (run.counts.accepted, model_server.files()) == (3, [])


def test_files_that_cannot_be_deleted_change_nothing(batches: BatchDriver, model_server: ModelServer):
    script(model_server, answers={"delete": [Reply(status=500), Reply(status=401)]})
    run = batches.run_all(batches.start())
    assert (run.counts.accepted, len(model_server.files())) == (3, 2)


@pytest.mark.parametrize("model", [WRITER, JUDGE])
@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_listing_does_not_drop_a_batch_that_the_provider_may_have(
    batches: BatchDriver, model_server: ModelServer, model: str, status: int
) -> None:
    script(model_server, answers={"create": [Reply(fault="reset")], "list": [Reply(status=status)]})
    run = batches.start(defaults={"model": model})
    batches.work(run)
    for _ in range(3):
        batches.deliver()
    assert batches.now(run).counts.failed == 0
    assert len(model_server.batches()) == 1


def expect_results(batches: BatchDriver, run: Run) -> None:
    """The first batch has all its results after some deliveries."""
    for _ in range(6):
        batches.work(run)
        batches.deliver()
    first = batches.now(run).rounds[0].batches[0]
    assert (first.succeeded, first.failed) == (3, 0)


@pytest.mark.parametrize(("model", "download"), [(WRITER, "content"), (JUDGE, "results")])
def test_results_that_are_listed_late_are_asked_for_again(
    batches: BatchDriver, model_server: ModelServer, model: str, download: str
) -> None:
    script(model_server, answers={download: [Reply(status=404)]})
    run = batches.start(defaults={"model": model})
    expect_results(batches, run)


@pytest.mark.parametrize(
    ("model", "answers"),
    [(WRITER, {"content": [Reply(status=403)]}), (JUDGE, {"results": [None, Reply(status=403)]})],
)
def test_the_results_of_a_batch_that_was_looked_for_are_asked_for_again(
    batches: BatchDriver, model_server: ModelServer, model: str, answers: dict[str, Any]
) -> None:
    script(model_server, polls=0, answers={"create": [Reply(fault="reset")], **answers})
    run = batches.start(defaults={"model": model})
    expect_results(batches, run)
    batches.ensure_once(run)


def test_failures_before_the_end_of_a_batch_do_not_count_against_its_results(
    batches: BatchDriver, model_server: ModelServer
) -> None:
    script(model_server, answers={"read": [None, *[Reply(status=503)] * 12], "content": [Reply(status=404)]})
    run = batches.start()
    for _ in range(18):
        batches.work(run)
        batches.deliver()
    first = batches.now(run).rounds[0].batches[0]
    assert (first.succeeded, first.failed) == (3, 0)


def test_the_files_of_a_batch_with_unreadable_results_are_kept(batches: BatchDriver, model_server: ModelServer):
    script(model_server, foreign=1)
    run = batches.start()
    batches.work(run)
    wait_until(lambda: batches.deliver() or batches.now(run).rounds[0].ended_at is not None)
    assert len(model_server.files()) == 2
