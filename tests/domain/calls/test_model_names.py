"""Model names as users write them."""

import pytest

from redraft.domain.calls.model_names import ModelRef, parse_model
from redraft.errors import Invalid


@pytest.mark.parametrize(
    ("text", "provider", "name"),
    [
        ("openai:gpt-5-mini", "openai", "gpt-5-mini"),
        ("anthropic:claude-opus-4-1", "anthropic", "claude-opus-4-1"),
        ("local:smollm2", "local", "smollm2"),
        ("gpt-4.1", "openai", "gpt-4.1"),
        ("o3-mini", "openai", "o3-mini"),
        ("o1", "openai", "o1"),
        ("claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("openai:org/some-model:free", "openai", "org/some-model:free"),
        ("openai:claude-look-alike", "openai", "claude-look-alike"),
        (" gpt-4.1 ", "openai", "gpt-4.1"),
        ("my-vllm_2:Qwen/Qwen3", "my-vllm_2", "Qwen/Qwen3"),
    ],
)
def test_a_model_is_provider_and_name_or_a_known_bare_name(text, provider, name):
    assert parse_model(text) == ModelRef(provider, name)


@pytest.mark.parametrize("text", ["", "   ", "llama-3", "openai:", "openai: ", ":gpt-4", "OPENAI:x", "g.x:y"])
def test_anything_else_is_an_unknown_model_and_says_what_to_write(text):
    with pytest.raises(Invalid, match="provider:name") as caught:
        parse_model(text, "/model/1")
    assert caught.value.code == "unknown_model"
    (error,) = caught.value.errors
    assert (error.pointer, error.code) == ("/model/1", "unknown_model")


@pytest.mark.parametrize("text", ["openai:gpt-5-mini", "local:smollm2", "openai:a:b"])
def test_a_model_writes_itself_as_it_is_read(text):
    assert str(parse_model(text)) == text


@pytest.mark.parametrize(("name", "is_taken"), [("gpt-" + "x" * 189, True), ("gpt-" + "x" * 190, False)])
def test_a_bare_name_is_measured_with_its_provider(name: str, is_taken: bool):  # noqa: FBT001
    if is_taken:
        assert len(str(parse_model(name))) == 200
        return
    with pytest.raises(Invalid) as caught:
        parse_model(name)
    assert caught.value.code == "string_too_long"
