"""Markdown for pull requests."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings

from redraft.domain.bulk.examples import Examples
from redraft.reports.markdown import escape, render_markdown
from tests.domain.bulk.outcomes import many
from tests.reports.sheets import (
    EXAMPLES,
    HOSTILE,
    HOSTILE_RUNS,
    attempt,
    comparison_tables,
    example,
    hostile_comparison,
    hostile_sheet,
    run_tables,
)

_PIPE = re.compile(r"(?<!\\)(?:\\\\)*\|")


def _tables(text: str) -> list[list[str]]:
    return [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]


@settings(max_examples=25)
@given(HOSTILE_RUNS)
def test_each_row_of_a_table_has_as_many_cells_as_its_head(items):
    for table in _tables(render_markdown(run_tables(items))):
        assert len({len(_PIPE.findall(row)) for row in table}) == 1


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", "a\\|b"),
        ("<b>", "&lt;b&gt;"),
        ("&lt;", "&amp;lt;"),
        ("*a* _b_ `c` [d](e)", "\\*a\\* \\_b\\_ \\`c\\` \\[d\\](e)"),
        ("@all", "@<!-- -->all"),
        ("#12 GH-12", "#<!-- -->12 GH-<!-- -->12"),
        ("https://a.example", "https:<!-- -->//a.example"),
        ("www.a.example", "www<!-- -->.a.example"),
        ("$0.02", "\\$0.02"),
        ("a\n# b", "a #<!-- --> b"),
    ],
)
def test_texts_are_no_markup_no_mention_and_no_link(text, escaped):
    assert escape(text) == escaped


def test_hostile_texts_are_escaped_wherever_they_stand():
    for text in (render_markdown(hostile_sheet()), render_markdown(hostile_comparison())):
        assert HOSTILE not in text
        assert "<script" not in text
        assert "https://" not in text
        assert not re.search(r"@(?!<!-- -->)", text)


def test_what_matters_is_in_sight_and_the_rest_is_folded():
    text = render_markdown(run_tables())
    seen, folded = text.split("<details><summary>More figures</summary>")
    assert seen.startswith("## Report: Nightly\n\n")
    assert "| **Pass rate** | 77.7 % | 95 % interval 63.7 % to 87.4 %; 35 of 45 evaluated items accepted |" in seen
    assert "- ❌ **Pass rate**: Not passed: 35 of 47 items accepted" in seen
    assert "### Did iterating help?" in seen
    assert "- iter\\_max 2: iteration 3 was reached by 10 items" in seen
    assert "### Scores" in folded
    assert "</details>" in folded
    headers = "| Iteration | Reached | Evaluated | New | Pass rate | 95 % interval |"
    assert f"{headers}\n| --- | ---: | ---: | ---: | ---: | ---: |" in seen


def test_an_example_is_a_table_of_its_answers():
    text = render_markdown(replace(run_tables(), examples=EXAMPLES))
    assert "#### slow-0000\n\n**Question:** Which river?\n\nEnded: iteration limit.\n\n|" in text
    assert (
        "| Iteration 1: score 0.50, not accepted | Iteration 2, returned: score 0.85, accepted |\n| --- | --- |" in text
    )
    assert "| **Answer:** First. | **Answer:** Second. |" in text
    assert "| ✗ Gives the length: No length. |" in text


def test_the_lines_of_an_answer_are_no_headings_and_no_lists():
    shown = (example("a", attempt(1, 0.5, "one\n\n# two\n- three | four")),)
    text = render_markdown(replace(run_tables(), examples=Examples(lowest=shown)))
    assert "| **Answer:** one<br><br>#<!-- --> two<br>- three \\| four |" in text


def test_a_comparison_shows_its_gates_and_flips():
    text = render_markdown(comparison_tables(many("a", 30, 0.9), many("a", 30, 0.5)))
    seen = text.split("<details>")[0]
    assert "- ❌ **No regression**: Not passed: 30 rows newly failing" in seen
    assert "| Newly failing | 30 | a0000, a0001" in seen
    assert "The mean score is lower than that of Nightly by 0.400" in seen
