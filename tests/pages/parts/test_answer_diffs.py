"""Differences of answers in their rendered text."""

import random
import re
from html import unescape

import pytest

from api.pages.parts.answer_diffs import compare_answers
from api.pages.parts.markdown import render_markdown, sanitize

WORDS = ["alpha", "beta", "**bold**", "`code`", "[link](http://a.test)", "x<y", "&amp;", "gamma delta"]


def rendered(old: str, new: str) -> str:
    return re.sub(r"\s*\n\s*", "", str(compare_answers(old, new).rendered))


@pytest.mark.parametrize(
    ("old", "new", "html"),
    [
        ("The sky is **blue**.", "The sky **looks** blue.", None),
        ("one\n\ntwo\n\nthree", "one\n\nthree", "<p>one</p><p><del>two</del></p><p>three</p>"),
        ("one\n\ntwo", "one", "<p>one</p><p><del>two</del></p>"),
        ("the quick fox", "the quick", "<p>the quick <del>fox</del></p>"),
        ("- a\n- b\n- c", "- a\n- c", "<ul><li>a</li><li><del>b</del></li><li>c</li></ul>"),
        ("# A\n\nx", "# B\n\nx", "<p><del>A</del></p><h4><ins>B</ins></h4><p>x</p>"),
        ("a\n\n```\nx\ny\n```\n\nb", "a\n\nb", "<p>a</p><pre><del>xy</del></pre><p>b</p>"),
        ("", "new & <b>", "<p><ins>new &amp; &lt;b&gt;</ins></p>"),
        ("old", "", "<p><del>old</del></p>"),
    ],
)
def test_changes_are_marked_where_people_read_them(old: str, new: str, html: str | None):
    expected = html or "<p>The sky <strong><del>is </del><ins>looks</ins></strong> blue.</p>"
    assert rendered(old, new) == expected


def test_rows_of_tables_stay_rows():
    table = "| x | y |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |"
    html = rendered(table, table.replace("| 1 | 2 |\n", ""))
    assert "<tr><td><del>1</del></td><td><del>2</del></td></tr><tr><td>3</td><td>4</td></tr>" in html


def test_lines_of_code_change_within_their_block():
    html = str(compare_answers("```\na = 1\nb = 2\nc = 3\n```", "```\na = 1\nc = 3\n```").rendered)
    assert html.strip() == "<pre><code>a = 1\n<del>b = 2\n</del>c = 3\n</code></pre>"


def test_same_answers_and_other_formatting_are_told_apart():
    same = compare_answers("The same  words", "The same words")
    assert (same.is_same, same.reads_same) == (True, True)
    formatted = compare_answers("The **same** words", "# The same words")
    assert (formatted.is_same, formatted.reads_same) == (False, True)


def test_unchanged_paragraphs_are_behind_a_switch():
    middle = "\n\n".join(f"paragraph {number}" for number in range(9))
    html = rendered(f"a\n\n{middle}\n\nb", f"c\n\n{middle}\n\nd")
    shown, _, hidden = html.partition("<details")
    assert "paragraph 0" in shown
    assert hidden.count("<p>paragraph") == 8
    assert "7 unchanged parts" in hidden
    assert hidden.endswith("</details><p>paragraph 8</p><p><del>b</del></p><p><ins>d</ins></p>")


def test_a_long_answer_is_compared_as_plain_text():
    found = compare_answers("w " * 30_000, "w " * 30_000 + "x")
    assert found.rendered is None
    assert found.parts[-1] == ("insert", "x")


def block(source: random.Random) -> str:
    def words() -> str:
        return " ".join(source.choices(WORDS, k=source.randint(1, 5)))

    return source.choice(
        [
            words(),
            f"# {words()}",
            f"- {words()}\n- {words()}\n  - {words()}",
            f"1. {words()}\n\n   {words()}",
            f"> {words()}",
            f"```py\n{words()}\n{words()}\n```",
            f"|a|b|\n|-|-|\n|{words()}|{words()}|",
        ]
    )


def letters(html: str) -> str:
    return "".join(unescape(re.sub("<[^>]*>", " ", html)).split())


@pytest.mark.parametrize("seed", range(40))
def test_without_the_deleted_words_it_is_the_newer_answer(seed: int):
    source = random.Random(seed)
    old = [block(source) for _ in range(source.randint(0, 5))]
    new = [each for each in old if source.random() < 0.7]
    new.insert(source.randint(0, len(new)), block(source))
    found = str(compare_answers("\n\n".join(old), "\n\n".join(new)).rendered)
    html = re.sub(r"</?details[^>]*>|<summary>.*?</summary>", "", found)
    newer = re.sub("<del>.*?</del>", " ", html, flags=re.DOTALL)
    older = re.sub("<ins>.*?</ins>", " ", html, flags=re.DOTALL)
    assert letters(newer) == letters(render_markdown("\n\n".join(new)))
    # Deleted cells and lines can stand a little elsewhere, but none is lost
    assert sorted(letters(older)) == sorted(letters(render_markdown("\n\n".join(old))))
    assert sanitize(html) == html
