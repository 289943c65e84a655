"""Markdown of an unknown author as HTML."""

import re

import pytest

from api.pages.parts.markdown import render_markdown


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[a](javascript:alert(1)) [b](data:text/html;base64,PHM+) [c](vbscript:x) ![d](https://evil.test/p.png)",
        "<a hx-get=/x data-hx-on:click=alert(1)>a</a>",
        "`<b onclick=x>`",
        '[a](https://good.test "x\\" onclick=alert(1)")',
    ],
)
def test_nothing_runs_or_loads(text: str):
    html = render_markdown(text)
    tags = re.findall(r"<(\w+)([^>]*)>", html)
    assert {name for name, _ in tags} <= {"p", "a", "code"}
    for name, attributes in tags:
        assert name == "a" or attributes == "", html
        named = re.sub(r'"[^"]*"', '""', attributes)
        assert re.fullmatch(r'( href=""| title=""| rel="")*', named), html
    assert not re.search(r'href="(?!https?:|mailto:)', html)


def test_headings_of_a_model_are_below_those_of_the_page():
    assert render_markdown("# A\n\n## B\n\n###### C") == "<h4>A</h4>\n<h5>B</h5>\n<h6>C</h6>\n"


def test_a_link_leads_away_without_telling_whence():
    assert 'rel="noopener noreferrer nofollow"' in render_markdown("[a](https://good.test)")


def test_tables_are_tables_until_they_are_too_large():
    rows = "|a|b|\n|-|-|\n" + "|1|2|\n" * 20
    assert render_markdown(rows).count("<td>") == 40
    assert "<td>" not in render_markdown("|a|b|\n|-|-|\n" + "|1|2|\n" * 2000)
