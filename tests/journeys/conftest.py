"""The product as users meet it: the API on a real socket, worker processes, a scripted provider."""

from collections.abc import Callable, Iterator

import pytest

from api.app import create_app
from redraft.operations.services import Services
from redraft.settings import Settings
from tests.journeys.desks import TASK, Desk
from tests.journeys.offices import Office, Offices
from tests.support.api_server import ApiServer
from tests.support.processes import WorkerProcess

# One database in the short form; which one does not matter to what such a test holds.
ON_POSTGRESQL, ON_SQLITE = (
    pytest.mark.parametrize("database_url", [one, pytest.param(other, marks=pytest.mark.long)], indirect=True)
    for one, other in (("postgresql", "sqlite"), ("sqlite", "postgresql"))
)


__all__ = ["ON_POSTGRESQL", "ON_SQLITE", "TASK", "Desk"]


@pytest.fixture
def desk(make_settings: Callable[..., Settings]) -> Iterator[Desk]:
    with ApiServer(create_app(make_settings())) as server:
        yield Desk(server.client())


@pytest.fixture
def worker(services: Services, start_worker: Callable[..., WorkerProcess]) -> WorkerProcess:
    return start_worker(services).wait_ready()


@pytest.fixture(scope="module")
def offices() -> Iterator[Offices]:
    with Offices() as opened:
        yield opened


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.long), "postgresql"])
def office(request: pytest.FixtureRequest, offices: Offices) -> Office:
    """A worker and an API that outlive the test, on each database in turn."""
    return offices.at(request.param, lambda: request.getfixturevalue("postgres"))
