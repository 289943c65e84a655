"""A driver of runs with batches on each database in turn."""

from collections.abc import Callable

import pytest

from redraft.operations.services import Services
from tests.model_server import ModelServer
from tests.operations.batches.batching import BatchDriver, settings_of


@pytest.fixture
def make_batches(make_services: Callable[..., Services], model_server: ModelServer) -> Callable[..., BatchDriver]:
    def make(**changes: object) -> BatchDriver:
        return BatchDriver(make_services(**{**settings_of(model_server), "lease_s": 60.0, **changes}), model_server)

    return make


@pytest.fixture
def batches(make_batches: Callable[..., BatchDriver]) -> BatchDriver:
    return make_batches()
