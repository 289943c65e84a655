"""A driver on each database in turn; short waits."""

from collections.abc import Callable
from typing import Any

import pytest

from redraft.operations.services import Services
from tests.operations.driving import Driver

# What these hold does not depend on the database: the long form runs them on PostgreSQL as well.
_ON_EITHER = {
    "test_adapting",
    "test_bad_replies",
    "test_budgets",
    "test_cases_evaluators",
    "test_cases_providers",
    "test_citing",
    "test_refine",
    "test_reply_cache",
    "test_rubrics",
    "test_structured_answers",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in _ON_EITHER and item.path.parent.name == "operations" and "postgresql" in item.name:
            item.add_marker(pytest.mark.long)


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
    return driver.interrupted
