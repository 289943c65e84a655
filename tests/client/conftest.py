"""The client at a real API with a worker, which outlive the tests of a module."""

from collections.abc import Iterator

import pytest
from redraft_client import Redraft

from tests.api.conftest import start_api
from tests.journeys.offices import Office, Offices

__all__ = ["start_api"]


@pytest.fixture(scope="module")
def offices() -> Iterator[Offices]:
    with Offices() as opened:
        yield opened


@pytest.fixture
def office(request: pytest.FixtureRequest, offices: Offices) -> Office:
    return offices.at("sqlite", lambda: request.getfixturevalue("postgres"))


@pytest.fixture
def url(office: Office) -> str:
    return str(office.desk.client.base_url)


@pytest.fixture
def redraft(url: str) -> Iterator[Redraft]:
    with Redraft(url) as client:
        yield client
