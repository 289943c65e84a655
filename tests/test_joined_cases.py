"""Joined cases: which tests have them, and what of their failures is told."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.joined_cases import are_pure, joined

CasesOf = Callable[[Callable[..., None]], list[pytest.Function]]


@pytest.fixture
def cases_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CasesOf:
    """The items that pytest makes of a test, which it looks for in this module."""
    module = request.node.parent

    def make(test: Callable[..., None]) -> list[pytest.Function]:
        monkeypatch.setattr(module.obj, test.__name__, test, raising=False)
        return list(module._genfunctions(test.__name__, test))

    return make


def test_all_cases_run_and_those_that_fail_are_named(request: pytest.FixtureRequest, cases_of: CasesOf):
    ran: list[int] = []

    @pytest.mark.both_databases
    @pytest.mark.parametrize("number", [1, 2, 3, 4])
    def test(number: int) -> None:
        ran.append(number)
        if number == 3:
            pytest.skip()
        if number == 4:
            pytest.fail("four")
        assert number == 2

    cases = cases_of(test)
    assert are_pure(cases)
    item = joined(request.node.parent, cases)
    assert item.nodeid == cases[0].nodeid.removesuffix("[1]")
    assert item.get_closest_marker("both_databases")
    with pytest.raises(BaseExceptionGroup, match="3 of 4 cases") as caught:
        item.obj()
    assert ran == [1, 2, 3, 4]
    assert [each.__notes__ for each in caught.value.exceptions] == [["case 1"], ["case 3"], ["case 4"]]


def test_cases_with_fixtures_marks_or_examples_are_items_of_their_own(cases_of: CasesOf):
    @pytest.mark.parametrize("number", [1, 2])
    def test_fixture(number: int, tmp_path: Path) -> None: ...

    @pytest.mark.usefixtures("tmp_path")
    @pytest.mark.parametrize("number", [1, 2])
    def test_used(number: int) -> None: ...

    @pytest.mark.parametrize("tmp_path", [1, 2], indirect=True)
    def test_indirect(tmp_path: Path) -> None: ...

    @pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.long)])
    def test_marked(number: int) -> None: ...

    @pytest.mark.parametrize("number", [1, 2])
    @given(st.integers())
    def test_examples(number: int, example: int) -> None: ...

    def test_single() -> None: ...

    for test in (test_fixture, test_used, test_indirect, test_marked, test_examples, test_single):
        assert not are_pure(cases_of(test)), test.__name__
