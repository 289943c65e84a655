"""The small language of a dataset's templates, and what it refuses."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.prompts.templates import unknown_names
from redraft.prompts.text_templates import TemplateFault, render

VARIABLES: dict[str, Any] = {
    "name": "Ada",
    "n": 3,
    "list": ["a", "b"],
    "deep": {"x": {"y": "z"}},
    "empty": "",
    "none": None,
}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("no braces", "no braces"),
        ("{ one }", "{ one }"),
        ("{{ name }}\n", "Ada\n"),
        ("{{ vars.name }}", "Ada"),
        ("{{ deep.x.y }}{{ list[1] }}{{ deep['x'] }}", "zb{'y': 'z'}"),
        ("{{ name|upper }} {{ list|join(', ') }} {{ deep|tojson }}", 'ADA a, b {"x": {"y": "z"}}'),
        ("{{ other|default('none') }}", "none"),
        ("{% if n > 2 and name %}many{% else %}few{% endif %}", "many"),
        ("{{ 'x' if empty else 'y' }}{# remark #}", "y"),
        ("{% if other is defined %}a{% endif %}", ""),
    ],
)
def test_templates_are_rendered(source: str, text: str):
    assert render(source, VARIABLES) == text


def test_a_dot_leads_to_a_column_of_any_name_and_never_to_a_method():
    for name in sorted({*dir({}), *dir(""), *dir([]), *dir(1)}):
        columns = {name: "a", "order": {name: "b"}, "text": "c", "list": [1], "n": 1}
        template = f"{{{{ vars.{name} }}}}{{{{ order.{name} }}}}{{{{ order['{name}'] }}}}"
        assert render(template, columns) == "abb", name
        for value in ("text", "list", "n"):
            with pytest.raises(TemplateFault, match=f"has no attribute '{name}'"):
                render(f"{{{{ {value}.{name} }}}}", columns)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ name * 1000000000 }}", "mul is not possible here"),
        ("{{ 'a' * 10**10 }}", "not possible here"),
        ("{% for x in list %}{{ x }}{% endfor %}", "for is not possible here"),
        ("{{ range(10) }}", "call is not possible here"),
        ("{{ name.upper() }}", "call is not possible here"),
        ("{% set x = 1 %}", "assign is not possible here"),
        ("{% include 'x' %}", "include is not possible here"),
        ("{{ [1, 2] }}", "list is not possible here"),
        ("{{ name ~ name }}", "concat is not possible here"),
        ("{{ name|replace('a', 'b') }}", "no filter 'replace'; there are capitalize, default"),
        ("{{ list|join(name) }}", "join takes short constants only"),
        ("{{ list|join('" + "x" * 101 + "') }}", "join takes short constants only"),
        ("{{ list|join(*list) }}", "join takes short constants only"),
        ("{{ list|tojson(1000000) }}", "tojson takes short constants only"),
        ("{{ list|tojson(indent=1000000) }}", "keyword is not possible here"),
        ("{{ name", r"is no template: .*\(line 1\)"),
        ("{% nothing %}", "unknown tag"),
        ("{{ n|join }}", "does not fit its value; it uses: n$"),
        ("{% if n > name %}{% endif %}", r"does not fit its value; it uses: n, name \(a text\)$"),
    ],
)
def test_what_is_no_template_is_refused(source: str, words: str):
    with pytest.raises(TemplateFault, match=words) as caught:
        render(source, VARIABLES)
    assert caught.value.code == "invalid_template"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ nam }}", r"'nam' is undefined \(did you mean name\?\); the vars are: deep, empty, list, n"),
        ("{{ deep.nothing }}", "has no attribute 'nothing'"),
        ("{{ name.__class__ }}", "unsafe|undefined|attribute"),
    ],
)
def test_what_is_not_there_is_named(source: str, words: str):
    with pytest.raises(TemplateFault, match=words):
        render(source, VARIABLES)


@pytest.mark.parametrize("name", ["range", "lipsum", "dict", "joiner", "cycler", "namespace", "self"])
def test_objects_of_jinja_are_undefined(name: str):
    with pytest.raises(TemplateFault, match=f"'{name}' is undefined") as caught:
        render(f"{{{{ {name} }}}}", VARIABLES)
    assert caught.value.code == "undefined_variable"
    assert unknown_names(f"{{{{ {name} }}}}", set()) == [name]


def test_a_text_that_is_or_becomes_too_long_is_refused():
    with pytest.raises(TemplateFault, match="more than 200,000 characters"):
        render("{{ a }}" + "x" * 200_000, {"a": 1})
    with pytest.raises(TemplateFault, match="longer than 200,000 characters") as caught:
        render("{{ big }}" * 1000, {"big": "x" * 100_000})
    assert caught.value.code == "string_too_long"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{% if n %}" * 150 + "{% endif %}" * 150, "more than 10 levels of if"),
        ("{{ name" + "|upper" * 160 + " }}", "more than 8 filters in a tag"),
        ("{{ " + "(" * 3000 + "n" + ")" * 3000 + " }}", "more than 60 words and signs in a tag"),
        ("{{ " + "not " * 3000 + "n }}", "more than 60 words and signs in a tag"),
        ("{{ n }}" * 1001, "more than 3,000 words and signs in all tags"),
        ("{{ list|tojson(5) }}", "tojson takes short constants only"),
    ],
)
def test_a_template_is_counted_before_it_is_compiled(source: str, words: str):
    with pytest.raises(TemplateFault, match=words) as caught:
        render(source, VARIABLES)
    assert caught.value.code == "invalid_template"


def test_what_the_limits_allow_is_rendered():
    source = "{% if n %}" * 10 + "{{ name|upper|lower|title|trim|upper|lower|title|upper }}" + "{% endif %}" * 10
    assert render(source + "{% raw %}{{ n }}{% endraw %}" * 40, VARIABLES) == "ADA" + "{{ n }}" * 40
    elifs = "{% if empty %}" + "{% elif empty %}x" * 900 + "{% else %}y{% endif %}"
    with suppress(TemplateFault):
        assert render(elifs, VARIABLES) == "y"


def test_no_filter_multiplies_a_text_beyond_the_limit():
    longer = "|join('--------------------')"
    with pytest.raises(TemplateFault, match="a filter makes more than 200,000 characters") as caught:
        render("{{ a" + longer * 4 + "|length }}", {"a": "x" * 1000})
    assert caught.value.code == "string_too_long"


def test_the_work_of_all_filters_of_a_text_is_bounded():
    work = "{% if a|length > 1 %}{% endif %}"
    assert render(work * 20, {"a": "x" * 99_000}) == ""
    for value in ("x" * 99_000, [""] * 99_000):
        with pytest.raises(TemplateFault, match="more than 2,000,000 characters in all") as caught:
            render(work * 21, {"a": value})
        assert caught.value.code == "string_too_long"


class Hostile:
    """A value whose every use fails in a way of its own."""

    def __str__(self) -> str:
        raise OSError("no text")


def test_whatever_rendering_raises_is_a_fault_of_the_text():
    with pytest.raises(TemplateFault, match="does not fit its value"):
        render("{{ a }}", {"a": Hostile()})


@given(st.text(st.sampled_from("{}%#|. 'ab1()[]-+*<>=if endfor"), max_size=40))
def test_any_text_is_rendered_or_refused(source: str):
    with suppress(TemplateFault):
        assert isinstance(render(source, VARIABLES), str)
