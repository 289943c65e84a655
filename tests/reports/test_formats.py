"""What holds for all formats: they never raise, and tell no figure that is none."""

import re

import pytest
from hypothesis import given, settings

from redraft.domain.text.control_characters import one_line
from redraft.reports.formats import COMPARISON_FORMATS, FORMATS
from tests.domain.bulk.outcomes import RUNS, looped
from tests.reports.sheets import HOSTILE_RUNS, comparison_tables, hostile_comparison, hostile_sheet, run_tables

_NO_FIGURE = re.compile(r"\b(nan|inf|infinity|None)\b", re.IGNORECASE)
_ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def _told(text: str) -> str:
    return text.replace("None.", "").replace("None of", "").replace("none", "")


@settings(max_examples=15)
@given(RUNS)
def test_no_format_tells_a_figure_that_is_none(items):
    tables = run_tables(items)
    for shown in FORMATS.values():
        assert not _NO_FIGURE.search(_told(shown.render(tables)))


@settings(max_examples=15)
@given(RUNS, RUNS)
def test_no_comparison_tells_a_figure_that_is_none_or_calls_runs_equal(old, new):
    tables = comparison_tables(old, new)
    for name, shown in COMPARISON_FORMATS.items():
        text = shown.render(tables)
        assert not _NO_FIGURE.search(_told(text))
        if name != "html":
            assert not re.search(r"\b(equal|identical|same as)\b", text, re.IGNORECASE)


@settings(max_examples=15)
@given(HOSTILE_RUNS)
def test_whatever_names_and_errors_hold_nothing_acts_on_a_screen(items):
    tables = run_tables(items)
    for shown in FORMATS.values():
        text = shown.render(tables)
        assert text.encode()
        assert not _ACTING.search(text)


def test_hostile_names_of_runs_do_not_act_either():
    texts = [shown.render(hostile_sheet()) for shown in FORMATS.values()]
    texts += [shown.render(hostile_comparison()) for shown in COMPARISON_FORMATS.values()]
    assert not any(_ACTING.search(text) for text in texts)


def test_each_format_has_a_type_and_a_suffix_of_its_own():
    assert list(FORMATS) == ["text", "html", "markdown", "json", "junit"]
    assert list(COMPARISON_FORMATS) == ["text", "html", "markdown", "json"]
    assert len({shown.media_type for shown in FORMATS.values()}) == len(FORMATS)
    assert len({shown.suffix for shown in FORMATS.values()}) == len(FORMATS)


def test_long_texts_are_cut():
    assert one_line("a" * 5000) == "a" * 1999 + "…"


@pytest.mark.parametrize("name", ["text", "html", "markdown"])
@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([], "This run has no items."),
        ([looped("a", 0.9), *[looped(f"b{n}", 0.9, repeat=2) for n in range(2)]][:1], "Only one row has a score"),
        ([looped("a", 0.9, price=None), looped("b", 0.9)], "and so is the cost of the run: the prices of some calls"),
        (
            [looped("a", None, success=None, stop_reason="evaluation_skipped")],
            "No answer has a verdict, so there is no pass",
        ),
        ([looped("a", None, success=True, stop_reason="accepted")], "No returned answer has a score."),
    ],
)
def test_what_is_missing_is_said_plainly(name, items, words):
    assert words in FORMATS[name].render(run_tables(items))
