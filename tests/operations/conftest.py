"""A driver on each database in turn; short waits; a receiver of webhooks."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from redraft.operations.services import Services
from tests.operations.driving import Driver
from tests.support.receiver import Receiver


@pytest.fixture
def make_driver(make_services: Callable[..., Services]) -> Callable[..., Driver]:
    def make(**changes: Any) -> Driver:
        return Driver(make_services(**{"retry_wait_s": 0.01, "lease_s": 60.0, "ring_again_s": 30.0, **changes}))

    return make


@pytest.fixture
def driver(make_driver: Callable[..., Driver]) -> Driver:
    return make_driver()


@pytest.fixture
def interrupted(driver: Driver) -> Callable[[Callable[[], None]], Driver]:
    return driver.interrupted


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server
