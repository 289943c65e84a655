"""A broker that refuses: what waiting mends is told apart from what only other settings mend."""

from pathlib import Path

import pytest

from redraft.domain.jobs.states import Step
from redraft.errors import Unavailable
from redraft.messages import StepMessage
from redraft.queue import Queue
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
