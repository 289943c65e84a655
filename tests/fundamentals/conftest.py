"""What a newcomer reads first: real parts, the shared ones of the journeys."""

import pytest

from tests.journeys.conftest import desk, offices
from tests.journeys.offices import Office, Offices

__all__ = ["desk", "offices"]


@pytest.fixture
def office(offices: Offices, request: pytest.FixtureRequest) -> Office:
    """An API, a worker process and a scripted provider, which the tests of a module share."""
    return offices.at("sqlite", lambda: request.getfixturevalue("postgres"))
