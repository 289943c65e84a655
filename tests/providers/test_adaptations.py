"""After a refusal, a call is planned anew without the refused setting. The memory keeps what each model refused."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import ProviderError
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.capabilities import CapabilityMemory, adapted_chat
from redraft.providers.shared.protocol import Chat, Message
from redraft.providers.shared.transport import CALLS_LOOP
from tests.model_server import ModelServer, Reply
from tests.providers.conftest import VERDICT, chat_for, send_adapted
from tests.providers.refusal_bodies import anthropic, openai


def bodies(server: ModelServer) -> list[dict[str, Any]]:
    return [entry.body for entry in server.requests()]


def test_a_refused_combination_changes_no_other_call(server: ModelServer, catalog: ProviderCatalog):
    made = catalog.get(ModelRef("anthropic", "m"))
    others = [chat_for("anthropic", reasoning_effort="high"), chat_for("anthropic", top_p=0.5)]
    others.append(chat_for("anthropic", top_p=0.99, reasoning_effort="minimal"))
    before = [made.wire_body(each) for each in others]
    message = "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."
    server.script(generate=[Reply(status=400, raw=anthropic(message)), "x"])
    send_adapted(catalog, chat_for("anthropic", top_p=0.5, reasoning_effort="minimal"))
    assert ["top_p" in body for body in bodies(server)] == [True, False]
    assert [made.wire_body(each) for each in others] == before


def test_a_refused_effort_and_its_budget_are_left_out_and_other_efforts_are_sent(
    server: ModelServer, catalog: ProviderCatalog
):
    refusals = [
        Reply(status=400, raw=anthropic(f"{name} is not supported by this model")) for name in ("effort", "thinking")
    ]
    server.script(generate=[*refusals, "x"])
    send_adapted(catalog, chat_for("anthropic", reasoning_effort="minimal"))
    assert [body.get("thinking") for body in bodies(server)] == [
        {"type": "adaptive"},
        {"type": "enabled", "budget_tokens": 1024},
        None,
    ]
    other = chat_for("anthropic", reasoning_effort="high")
    assert catalog.get(other.model).wire_body(other)["output_config"] == {"effort": "high"}


def test_the_schema_in_words_is_whole_and_stands_behind_the_system_prompt():
    chat = Chat(ModelRef("openai", "m"), "Judge.", (Message("user", "x"),), VERDICT)
    told = adapted_chat(chat, {"schema_in_words"})
    assert told.reply_schema is None
    assert told.system.startswith("Judge.\n\n")
    assert json.loads(told.system.rpartition("\n")[2]) == VERDICT.schema
    assert adapted_chat(chat, {"json_object"}).reply_schema is VERDICT


def test_a_system_prompt_goes_into_the_first_user_turn():
    turns = (Message("user", "one"), Message("assistant", "two"))
    chat = Chat(ModelRef("openai", "m"), "Be brief.", turns)
    merged = adapted_chat(chat, {"system_in_turn"})
    assert (merged.system, merged.messages) == ("", (Message("user", "Be brief.\n\none"), turns[1]))
    without_user = adapted_chat(Chat(ModelRef("openai", "m"), "Be brief.", turns[1:]), {"system_in_turn"})
    assert without_user.messages == (Message("user", "Be brief."), turns[1])


def test_what_is_not_asked_for_is_not_adapted():
    chat = Chat(ModelRef("openai", "m"), " ", (Message("user", "x"),))
    everything = {"no_temperature", "json_object", "schema_in_words", "system_in_turn", "other_limit_name"}
    assert adapted_chat(chat, everything) == chat


def test_the_memory_forgets_what_is_used_least():
    memory = CapabilityMemory()
    memory.learn("first", "no_temperature")
    for number in range(255):
        memory.learn(f"m{number}", "json_object")
    assert memory.of("first") == {"no_temperature"}
    memory.learn("one more", "json_object")
    assert (memory.of("first"), memory.of("m0")) == ({"no_temperature"}, frozenset())


def test_the_memory_loses_nothing_between_threads():
    memory = CapabilityMemory()
    learned = ["no_temperature", "json_object", "schema_in_words", "system_in_turn"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: memory.learn(f"m{n % 5}", learned[n % 4]), range(400)))
    assert all(memory.of(f"m{n}") == set(learned) for n in range(5))


@pytest.mark.parametrize("rest", [{}, {"stream": True}])
def test_a_refused_temperature_is_left_out_from_then_on(
    server: ModelServer, catalog: ProviderCatalog, dialect: str, rest: dict[str, Any]
):
    server.script(generate=["Paris."], quirks=("no_temperature",))
    chat = chat_for(dialect, temperature=0.2, **rest)
    assert send_adapted(catalog, chat).text == "Paris."
    assert send_adapted(catalog, chat).text == "Paris."
    assert ["temperature" in body for body in bodies(server)] == [True, False, False]


def test_each_model_has_its_own_adaptations(server: ModelServer, catalog: ProviderCatalog, dialect: str):
    server.script(generate=["x"], quirks=("no_temperature",))
    send_adapted(catalog, chat_for(dialect, temperature=0.2))
    other = Chat(ModelRef(dialect, "other"), "", (Message("user", "x"),), temperature=0.2)
    assert catalog.get(other.model).wire_body(other)["temperature"] == 0.2


def test_reasoning_models_are_met_a_step_at_a_time(server: ModelServer, catalog: ProviderCatalog):
    server.script(generate=["Paris."], quirks=("no_max_tokens", "no_temperature"))
    chat = chat_for("openai", temperature=0.2, max_output_tokens=77)
    assert send_adapted(catalog, chat).text == "Paris."
    first, second, third = bodies(server)
    assert first["max_tokens"] == second["max_completion_tokens"] == third["max_completion_tokens"] == 77
    assert ("temperature" in second, "temperature" in third) == (True, False)


def test_a_limit_that_has_neither_name_is_an_error(server: ModelServer, catalog: ProviderCatalog):
    server.script(generate=["x"], quirks=("no_max_tokens", "no_max_completion_tokens"))
    with pytest.raises(ProviderError, match="max_completion_tokens") as caught:
        send_adapted(catalog, chat_for("openai", max_output_tokens=7))
    assert caught.value.code == "provider_bad_request"
    assert len(server.requests()) == 2


def test_a_schema_is_asked_for_more_and_more_loosely(server: ModelServer, catalog: ProviderCatalog):
    server.script(evaluate=[0.4], quirks=("no_json_schema", "no_json_object"))
    chat = chat_for("openai", reply_schema=VERDICT)
    assert json.loads(send_adapted(catalog, chat).text)["score"] == 0.4
    kinds = [(body.get("response_format") or {}).get("type") for body in bodies(server)]
    assert kinds == ["json_schema", "json_object", None]
    assert [entry.role for entry in server.requests()] == ["evaluate"] * 3


def test_messages_without_structured_output_get_the_schema_in_words(server: ModelServer, catalog: ProviderCatalog):
    server.script(evaluate=[0.4], quirks=("no_json_schema",))
    assert json.loads(send_adapted(catalog, chat_for("anthropic", reply_schema=VERDICT)).text)["score"] == 0.4
    first, second = bodies(server)
    assert "output_config" in first
    assert "output_config" not in second
    assert "JSON Schema" in second["system"]


# Case B13
def test_a_system_prompt_that_is_refused_goes_into_the_turn(
    server: ModelServer, catalog: ProviderCatalog, dialect: str
):
    server.script(generate=["x"], quirks=("no_system",))
    send_adapted(catalog, chat_for(dialect, "hello", system="Be brief."))
    last = bodies(server)[-1]
    assert "system" not in last
    assert last["messages"] == [{"role": "user", "content": "Be brief.\n\nhello"}]


def test_stream_options_are_left_out_where_they_are_not_known(server: ModelServer, catalog: ProviderCatalog):
    server.script(generate=["one two"], quirks=("no_stream_options",))
    reply = send_adapted(catalog, chat_for("openai", stream=True))
    assert (reply.text, reply.usage.input_tokens) == ("one two", None)
    assert bodies(server)[-1]["stream"] is True


def test_a_call_that_was_planned_before_the_lesson_is_planned_anew_too(
    server: ModelServer, catalog: ProviderCatalog, dialect: str
):
    server.script(generate=["x"], quirks=("no_temperature",))
    made = catalog.get(ModelRef(dialect, "m"))
    planned = made.wire_body(chat_for(dialect, temperature=0.2))
    for _ in range(2):
        with pytest.raises(ProviderError) as caught:
            CALLS_LOOP.run(made.send(planned, timeout_s=5))
        assert caught.value.is_adapted


def test_other_refusals_adapt_nothing(server: ModelServer, catalog: ProviderCatalog, dialect: str):
    for status, code in ((400, None), (401, "invalid_api_key"), (429, "rate_limit_exceeded")):
        server.script(generate=[Reply(status=status, raw=openai("temperature is high", code=code))])
        with pytest.raises(ProviderError) as caught:
            send_adapted(catalog, chat_for(dialect, temperature=0.2))
        assert not caught.value.is_adapted
