"""A driver on each database in turn; short waits."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from redraft.operations.services import Services
from redraft.providers.catalog import ProviderCatalog
from tests.operations.driving import Driver, InterruptedCatalog


@pytest.fixture
def make_driver(make_services: Callable[..., Services]) -> Callable[..., Driver]:
    def make(**changes: Any) -> Driver:
        return Driver(make_services(**{"retry_wait_s": 0.01, "lease_s": 60.0, **changes}))

    return make


@pytest.fixture
def driver(make_driver: Callable[..., Driver]) -> Driver:
    return make_driver()


@pytest.fixture
def interrupted(driver: Driver) -> Callable[[Callable[[], None]], Driver]:
    """A second worker on the same database, to which something happens during each of its calls."""

    def make(happening: Callable[[], None]) -> Driver:
        catalog = cast("ProviderCatalog", InterruptedCatalog(driver.services.providers, happening))
        return Driver(replace(driver.services, providers=catalog))

    return make
