"""Public bug reports of systems like this one: each case of `cases.txt` is held by tests that name its id.

An id stands in a comment or a parameter (`HB-F1.1`), or in a test's name (`test_f04_2_…`).
"""

import re
from functools import cache

import pytest

from tests.rules.sources import ROOT

CASES = [line.split("\t") for line in (ROOT / "tests/rules/cases.txt").read_text("utf-8").splitlines()]


@cache
def words() -> str:
    """Each word with a number once: to look for all cases in all text takes seconds."""
    return "\n".join(
        {
            word
            for path in (ROOT / "tests").rglob("test_*.py")
            if path.parent.name != "rules"
            for word in re.findall(r"(?:def )?[\w.-]*\d[\w.-]*", path.read_text("utf-8"))
        }
    )


def names(text: str, case: str) -> bool:
    in_words = rf"(?<![\w.-]){re.escape(case)}(?![\w-]|\.\d)"
    in_names = rf"def test_(?:\w+_)?{re.sub('[-.]', '_', case.lower())}_(?!\d)"
    return re.search(f"{in_words}|{in_names}", text) is not None


@pytest.mark.parametrize(
    ("text", "case", "is_named"),
    [
        ("# Cases B01, HB-F1.1", "HB-F1.1", True),
        ("def test_case_f04_2_of_a_range():", "F04.2", True),
        ("HB-F1.10", "HB-F1.1", False),
        ("HB-B1.1", "HB-B1", False),
        ("case_e14", "E14", False),
        ("def test_f04_2_of_a_range():", "F04", False),
    ],
)
def test_an_id_is_a_word_of_its_own(text: str, case: str, *, is_named: bool):
    assert names(text, case) is is_named


def test_every_case_is_listed_once():
    assert len({case for case, _, _ in CASES}) == len(CASES) == 116


def test_every_case_is_held_by_a_test():
    assert [case for case in CASES if not names(words(), case[0])] == []
