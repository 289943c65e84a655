"""Any value at any place of a file of a stranger: it is carried, listed or refused, and nothing else happens."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redraft.importing.outcomes import Imported, files_of
from redraft.importing.texts import NotCarried
from tests.datasets.reading import bad, items_of
from tests.importing.importing import SAMPLE, openai, promptfoo

ASSERTIONS: list[Any] = [
    {"type": "contains", "value": "{{a}}", "weight": 2, "metric": "m"},
    {"type": "not-contains-any", "value": ["x", "y"]},
    {"type": "is-json", "value": {"type": "object"}},
    {"type": "word-count", "value": {"min": 1, "max": 3}},
    {"type": "llm-rubric", "value": "Good", "threshold": 0.5, "provider": {"id": "openai:gpt-5", "config": {"a": 1}}},
    {"type": "assert-set", "assert": [{"type": "regex", "value": "a"}]},
    {"type": "g-eval", "value": ["Clear"]},
]
CONFIG: dict[str, Any] = {
    "description": "d",
    "prompts": ["Say {{a}}", {"id": "file://p.txt", "label": "file"}],
    "providers": ["openai:chat:x", {"id": "anthropic:messages:y", "config": {"temperature": 1}, "prompts": ["file"]}],
    "defaultTest": {"vars": {"b": 1}, "assert": ASSERTIONS[:1], "options": {"prefix": "p"}, "metadata": {"k": "v"}},
    "tests": [
        {"vars": {"a": ["x", "y"], "c": {"d": [1]}}, "assert": ASSERTIONS, "description": "t"},
        {"vars": {"a": "z"}, "assert": ASSERTIONS[:2], "threshold": 0.5, "providerOutput": "an answer"},
    ],
    "scenarios": [{"config": [{"vars": {"a": "s"}}], "tests": [{"assert": [{"$ref": "#/assertionTemplates/t"}]}]}],
    "assertionTemplates": {"t": {"type": "equals", "value": 4}},
    "evaluateOptions": {"repeat": 2},
}
EXAMPLES = 100
MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "input_text", "text": SAMPLE}]}]
GRADERS: list[Any] = [
    {"type": "string_check", "name": "c", "operation": "eq", "input": SAMPLE, "reference": "{{item.label}}"},
    {"type": "text_similarity", "name": "t", "input": SAMPLE, "reference": "r", "evaluation_metric": "bleu"},
    {"type": "score_model", "name": "s", "model": "o3", "input": MESSAGES, "range": [1, 7], "pass_threshold": 5.5,
     "sampling_params": {"temperature": 0, "reasoning": {"effort": "low"}}},
    {"type": "label_model", "name": "l", "model": "o3", "input": MESSAGES, "labels": ["a"], "passing_labels": ["a"]},
]  # fmt: skip
MULTI = {"type": "multi", "name": "m", "graders": {"a": GRADERS[0], "b": GRADERS[2]}, "calculate_output": "(a + b) / 2"}
TEMPLATE = [
    {"role": "developer", "content": "d"},
    {"role": "user", "content": {"type": "input_text", "text": "{{item.q}}"}},
]
OPENAI: dict[str, Any] = {
    "eval": {"name": "e", "testing_criteria": GRADERS, "data_source_config": {"type": "custom"}},
    "run": {
        "name": "r",
        "data_source": {
            "type": "completions",
            "source": {"type": "file_content", "content": [{"item": {"q": "x", "label": "y", "n": [1]}}]},
            "input_messages": {"type": "template", "template": TEMPLATE},
            "model": "gpt-x",
            "sampling_params": {
                "max_completions_tokens": 9,
                "response_format": {"type": "json_schema", "json_schema": {}},
            },
        },
    },
    "result": {
        "datasource_item": {"question": "q", "label": "y"},
        "datasource_item_id": 3,
        "sample": {"input": [{"role": "user", "content": "q"}], "output": [{"role": "assistant", "content": "y"}]},
        "results": [{"name": "c", "passed": True}],
    },
}
TEXTS = st.sampled_from(
    [
        *("", " ", "a", "{{a}}", "{{item.label}}", SAMPLE, "{{ a | b }}", "{% x %}", "{{", "multi", "\x00", "\ud800"),
        *("file://p.txt", "file://../x", "file://*.txt", "- role: x", '[{"role": 1}]', "é" * 300),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**6) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """The path of each value within another one."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        yield (key,)
        yield from ((key, *rest) for rest in places(each))


def replaced(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(whole)
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


def ensure_usable(make: Callable[[], Imported]) -> None:
    """The import is refused, or its files are whole and each row is a request, except for one without criteria."""
    try:
        imported = make()
    except NotCarried:
        return
    files = {name: "".join(lines) for name, lines in files_of(imported)}
    for name, text in files.items():
        if name.endswith(".json"):
            json.loads(text)
    for dataset, fields in imported.runs:
        found = bad(items_of(files[f"{dataset}.jsonl"], f"{dataset}.jsonl", defaults=imported.settings[fields]))
        codes = {error.code for row in found for error in row.errors}
        assert codes <= {"nothing_to_evaluate_by"}, [row.errors for row in found]
        assert not codes or imported.findings.left_out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("imports")


@settings(max_examples=EXAMPLES, deadline=None)
@given(path=st.sampled_from(list(places(CONFIG))), value=VALUES)
def test_any_value_in_a_configuration_of_promptfoo(folder: Path, path: tuple[Any, ...], value: Any):
    config = json.dumps(replaced(CONFIG, path, value))
    ensure_usable(lambda: promptfoo(folder, config, p__txt="One {{a}}\n---\nTwo"))


@settings(max_examples=EXAMPLES, deadline=None)
@given(path=st.sampled_from(list(places(OPENAI))), value=VALUES, has_multi=st.booleans())
def test_any_value_in_objects_of_openai(folder: Path, path: tuple[Any, ...], value: Any, *, has_multi: bool):
    whole = (
        {**OPENAI, "eval": {"name": "e", "testing_criteria": [MULTI]}} if has_multi and path[0] != "eval" else OPENAI
    )
    ensure_usable(lambda: openai(folder, *replaced(whole, path, value).values()))
