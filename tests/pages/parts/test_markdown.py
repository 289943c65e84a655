"""Markdown of an unknown author as HTML."""

import re
import time

import pytest

from api.pages.parts.code_colors import LANGUAGES, color_code
from api.pages.parts.markdown import CitationMarker, render_markdown
from api.pages.parts.rendering import STATIC
from tests.support.waiting import patient


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


def test_entities_hide_no_direction_and_no_control():
    html = render_markdown("a &#x202e; b &#x2028; c &#xe0041; [d](https://good.test '&#x202e;')")
    assert html == (
        "<p>a \\u202e b \\u2028 c \\U000e0041 "
        '<a href="https://good.test" title="\\u202e" rel="noopener noreferrer nofollow">d</a></p>\n'
    )


def test_headings_of_a_model_are_below_those_of_the_page():
    assert render_markdown("# A\n\n## B\n\n###### C") == "<h4>A</h4>\n<h5>B</h5>\n<h6>C</h6>\n"
    assert render_markdown("### A\n\n###### B\n\n## C") == "<h4>A</h4>\n<h5>B</h5>\n<h4>C</h4>\n"


def test_a_link_leads_away_without_telling_whence():
    assert 'rel="noopener noreferrer nofollow"' in render_markdown("[a](https://good.test)")


def test_code_has_colours_of_the_style_sheet_only():
    html = render_markdown("```python\ndef f():  # <b>\n    return '<i>' + 1\n```")
    assert '<span class="code-keyword">def</span> <span class="code-name">f</span>' in html
    assert '<span class="code-comment"># &lt;b&gt;</span>' in html
    assert set(re.findall(r"<(\w+[^>]*)>", html)) == {
        *("pre", "code"),
        *(f'span class="code-{name}"' for name in ("keyword", "name", "comment", "string", "number")),
    }


@pytest.mark.parametrize("info", ["", "unknown", "python " + "x" * 500, "brainfuck"])
def test_code_of_other_languages_stays_as_it_is(info: str):
    html = render_markdown(f"```{info}\n1 < 2\n```")
    assert html.startswith("<pre><code>")
    assert "1 &lt; 2" in re.sub("</?span[^>]*>", "", html)


def test_code_that_is_long_or_cites_has_no_colours():
    assert "span" not in render_markdown("```python\n" + "x = 1\n" * 2_000 + "```")
    assert "span" not in render_markdown("```python\n" + "x" * 500 + " = 1\n```")
    assert "span" not in render_markdown("```python\nx = 1\n" + "\n" * 200 + "```")
    assert "span" not in render_markdown("```python\nx = 1\n```" + "\n\nword" * 3_000)
    html = render_markdown("```python\nx = 'a [1] b'\n```", [CitationMarker(1, 17, 20, (1,))])
    assert '<code>x = \'a <a class="cite" id="cite-1" href="#source-1">[1]</a> b\'\n</code>' in html


@pytest.mark.parametrize(
    ("text", "evidence", "marked"),
    [
        ("It is so because **light scatters** here.", "because", []),
        ("It says that **light scatters here**, see.", "It says that", ["It says that"]),
        ("It is so because light scatters.", 'It says "because light scatters" only.', ["because light scatters"]),
        ("Twice is twice. Twice is twice.", "Twice is twice", []),
        ("**The sky is blue** today.", "The sky is blue", ["The sky is blue"]),
        ("Not a**sky is blue** today.", "sky is blue", []),
        ('[a](http://x.y "some long title") follows', 'long title") follows', []),
        ("[a](http://x.y/some-long-path)", "http://x.y/some-long-path", []),
        ("**The sky is blue** today.", "sky is blue** today", []),
        ("1. One thing first", "1. One thing first", []),
        ("The first line\nand the second", "The first line\nand the second", []),
        ("Rare <b>words and tags", "<b>words and tags", []),
        ("The sky is rather blue [1], really.", "The sky is rather blue [1]", []),
    ],
)
def test_evidence_that_is_there_once_is_marked(text: str, evidence: str, marked: list[str]):
    html = render_markdown(text, [], [evidence])
    assert re.findall("<mark>(.*?)</mark>", html) == marked
    assert html.replace("<mark>", "").replace("</mark>", "") == render_markdown(text)


def test_marked_evidence_and_citations_do_not_overlap():
    text = "The sky is blue [1] since light scatters in it."
    quotes = ["since light scatters", "light scatters in it", "The sky is blue"]
    html = render_markdown(text, [CitationMarker(1, 16, 19, (1,))], quotes)
    assert re.findall("<mark>(.*?)</mark>", html) == ["The sky is blue", "since light scatters"]
    assert '<a class="cite" id="cite-1" href="#source-1">[1]</a>' in html


_OFTEN = {"c", "html", "javascript", "python"}


@pytest.mark.parametrize(
    "language", [name if name in _OFTEN else pytest.param(name, marks=pytest.mark.long) for name in sorted(LANGUAGES)]
)
def test_hostile_code_costs_little(language: str):
    for piece in ["\n" * 199 + "a", "'", "(", "/*", "<a ", "\\", "${", "a:", "1.", "<!--"]:
        line = piece * (300 // len(piece))
        begun = time.process_time()
        assert color_code("\n".join([line] * 26), language)
        assert time.process_time() - begun < patient(1.0), piece


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("color", ["accent", "good", "quiet", "cost", "warn"])
def test_the_colours_of_code_can_be_read(theme: int, color: str):
    style = (STATIC / "pages" / "pages.css").read_text()

    def luminance(name: str) -> float:
        found = re.findall(rf"--{name}: light-dark\(#(\w+), #(\w+)\)", style)[0][theme]
        parts = [int(found[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted((luminance(color), luminance("soft")))
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_tables_are_tables_until_they_are_too_large():
    rows = "|a|b|\n|-|-|\n" + "|1|2|\n" * 20
    assert render_markdown(rows).count("<td>") == 40
    assert "<td>" not in render_markdown("|a|b|\n|-|-|\n" + "|1|2|\n" * 2000)
