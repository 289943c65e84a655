"""How values are written in the pages."""

import pytest

from api.pages.parts.filters import UNKNOWN, breakable, usd
from api.pages.parts.job_words import ending
from redraft.domain.jobs.states import StopReason


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (None, UNKNOWN),
        ("0", "$0.00"),
        ("0.00009", "<$0.0001"),
        ("0.0001", "$0.00010"),
        ("0.003", "$0.0030"),
        ("0.00361", "$0.0036"),
        ("0.01", "$0.01"),
        ("0.3", "$0.30"),
        ("0.17", "$0.17"),
        ("1", "$1.00"),
        ("1234.5", "$1,234.50"),
    ],
)
def test_costs_have_cents_and_two_digits_below_a_cent(cost: str | None, words: str):
    assert usd(cost) == words


def test_names_are_put_on_several_lines_after_underscores_only():
    assert breakable("A_<b>_C") == "A_<wbr>&lt;b&gt;_<wbr>C"


def test_every_stop_reason_has_plain_words():
    words = [ending(reason) for reason in StopReason]
    assert len(set(words)) == len(StopReason)
    assert not any("_" in each for each in words)
    assert ending("iteration_limit", "evaluate_answer") == "not accepted"
