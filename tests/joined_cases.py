"""The cases of a pure function as one item in the processes of xdist: an item costs 4 ms, more than most such cases.

A run in one process, such as `pytest 'tests/…::test_x[case]'`, has an item for each case.
"""

from collections.abc import Generator, Sequence
from typing import Any

import pytest
from _pytest.fixtures import _get_direct_parametrize_args


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Join the cases of a test that gets nothing but its parameters."""
    made = yield
    if hasattr(collector.config, "workerinput") and isinstance(made, list) and are_pure(made):
        return [joined(collector, made)]
    return made


def are_pure(cases: Sequence[pytest.Function]) -> bool:
    """Whether there are several cases, and none of them needs a fixture, a mark or examples of its own."""
    first = cases[0] if cases else None
    if len(cases) < 2 or not isinstance(first, pytest.Function) or hasattr(first.obj, "hypothesis"):
        return False
    used = {name for mark in first.iter_markers("usefixtures") for name in mark.args}
    is_marked = any(case.callspec.marks for case in cases)
    return not is_marked and used | set(first._fixtureinfo.argnames) <= _get_direct_parametrize_args(first)


def joined(collector: pytest.Collector, cases: Sequence[pytest.Function]) -> pytest.Function:
    """One item that runs all cases, and fails with the failures of all of them."""
    test = cases[0].obj

    def run() -> None:
        if failures := [failure for case in cases if (failure := _failure_of(case))]:
            raise BaseExceptionGroup(f"{len(failures)} of {len(cases)} cases", failures)

    run.__name__, run.__module__ = test.__name__, test.__module__
    vars(run)["pytestmark"] = [mark for mark in test.pytestmark if mark.name != "parametrize"]
    return pytest.Function.from_parent(collector, name=cases[0].originalname, callobj=run)


def _failure_of(case: pytest.Function) -> BaseException | None:
    try:
        case.obj(**case.callspec.params)
    # A case that skips itself would hide that the others pass
    except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001 - whatever a test raises
        error.add_note(f"case {case.callspec.id}")
        return error
    return None
