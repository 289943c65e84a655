"""What the generator is told of its sources: the words of each option in their places, and nothing without sources."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from redraft.domain.calls.conversation import Chat, Prompt
from redraft.domain.calls.model_names import ModelRef
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.structured.named_schemas import structure_schema
from redraft.prompts.render import generation_prompt
from redraft.providers.catalog import ProviderCatalog
from redraft.settings import Settings

SOURCES = [
    {"content": "The Aare flows through Bern.", "title": "Rivers", "metadata": {"page": 7, "author": "A. Keller"}},
    {"content": "Basel lies on the Rhine."},
]
MODES = {
    "simple": "briefly and in plain words",
    "grounded": "Base every statement on the sources",
    "analytical": "Analyse the sources",
    "conversational": "Answer as in a conversation",
}
FORMATS = {
    "plain": "Write plain text without Markdown.",
    "markdown": "Write Markdown.",
    "bullets": 'each on a line that begins with "- "',
    "json": "In the fields of the schema for sources, write the numbers of the sources.",
}
STYLES = {
    "inline": "[Source 1], or [Source 1, 3] for two",
    "footnote": "put the number of its source as a superscript",
    "endnote": 'End with a line "Sources:"',
}
TEMPLATES = {
    "grounded_qa": "Begin with the direct answer in one sentence",
    "analytical_synthesis": "Give the main finding",
    "comparison": "Give the similarities, differences",
    "summarization": "Summarise the most important points",
}
RULE = "Make only statements that a source supports"


def prompt_of(grounding: dict[str, Any] | None = None, **values: Any) -> Prompt:
    fields = {"instruct": "TASK", "eval_crit": "CRITERIA", "sources": SOURCES, "grounding": grounding, **values}
    schema = structure_schema("json", 2) if (grounding or {}).get("output_format") == "json" else None
    return generation_prompt(GenerateAnswer.model_validate(fields), None, schema)


def told(words: dict[str, str], system: str) -> list[str]:
    return [name for name, phrase in words.items() if phrase in system]


@pytest.mark.parametrize(
    ("option", "words"),
    [("mode", MODES), ("output_format", FORMATS), ("citation_style", STYLES), ("template", TEMPLATES)],
)
def test_each_value_brings_its_own_words_and_no_others(option: str, words: dict[str, str]):
    for value in words:
        assert told(words, prompt_of({option: value}).system) == [value]


def test_the_defaults_are_short():
    for prompt in (prompt_of(), prompt_of({})):
        assert told(MODES, prompt.system) == ["simple"]
        assert told(FORMATS, prompt.system) == ["plain"]
        assert told(STYLES, prompt.system) == ["inline"]
        assert told(TEMPLATES, prompt.system) == []
        assert RULE in prompt.system


def test_what_is_switched_off_is_not_told():
    silent = prompt_of({"include_citations": False}).system
    assert told(STYLES, silent) == []
    assert "Do not name the sources." in silent
    assert RULE not in prompt_of({"require_grounding": False}).system


def test_a_form_in_words_wins_over_plain_text():
    assert told(FORMATS, prompt_of(resp_format="A table.").system) == []


def test_a_structured_answer_is_told_by_its_schema_alone():
    prompt = prompt_of({"output_format": "json", "template": "comparison", "citation_style": "footnote"})
    assert told(STYLES, prompt.system) == told(TEMPLATES, prompt.system) == []
    assert told(FORMATS, prompt.system) == ["json"]
    assert '"sources"' in prompt.messages[-1].content


def test_sources_keep_their_order_and_show_what_is_known_of_them():
    text = prompt_of().messages[-1].content
    assert re.search(
        r'<source-1 id="(\w+)">\nTitle: Rivers\npage: 7\nauthor: A. Keller\n\nThe Aare flows through Bern.\n'
        r'<source-2 id="\1">\nBasel lies on the Rhine.\n</sources id="\1">\n',
        text,
    )
    assert text.index("TASK") < text.index("<source-1") < text.index("CRITERIA")


def test_all_of_a_long_source_is_shown():
    content = "word " * 30_000
    assert content in prompt_of(sources=[{"content": content}]).messages[-1].content


def test_no_sources_where_some_were_wanted_are_told_as_none():
    prompt = prompt_of({"mode": "grounded", "template": "comparison"}, sources=[])
    assert "No sources were given, and you must not answer from memory." in prompt.messages[-1].content
    assert "<source" not in prompt.messages[-1].content
    assert told(MODES, prompt.system) == told(TEMPLATES, prompt.system) == []


def test_without_grounding_and_sources_there_is_no_word_of_them():
    prompt = prompt_of(sources=[])
    assert "ource" not in prompt.system + prompt.messages[-1].content


@pytest.fixture
def bodies(tmp_path: Path) -> Iterator[dict[str, dict[str, Any]]]:
    """What goes out to each provider, for a job with turns and instructions of its own."""
    prompt = prompt_of({"mode": "conversational"}, conversation=[["u1", "a1"]], system_instructions="SPEAK LATIN")
    keys = {"openai_api_key": SecretStr("sk-x"), "anthropic_api_key": SecretStr("sk-y")}
    catalog = ProviderCatalog(Settings(_env_file=None, data_dir=tmp_path, **keys))  # pyright: ignore[reportCallIssue]
    models = {name: ModelRef(name, "m") for name in ("openai", "anthropic")}
    yield {
        name: catalog.get(model).wire_body(Chat(model, prompt.system, prompt.messages))
        for name, model in models.items()
    }
    catalog.close()


def test_turns_and_instructions_stand_in_their_places_for_openai(bodies: dict[str, dict[str, Any]]):
    system, user, assistant, task = bodies["openai"]["messages"]
    assert [each["role"] for each in (system, user, assistant, task)] == ["system", "user", "assistant", "user"]
    assert (user["content"], assistant["content"]) == ("u1", "a1")
    assert system["content"].index(MODES["conversational"]) < system["content"].index("SPEAK LATIN")
    assert "<source-2" in task["content"]


def test_turns_and_instructions_stand_in_their_places_for_anthropic(bodies: dict[str, dict[str, Any]]):
    user, assistant, task = bodies["anthropic"]["messages"]
    assert [each["role"] for each in (user, assistant, task)] == ["user", "assistant", "user"]
    assert (user["content"], assistant["content"]) == ("u1", "a1")
    system = bodies["anthropic"]["system"]
    assert system.index(MODES["conversational"]) < system.index("SPEAK LATIN")
    assert "<source-2" in task["content"]
