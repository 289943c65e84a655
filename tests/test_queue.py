"""A broker that refuses: what waiting mends is told apart from what only other settings mend."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from celery import Celery

from redraft.domain.jobs.states import Step
from redraft.errors import Unavailable
from redraft.messages import BULK_QUEUE, INTERACTIVE_QUEUE, StepMessage
from redraft.queue import Queue, celery_options
from redraft.settings import Settings
from tests.support.failing_broker import FailingBroker
from tests.support.valkey import ValkeyServer

PASSING = (
    "READONLY You can't write against a read only replica.",
    "LOADING Valkey is loading the dataset in memory",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "NEVERSEEN what no client knows",
)
FOR_GOOD = (
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "NOPERM this user has no permissions to run the 'del' command",
    "CLUSTERDOWN Hash slot not served",
    "MOVED 3999 127.0.0.1:6381",
    "CROSSSLOT Keys in request don't hash to the same slot",
)


@pytest.mark.parametrize("refusal", [*PASSING, *FOR_GOOD])
def test_a_refusal_is_told_with_its_remedy_and_sending_never_raises(refusal: str, valkey: ValkeyServer, tmp_path: Path):
    with FailingBroker() as broker:
        broker.upstream = valkey.socket
        queue = Queue(Settings(data_dir=tmp_path, broker_url=broker.url))
        queue.ping()
        with broker.answering(refusal):
            with pytest.raises(Unavailable) as told:
                queue.ping()
            assert not queue.notify(StepMessage(Step.GENERATE, "job_1", 1))
        queue.ping()
        queue.close()
    assert told.value.code == ("broker_refuses" if refusal in FOR_GOOD else "broker_unavailable")
    assert ("REDRAFT_BROKER_URL" in told.value.message) == (refusal in FOR_GOOD)


# Parts of Celery's message that differ for each message or sender, or whose absence means the same
NOT_COMPARED = {"id", "root_id", "expires", "expiration", "origin", "correlation_id", "reply_to", "delivery_tag"}
EMPTY: tuple[Any, ...] = (None, "", (), [], {}, [None, None], "()", 0)


@pytest.mark.parametrize(("name", "priority"), [(INTERACTIVE_QUEUE, 0), (BULK_QUEUE, 9)])
def test_a_message_is_equal_to_the_one_that_celery_sends(
    name: str, priority: int, valkey: ValkeyServer, tmp_path: Path
):
    # Other tests leave messages in the first database
    settings = Settings(data_dir=tmp_path, broker_url=f"{valkey.url}?virtual_host=9")
    queue, message = Queue(settings), StepMessage(Step.GENERATE, "job_1", 1, name == BULK_QUEUE)
    with Celery(set_as_current=False) as app:
        app.conf.update(celery_options(settings, socket_timeout_s=1))
        app.send_task(
            message.task, kwargs=message.payload, queue=name, priority=priority, expires=120, ignore_result=True
        )
        queue.notify(message)
        with app.connection() as connection:
            channel = cast("Any", connection).default_channel
            of_celery, ours = [channel.basic_get(name, no_ack=True) for _ in range(2)]
            assert channel.basic_get(name, no_ack=True) is None
    queue.close()
    assert ours.decode() == of_celery.decode()
    for part in ("headers", "properties", "delivery_info"):
        assert what_counts(getattr(ours, part)) == what_counts(getattr(of_celery, part))
    ends = [datetime.fromisoformat(each.headers["expires"]) for each in (ours, of_celery)]
    assert abs(ends[0] - ends[1]) < timedelta(seconds=30)
    assert {ours.headers["id"], ours.headers["root_id"]} == {ours.properties["correlation_id"]}


def what_counts(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name not in NOT_COMPARED and value not in EMPTY}
