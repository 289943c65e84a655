"""Output limits that a model does not take: what servers say of them, and what the next call asks for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import ProviderError
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer
from redraft.providers.shared.limit_refusals import LimitRefusal, read_refusal
from redraft.providers.shared.output_limits import OutputLimits
from redraft.providers.shared.protocol import Chat, LimitOrigin, Message
from tests.model_server import ModelServer, Reply
from tests.model_server.requests import Asked
from tests.providers.conftest import chat_for, send_adapted

# {limit}: the model's own; {asked}: what was sent.
OF_THE_MODEL = [
    (
        "max_tokens is too large: {asked}. This model supports at most {limit} completion tokens, whereas you provided"
        " {asked}."
    ),
    "max_tokens: {asked} > {limit}, which is the maximum allowed number of output tokens for claude-3-5-haiku-20241022",
    (
        "`max_tokens` must be less than or equal to `{limit}`, the maximum value for `max_tokens` is less than the"
        " `context_window` for this model"
    ),
    "Invalid max_tokens value, the valid range of max_tokens is [1, {limit}]",
    "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, {limit}]",
    "Invalid 'max_tokens': integer above maximum value. Expected a value <= {limit}, but got {asked} instead.",
    "body.max_tokens: Input should be less than or equal to {limit}",
    "max_tokens ({asked}) exceeds the limit {limit}",
    (
        "too many tokens: max tokens must be less than or equal to {limit}, the maximum output length for this model -"
        " received {asked}."
    ),
    "Malformed input request: #/max_tokens: {asked} is not less or equal to {limit}, please reformat your input",
    (
        "The parameter `max_completion_tokens` specified in the request are not valid: integer above maximum value,"
        " expected a value <= {limit}, but got {asked} instead. Request id: 0217752964393142fa50af54af66c5"
    ),
    "The maximum number of tokens for completion is {limit}",
    "max_tokens参数非法: 限制数值范围[1,{limit}]",
    "Error code: 400 - max_output_tokens may be at most {limit}",
    "Der Wert {asked} von max_tokens ist zu groß; höchstens {limit}",
]
# {context}: of prompt and reply together; {prompt}, {asked} and their sum {total}.
OF_THE_CONTEXT = [
    (
        "This model's maximum context length is {context} tokens. However, you requested {asked} output tokens and your"
        " prompt contains {prompt} input tokens, for a total of {total} tokens. Please reduce the length of the input"
        " prompt or the number of requested output tokens."
    ),
    (
        "This model's maximum context length is {context} tokens. However, you requested {total} tokens ({prompt} in"
        " the messages, {asked} in the completion). Please reduce the length of the messages or completion."
    ),
    (
        "This model's maximum context length is {context} tokens, however you requested {total} tokens ({prompt} in"
        " your prompt; {asked} for the completion). Please reduce your prompt; or completion length."
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length is"
        " {context} tokens and your request has {prompt} input tokens ({asked} > {context} - {prompt})."
    ),
    (
        "input length and `max_tokens` exceed context limit: {prompt} + {asked} > {context}, decrease input length or"
        " `max_tokens` and try again"
    ),
    (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {context}. Given: {prompt} `inputs`"
        " tokens and {asked} `max_new_tokens`"
    ),
    "Please reduce the length of the messages or completion. Current length is {total} while limit is {context}",
    (
        "Requested token count exceeds the model's maximum context length of {context} tokens. You requested a total of"
        " {total} tokens: {prompt} tokens from the input messages and {asked} tokens for the completion."
    ),
    (
        "This endpoint's maximum context length is {context} tokens. However, you requested about {total} tokens"
        " ({prompt} of text input, {asked} in the output). Please reduce the length of either one"
    ),
    (
        "The estimated number of input and maximum output tokens ({total}) exceeded this model context window limit"
        " ({context})."
    ),
    (
        "Request too large for model `x` on tokens per minute (TPM): Limit {context}, Requested {total}, please reduce"
        " your message size and try again."
    ),
    "The number of prompt tokens plus max_tokens ({total}) exceeds the context window of {context}",
    "context length exceeded: prompt ({prompt}) + max_tokens ({asked}) > {context}",
    "The sum of prompt tokens ({prompt}) and max_tokens ({asked}) must not exceed {context}",
    "The sum of prompt length ({prompt}) and max_tokens ({asked}) should not exceed max_model_len ({context})",
    "input_tokens + max_new_tokens must be <= {context}, got {prompt} + {asked}",
    "generation length too long: max_seq_len = {context}, prompt = {prompt}, max_new_tokens = {asked}",
]
OF_SOMETHING_ELSE = [
    "prompt is too long: 205148 tokens > 200000 maximum",
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    "Prompt contains 33000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "max_tokens must be at least 1, got -904.",
    "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    "max_tokens: Field required",
    "`max_tokens` must be greater than `thinking.budget_tokens`",
    "Unsupported parameter: 'max_tokens' is not supported with this model.",
    "temperature: range: 0..1",
    "Unrecognized request argument supplied: max_tokens (request 1234)",
    "The model `gpt-9` does not exist",
    "Invalid model for chat completion",
]


def answered(message: str, status: int = 400) -> ProviderError:
    return failure_of_answer(Vendor("it", "K", "U"), Answer(status, {"error": {"message": message}}, {}))


@pytest.mark.parametrize("words", OF_THE_MODEL)
@given(st.integers(300, 200_000), st.integers(1, 100_000))
def test_a_models_own_limit_is_read(words: str, limit: int, more: int):
    found = read_refusal(words.format(limit=limit, asked=limit + more), limit + more)
    assert found == LimitRefusal("output", limit)


@pytest.mark.parametrize("words", OF_THE_CONTEXT)
@given(st.integers(2_000, 1_000_000), st.data())
def test_the_room_that_a_prompt_leaves_is_read(words: str, context: int, data: st.DataObject):
    prompt = data.draw(st.integers(100, context - 100))
    asked = data.draw(st.integers(context - prompt + 1, 2 * context))
    message = words.format(context=context, prompt=prompt, asked=asked, total=prompt + asked)
    assert read_refusal(message, asked) == LimitRefusal("context", context, prompt)


@pytest.mark.parametrize(
    ("words", "prompt"),
    [
        ("Sequence length 4708 exceeds model limit 4096: prompt 612 tokens, requested 4096 tokens", 612),
        ("Länge 4708 überschreitet 4096 (612 und 4096)", 612),
        ("Total tokens 4708 (prompt 612 + completion 4096) exceed model maximum 4096", 612),
        ("Länge 4708 überschreitet 4096", None),
    ],
)
def test_numbers_that_add_up_tell_the_context_in_any_words(words: str, prompt: int | None):
    assert read_refusal(words, 4096) == (prompt and LimitRefusal("context", 4096, prompt))


@pytest.mark.parametrize("words", OF_SOMETHING_ELSE)
def test_what_lowering_the_limit_cannot_mend_is_left_alone(words: str):
    error = answered(words)
    assert read_refusal(words, 4096, is_of_context=error.code == "context_too_long") is None


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (
            "has a maxOutputTokens value of 9000 but the supported range is from 1 (inclusive) to 8193 (exclusive).",
            8192,
        ),
        ("Try again with a maximum tokens value that is lower than 4096.", 4095),
        ("max_completion_tokens is limited for this model", None),
        ("max_tokens is too big", None),
        ("max_tokens is too large for gpt-4-0613", None),
    ],
)
def test_limits_are_read_to_the_token_or_not_at_all(words: str, limit: int | None):
    assert read_refusal(words, 9000) == LimitRefusal("output", limit)


@given(st.text(max_size=300), st.integers(1, 10**6))
def test_any_words_can_be_read(words: str, asked: int):
    found = read_refusal(words, asked, is_of_context=True)
    assert found is None or found.maximum is None or found.maximum > 0


@given(
    st.sampled_from(["output", "context"]),
    st.none() | st.integers(1, 10**6),
    st.none() | st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.text(max_size=2_000),
)
def test_each_refusal_lowers_the_limit_or_ends_the_asking(
    about: Any, maximum: int | None, prompt: int | None, asked: int, text: str
):
    limits = OutputLimits()
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": asked}
    limit = maximum if maximum is None or about == "context" else min(maximum, asked - 1) or None
    refusal = LimitRefusal(about, limit, prompt)
    lowered = limits.learn(refusal, body)
    if lowered is not None:
        assert 0 < lowered < asked
        assert limits.fitted(body, LimitOrigin())["max_tokens"] == lowered
        assert limits.fitted(body, LimitOrigin(is_fixed=True)) == body


def test_a_context_limits_no_shorter_prompt():
    limits = OutputLimits()
    long, short = ({"model": "m", "messages": [{"content": "x" * size}], "max_tokens": 4096} for size in (9_000, 3))
    assert limits.learn(LimitRefusal("context", 4096, 3_000), long) == 1_096
    assert limits.fitted(short, LimitOrigin())["max_tokens"] > 4_000
    assert limits.fitted({**short, "model": "other"}, LimitOrigin())["max_tokens"] == 4_096


@pytest.mark.parametrize("words", OF_THE_CONTEXT)
def test_prompt_and_reply_together_are_too_long(words: str):
    assert answered(words.format(context=4096, prompt=612, asked=4096, total=4708)).code == "context_too_long"


@pytest.mark.parametrize("words", OF_THE_MODEL)
def test_a_models_limit_is_no_matter_of_the_context(words: str):
    assert answered(words.format(limit=4096, asked=8192)).code == "provider_bad_request"


# ── over the wire ────────────────────────────────────────────────────────────────────────────────────────────


def limited(words: str, *, context: int = 10**9, maximum: int = 10**9, status: int = 400) -> Any:
    """A server with the given limits; a word of a prompt is a token."""

    def respond(asked: Asked) -> Reply | None:
        limit = asked.body.get("max_tokens") or asked.body.get("max_completion_tokens")
        prompt = len(asked.prompt.split())
        if limit is None or (limit <= maximum and limit + prompt <= context):
            return None
        facts = {"limit": maximum, "context": context, "prompt": prompt, "asked": limit, "total": prompt + limit}
        return Reply(status=status, raw={"error": {"message": words.format(**facts), "type": "invalid_request_error"}})

    return respond


def limits_sent(server: ModelServer) -> list[int]:
    return [entry.body["max_tokens"] for entry in server.requests()]


def test_a_models_limit_is_learned_once(server: ModelServer, catalog: ProviderCatalog, dialect: str):
    server.respond(limited(OF_THE_MODEL[1], maximum=2_000))
    for text in ("one", "another and longer prompt"):
        assert send_adapted(catalog, chat_for(dialect, text, max_output_tokens=4096)).text
    assert limits_sent(server) == [4096, 2000, 2000]


@pytest.mark.parametrize("words", [OF_THE_CONTEXT[0], OF_THE_CONTEXT[4], OF_THE_CONTEXT[5], OF_THE_CONTEXT[6]])
def test_a_prompt_gets_the_room_that_the_context_leaves(
    server: ModelServer, catalog: ProviderCatalog, dialect: str, words: str
):
    server.respond(limited(words, context=4096))
    for text in ("one two three", "word " * 900, "word " * 900):
        assert send_adapted(catalog, chat_for(dialect, text, system="", max_output_tokens=4096)).text
    first, second, *others = limits_sent(server)
    assert (first, second) == (4096, 4093)
    assert all(2_000 < limit < 3_500 for limit in others)


def test_a_server_that_stops_counting_is_asked_for_less_and_less(server: ModelServer, catalog: ProviderCatalog):
    words = OF_THE_CONTEXT[0].replace("contains {prompt}", "contains at least 1").replace("{total}", "at least 4097")
    server.respond(limited(words, context=4096))
    assert send_adapted(catalog, chat_for("openai", "a " * 3_000, max_output_tokens=4096)).text


def test_a_sum_that_is_taken_for_the_context_does_not_end_in_small_steps(server: ModelServer, catalog: ProviderCatalog):
    words = "The tokens of prompt plus output are greater than the context length ({total} > {context})"
    server.respond(limited(words, context=1_500))
    assert send_adapted(catalog, chat_for("openai", max_output_tokens=4096), calls=5).text


@pytest.mark.parametrize("words", ["max_tokens is too large", "context length exceeded", "too many tokens requested"])
def test_without_a_number_the_limit_is_halved(server: ModelServer, catalog: ProviderCatalog, words: str):
    server.respond(limited(words, maximum=600))
    assert send_adapted(catalog, chat_for("openai", max_output_tokens=4096)).text
    assert limits_sent(server) == [4096, 2048, 1024, 512]


def test_halving_ends(server: ModelServer, catalog: ProviderCatalog):
    server.respond(limited("max_tokens is too large", maximum=10))
    with pytest.raises(ProviderError, match=r"Set sampling\.max_output_tokens to a limit that the model accepts"):
        send_adapted(catalog, chat_for("openai", max_output_tokens=4096, limit_origin=LimitOrigin()))
    assert limits_sent(server) == [4096, 2048, 1024, 512, 256]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (OF_THE_MODEL[0], "Lower THE_SETTING to at most 2000"),
        (OF_THE_CONTEXT[0], "Lower THE_SETTING to at most 1995, or shorten the task"),
        ("max_tokens is too large", "Lower THE_SETTING"),
    ],
)
def test_a_limit_that_a_person_fixed_is_named_and_not_lowered(
    server: ModelServer, catalog: ProviderCatalog, dialect: str, words: str, told: str
):
    server.respond(limited(words, context=2_000, maximum=2_000))
    chat = chat_for(dialect, "a b c", max_output_tokens=4096, limit_origin=LimitOrigin("THE_SETTING", is_fixed=True))
    for _ in range(2):
        with pytest.raises(ProviderError, match="Lower THE_SETTING") as caught:
            send_adapted(catalog, chat)
        assert told in caught.value.message
        assert "Shorten the task" not in caught.value.message
    assert limits_sent(server) == [4096, 4096]


def test_a_prompt_that_leaves_no_room_is_too_long(server: ModelServer, catalog: ProviderCatalog, dialect: str):
    server.respond(limited(OF_THE_CONTEXT[0], context=1_000))
    with pytest.raises(ProviderError, match="leaves no room for a reply: shorten the task") as caught:
        send_adapted(catalog, chat_for(dialect, "a " * 2_000, max_output_tokens=4096))
    assert caught.value.code == "context_too_long"
    assert len(server.requests()) == 1


def test_a_call_without_a_limit_is_never_adapted_for_its_length(server: ModelServer, catalog: ProviderCatalog):
    server.script(generate=[Reply(status=400, raw={"error": {"message": "context length exceeded"}})])
    with pytest.raises(ProviderError) as caught:
        send_adapted(catalog, chat_for("openai"))
    assert (caught.value.code, caught.value.is_adapted) == ("context_too_long", False)


def test_a_limit_inside_a_stream_is_learned_too(server: ModelServer, catalog: ProviderCatalog, dialect: str):
    server.respond(limited(OF_THE_MODEL[0], maximum=100))
    assert send_adapted(catalog, chat_for(dialect, stream=True, max_output_tokens=4096)).text
    assert limits_sent(server) == [4096, 100]


def test_the_limit_of_messages_without_a_wish_is_its_own_setting(server: ModelServer, catalog: ProviderCatalog):
    server.respond(limited(OF_THE_MODEL[1], maximum=1_000))
    chat = Chat(ModelRef("anthropic", "small"), "", (Message("user", "x"),))
    assert send_adapted(catalog, chat).text
    assert limits_sent(server) == [8192, 1000]
