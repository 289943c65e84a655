"""The page: one file that asks for nothing, whatever its texts hold, and that everybody can read."""

import re
from base64 import b64encode
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from random import Random

import pytest
from hypothesis import given, settings

from redraft.domain.bulk.examples import Examples
from redraft.reports.html import (
    content_security_policy,
    render_body,
    render_html,
)
from redraft.reports.wording import score
from tests.domain.bulk.outcomes import CENT, RUNS, looped, many
from tests.reports.pages import Page
from tests.reports.sheets import (
    EXAMPLES,
    HOSTILE_RUNS,
    attempt,
    comparison_tables,
    example,
    hostile_comparison,
    hostile_sheet,
    run_tables,
)


@settings(max_examples=25)
@given(HOSTILE_RUNS)
def test_whatever_a_run_holds_its_page_is_well_formed_and_cannot_act(items):
    Page(render_html(run_tables(items)))


@settings(max_examples=25)
@given(RUNS, RUNS)
def test_pages_of_comparisons_are_well_formed(old, new):
    Page(render_html(comparison_tables(old, new)))


def test_hostile_texts_are_shown_as_texts():
    for text in (render_html(hostile_sheet()), render_html(hostile_comparison())):
        assert "<script>alert('x')</script>|`a`\"&amp; @all" in Page(text).text
        assert "<script" not in text


def test_a_page_asks_for_nothing_and_allows_its_own_style_only():
    text = render_html(run_tables())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert policy
    assert style
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    assert policy[1].replace("&#39;", "'") == content_security_policy()
    assert content_security_policy().startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert not re.search(r"\b(src|style|on\w+)=|href=.[^#]|url\(|@import|https?://", text)


def test_pictures_have_names_and_tables_beside_them():
    text = render_html(run_tables())
    page = Page(text)
    for key in ("pairs", "pass-rates", "costs", "scores"):
        assert {f"{key}-title", f"{key}-desc"} <= set(page.ids)
    assert text.count("<svg") == 4
    assert text.count('role="img"') == 4
    assert "77.7 %" in page.text


def test_the_figures_are_those_of_the_report():
    tables = run_tables()
    page = Page(render_html(tables)).text
    mean = tables.report.final_score
    assert mean
    assert f"Mean score {score(mean.value)} 95 % interval {score(mean.low)} to {score(mean.high)}" in page
    for first, final in zip(tables.report.first_scores, tables.report.final_scores, strict=True):
        row = f"{first.low:.1f} to {first.high:.1f} {first.count} {final.count}"
        assert (row in page) is bool(first.count or final.count)
    assert "✗ Pass rate Not passed: 35 of 47 items" in page


def test_examples_stand_side_by_side_with_question_verdict_and_gap():
    text = Page(render_html(replace(run_tables(), examples=EXAMPLES))).text
    assert "slow-0000 Question Which river?" in text
    first, returned = (
        text.index(words) for words in ("Iteration 1: score 0.50, not accepted", "Iteration 2, returned: score 0.85")
    )
    assert first < text.index("First.") < returned < text.index("Second.")
    assert "Reasoning It names the river. Gap Gives the length: No length." in text
    # A row that is shown with its texts is not listed once more
    assert text.count("hard-0000") == 1


def test_long_texts_are_cut_and_say_so():
    long = example("slow-0000", attempt(1, 0.5, "line one\n\n    <b>" + "x" * 99))
    text = render_html(replace(run_tables(), examples=Examples(helped=(long,))))
    assert "line one\n\n    &lt;b&gt;" in text
    assert "The first 40 of 116 characters." in Page(text).text


def test_the_contents_name_each_section():
    text = render_html(replace(run_tables(), examples=EXAMPLES))
    linked = re.findall(r'<li><a href="#([a-z]+)">', text)
    assert linked == re.findall(r'<h2 id="([a-z]+)">', text)
    assert {"loop", "lowest", "helped", "hurt"} <= set(linked)


def test_a_page_without_scores_has_no_pictures_of_them():
    text = render_html(run_tables([]))
    assert "<svg" not in text
    assert "<svg" not in render_html(comparison_tables([], []))


def test_a_page_of_ten_thousand_rows_is_small():
    rnd = Random(1)
    items = [
        looped(f"row-{number}", first := rnd.random(), min(1.0, first + rnd.random() / 3)) for number in range(10_000)
    ]
    text = render_html(replace(run_tables(), items=items))
    assert len(text.encode()) < 200_000
    assert text.count("<circle") <= 1000
    assert "Scores are rounded to 0.05 here." in text


def test_without_one_threshold_for_all_none_is_drawn():
    assert 'class="threshold"' in render_html(run_tables())
    assert 'class="threshold"' not in render_html(run_tables(score_threshold=None, iter_max=None))


def test_dots_are_coloured_by_what_became_of_the_item():
    hurt = looped("c", 0.7, 0.6, final_score=0.6)
    text = render_html(run_tables([looped("a", 0.5, 0.9), looped("b", 0.5, 0.5), hurt]))
    for way in ("helped", "unchanged", "hurt"):
        assert len(re.findall(rf'<circle[^>]*class="{way}"', text)) == 1


def test_a_comparison_is_drawn_about_nothing():
    text = render_html(comparison_tables(many("a", 30, 0.5), many("a", 30, 0.9)))
    assert 'class="zero"' in text
    assert ">+0.400</text>" in text
    assert ">+100.00 points</text>" in text
    one = render_html(comparison_tables([looped("a", 0.5)], [looped("a", 0.5)]))
    Page(one)


def test_an_unknown_price_is_drawn_as_unknown():
    unpriced = render_html(run_tables(many("a", 3, 0.9, price=None)))
    assert 'id="costs-title"' not in unpriced
    assert 'id="costs-title"' not in render_html(run_tables(many("a", 3, 0.5, 0.9, price=Decimal(0))))
    mixed = [looped("a", 0.9), looped("b", 0.5, 0.9, cost_by_iteration=(CENT, None))]
    assert ">unknown</text>" in render_html(run_tables(mixed))
    assert ">none accepted</text>" in render_html(run_tables([looped("a", 0.9), looped("b", 0.5, 0.6)]))


def _light(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_light(one), _light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("at", [0, 1], ids=["light", "dark"])
def test_texts_and_marks_have_the_contrast_of_wcag_aa(at):
    text = render_html(run_tables([]))
    colours = dict(re.findall(r"--(\w+): (#\w{6})", re.findall(r":root \{(.*?)\}", text, re.DOTALL)[at]))
    for ground in ("page", "card"):
        for name in ("text", "quiet", "good", "hurt"):
            assert _contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
        for name in ("first", "returned", "cost", "hurt", "warn"):
            assert _contrast(colours[name], colours[ground]) >= 3, (name, ground)


def test_a_body_is_what_the_file_holds_and_links_where_it_is_told_to():
    assert render_body(run_tables()) in render_html(run_tables())
    compared = comparison_tables(many("r", 3, 0.5), many("r", 3, 0.9))
    assert render_body(compared) in render_html(compared)
    body = render_body(hostile_sheet(), {"errors": lambda code: f"/items?error_code={code}"})
    assert '<a href="/items?error_code=refused">refused</a>' in body
    assert body.count("<a ") == 2
