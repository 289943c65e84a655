"""Runs that the tests of this folder show."""

import pytest

from redraft.operations.bulk.run_resources import Run
from redraft.operations.services import Services
from tests.model_server import ModelServer, Reply
from tests.operations.bulk.test_runs import rows, start, work_off
from tests.operations.driving import Driver


@pytest.fixture
def driver(services: Services) -> Driver:
    return Driver(services)


@pytest.fixture
def mixed(driver: Driver, model_server: ModelServer) -> Run:
    """A run with an item of each outcome: accepted, not accepted, failed, invalid."""
    model_server.script(generate=["one", "two"], evaluate=[0.4, 0.9], case="r0")
    model_server.script(generate=["no", "never"], evaluate=[0.4, 0.1], case="r1")
    model_server.script(generate=[Reply(status=400)], case="r2")
    return work_off(driver, start(driver, rows(3, iter_max=2) + b"nonsense\n", name="mixed"))
