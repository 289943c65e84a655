"""The table from what providers say to what it means, by the words that they really use."""

import json
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redraft.errors import ProviderErrorCode
from redraft.providers.shared.error_bodies import parse_json
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer, retry_after_s, selected_headers

VENDOR = Vendor("OpenAI", "OPENAI_API_KEY", "OPENAI_BASE_URL", "my-very-own-token")


def openai(message: str, code: Any = None, kind: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


SAYINGS: list[tuple[int, Any, str]] = [
    # quota
    (429, openai("You exceeded your current quota.", "insufficient_quota", "insufficient_quota"), "provider_quota"),
    (429, openai("You exceeded your current quota, please check your plan and billing details."), "provider_quota"),
    (403, anthropic("billing_error", "Payment required"), "provider_quota"),
    (400, anthropic("invalid_request_error", "Your credit balance is too low to access the API."), "provider_quota"),
    (400, anthropic("invalid_request_error", "You have reached your specified API usage limits."), "provider_quota"),
    (402, {"error": {"message": "Insufficient Balance", "type": "unknown_error"}}, "provider_quota"),
    (429, openai("Billing hard limit has been reached", "billing_hard_limit_reached"), "provider_quota"),
    # rates
    (429, openai("You exceeded your current quota. Please retry in 120s."), "provider_rate_limited"),
    (429, openai("You exceeded your current quota. Please retry in 121s."), "provider_quota"),
    (429, openai("Rate limit reached", "rate_limit_exceeded", "requests"), "provider_rate_limited"),
    (
        429,
        openai(
            "Rate limit reached for m on requests per min. You can increase your rate limit by adding a payment"
            " method at /account/billing.",
            "rate_limit_exceeded",
        ),
        "provider_rate_limited",
    ),
    (429, anthropic("rate_limit_error", "Number of request tokens has exceeded your limit"), "provider_rate_limited"),
    (429, {"error": {"code": "429", "message": "Requests have exceeded call rate limit."}}, "provider_rate_limited"),
    (429, "Too Many Requests", "provider_rate_limited"),
    # too long
    (400, openai("This model's maximum context length is 8192 tokens.", "context_length_exceeded"), "context_too_long"),
    (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens."}, "context_too_long"),
    (400, anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000"), "context_too_long"),
    (400, openai("Input tokens exceed the configured limit of 272000 tokens."), "context_too_long"),
    (400, {"message": "Input is too long for requested model."}, "context_too_long"),
    (400, {"code": "InvalidParameter", "message": "Range of input length should be [1, 30720]"}, "context_too_long"),
    (400, {"message": "`inputs` must have less than 1024 tokens. Given: 2000"}, "context_too_long"),
    (400, openai("输入长度超过模型最大上下文长度"), "context_too_long"),
    (422, {"message": "Engine", "originalMessage": "n_ctx too small for the prompt"}, "context_too_long"),
    (
        400,
        anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 3"),
        "context_too_long",
    ),
    (413, anthropic("request_too_large", "Request exceeds the maximum size"), "context_too_long"),
    (
        400,
        {"error": {"code": 400, "message": "request (9 tokens) exceeds", "type": "exceed_context_size_error"}},
        "context_too_long",
    ),
    (
        429,
        openai("Request too large for m on tokens per min (TPM): Limit 3, Requested 4", "rate_limit_exceeded"),
        "context_too_long",
    ),
    # models
    (404, openai("The model `x` does not exist or you do not have access to it.", "model_not_found"), "unknown_model"),
    (404, anthropic("not_found_error", "model: claude-x"), "unknown_model"),
    (404, {"error": {"message": 'model "x" not found, try pulling it first'}}, "unknown_model"),
    (400, openai("nope is not a valid model ID"), "unknown_model"),
    (400, openai("The model `x` has been decommissioned", "model_decommissioned"), "unknown_model"),
    (404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}}, "unknown_model"),
    # filters
    (
        400,
        {
            "error": {
                "message": "The response was filtered due to the prompt triggering the content management policy.",
                "code": "content_filter",
                "innererror": {"code": "ResponsibleAIPolicyViolation"},
            }
        },
        "content_filtered",
    ),
    (400, openai("Invalid prompt: your prompt was flagged", "invalid_prompt"), "content_filtered"),
    (400, anthropic("invalid_request_error", "Output blocked by content filtering policy"), "content_filtered"),
    # keys
    (401, openai("Incorrect API key provided: sk-abc.", "invalid_api_key"), "provider_auth"),
    (401, anthropic("authentication_error", "invalid x-api-key"), "provider_auth"),
    (403, anthropic("permission_error", "Your key may not use this resource"), "provider_auth"),
    (401, {"detail": "Unauthorized"}, "provider_auth"),
    # passing trouble
    (529, anthropic("overloaded_error", "Overloaded"), "provider_unavailable"),
    (200, anthropic("overloaded_error", "Overloaded"), "provider_unavailable"),
    (200, {"error": {"message": "Provider returned error", "code": 502}}, "provider_unavailable"),
    (200, {"error": {"message": "upstream"}}, "provider_unavailable"),
    (500, anthropic("api_error", "Internal server error"), "provider_unavailable"),
    (503, "<html><title>503 Service Unavailable</title></html>", "provider_unavailable"),
    (504, anthropic("timeout_error", "Timed out"), "provider_unavailable"),
    # the caller's own fault
    (400, openai("System role not supported", 400, "BadRequestError"), "provider_bad_request"),
    (400, openai("Unsupported value: 'temperature'", "unsupported_value"), "provider_bad_request"),
    (404, "404 page not found", "provider_bad_request"),
    (422, {"detail": [{"loc": ["body", "messages"], "msg": "field required"}]}, "provider_bad_request"),
]


@pytest.mark.parametrize(("status", "body", "code"), SAYINGS)
def test_each_saying_has_its_code(status: int, body: Any, code: str):
    error = failure_of_answer(VENDOR, Answer(status, body, {}))
    assert error.code == code
    assert error.http_status == status


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (401, openai("no"), "OPENAI_API_KEY"),
        (429, openai("no", "insufficient_quota"), "billing"),
        (404, openai("The model x does not exist", "model_not_found"), "model's name"),
        (404, "page not found", "OPENAI_BASE_URL"),
        (413, "", "Shorten"),
    ],
)
def test_messages_say_where_to_look(status: int, body: Any, advice: str):
    assert advice in failure_of_answer(VENDOR, Answer(status, body, {})).message


def test_the_providers_own_words_are_kept():
    error = failure_of_answer(VENDOR, Answer(400, openai("System role not supported"), {}))
    assert error.message == "OpenAI answered 400: System role not supported"


@given(
    st.integers(400, 599),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["error", "message", "code", "type", "x"]), inner)
        ),
    ),
)
def test_any_body_becomes_a_known_error(status: int, body: Any):
    error = failure_of_answer(VENDOR, Answer(status, body, {}))
    assert error.code in get_args(ProviderErrorCode)
    assert error.message
    assert len(error.message) < 1000


@given(st.text(alphabet="abcDEF0123456789_-", min_size=8), st.text(max_size=30), st.text(max_size=30))
def test_no_key_survives_anywhere(tail: str, before: str, after: str):
    key = f"sk-{tail}"
    vendor = Vendor("it", "K", "U", "my-very-own-token")
    for secret in (key, "my-very-own-token"):
        body = {"error": {"message": f"{before} {secret} {after}", "deep": [{"er": secret}]}}
        error = failure_of_answer(vendor, Answer(400, body, {}))
        assert secret not in error.message
        assert secret not in json.dumps(error.response)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"Retry-After": " 1.5 "}, 1.5),
        ({"retry-after-ms": "40", "retry-after": "9"}, 0.04),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None):
    assert retry_after_s(headers) == seconds


@given(st.integers(0, 4_000_000_000), st.integers(-10_000, 10_000))
@example(1_800_000_000, 30)
def test_a_retry_date_is_a_wait_from_now(now: int, ahead: int):
    at = format_datetime(datetime.fromtimestamp(max(0, now + ahead), UTC), usegmt=True)
    assert retry_after_s({"retry-after": at}, datetime.fromtimestamp(now, UTC)) == max(0.0, max(0, now + ahead) - now)


@given(st.dictionaries(st.text(), st.text()))
def test_retry_after_never_raises(headers: dict[str, str]):
    waited = retry_after_s(headers | {"retry-after": next(iter(headers.values()), "x")})
    assert waited is None or waited >= 0


def test_only_harmless_headers_are_kept():
    kept = selected_headers(
        {
            "X-Request-Id": "r",
            "request-id": "q",
            "x-ratelimit-limit-tokens": "1",
            "anthropic-ratelimit-tokens-remaining": "2",
            "Retry-After": "3",
            "retry-after-ms": "4",
            "set-cookie": "secret",
            "authorization": "secret",
            "openai-organization": "me",
        }
    )
    assert set(kept) == {
        "x-request-id",
        "request-id",
        "x-ratelimit-limit-tokens",
        "anthropic-ratelimit-tokens-remaining",
        "retry-after",
        "retry-after-ms",
    }


def test_json_that_no_database_takes_is_tamed():
    assert parse_json('{"a": NaN, "b": [Infinity, 1]}') == {"a": None, "b": [None, 1]}
    with pytest.raises(ValueError, match="deep"):
        parse_json("[" * 200_000)


WRAPPED: list[tuple[int, Any, str, str]] = [
    # an upstream's error within a gateway's
    (
        429,
        {
            "error": {
                "message": "Provider returned error",
                "code": 429,
                "metadata": {"raw": "m is temporarily rate-limited upstream, add your own key", "provider_name": "N"},
            }
        },
        "provider_rate_limited",
        "rate-limited upstream",
    ),
    (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": '{"error":{"message":"Input is longer than the maximum context length of 8192"}}'},
            }
        },
        "context_too_long",
        "Provider returned error: Input is longer",
    ),
    (
        429,
        {"error": {"message": "Upstream error", "metadata": {"raw": {"error": {"message": "insufficient balance"}}}}},
        "provider_quota",
        "insufficient balance",
    ),
    (400, {"message": 'litellm: {"error": {"message": "prompt is too long"}}'}, "context_too_long", "litellm: prompt"),
    (400, {"error": {"error": {"error": "context window full"}}}, "context_too_long", "context window full"),
    (502, {"error": "bad gateway", "cause": {"msg": "maximum context length is 9"}}, "context_too_long", "length is 9"),
    (500, {"message": "x", "innererror": {"code": "context_length_exceeded"}}, "context_too_long", "x"),
    (
        400,
        {"errors": [{"message": "first"}, {"message": "reduce the length of the input"}]},
        "context_too_long",
        "first",
    ),
    (400, {"detail": {"reason": "the prompt was flagged"}}, "content_filtered", "flagged"),
    (
        400,
        [{"error": {"message": "API key not valid", "details": [{"reason": "API_KEY_INVALID"}]}}],
        "provider_auth",
        "K",
    ),
    (
        422,
        {"detail": [{"loc": ["body", "n"], "msg": "too big", "input": {"message": "TASK"}}]},
        "provider_bad_request",
        "n",
    ),
    # a success that is none, in shapes of their own
    (200, {"error": True, "errorMessage": "engine is busy"}, "provider_unavailable", "engine is busy"),
    (200, {"success": False, "errors": [{"code": 1, "message": "Authentication error"}]}, "provider_auth", "Authentic"),
    (200, {"status": "429", "title": "Slow down"}, "provider_rate_limited", "Slow down"),
    (200, {"code": 40301, "msg": "余额不足"}, "provider_quota", "余额不足"),
    (200, "no capacity: too many requests", "provider_rate_limited", "no capacity"),
    (200, {"x": {"y": "what is this"}}, "provider_bad_request", "another API seems to answer there"),
    (400, {"error": {"message": {"text": "context length exceeded"}}}, "context_too_long", "context length exceeded"),
    (200, {"model": "m", "message": {"content": "Hi"}, "done": True}, "provider_bad_request", "another API"),
    (202, {"id": "r1", "status": "queued"}, "provider_bad_request", "another API"),
    (200, "<html><title>Sign in</title></html>", "provider_unavailable", "Sign in. Check"),
    (403, {"error": {"code": "unsupported_country_region_territory"}}, "provider_auth", "country or region"),
    (404, {"error": {"message": "模型不存在"}}, "unknown_model", "模型不存在"),
    (498, {"error": {"message": "Flex tier capacity"}}, "provider_unavailable", "capacity"),
    (200, "<Error><Code>AccessDenied</Code></Error>", "provider_auth", "AccessDenied"),
    (200, {"detail": "unknown model x"}, "unknown_model", "unknown model x"),
    (
        429,
        {"error": {"metadata": {"raw": '{"error":{"type":"insufficient_quota","message":"x"}}'}}},
        "provider_quota",
        "x",
    ),
    (400, {"metadata": {"raw": 'b\'{"message": "prompt is too long"}\''}}, "context_too_long", "prompt is too long"),
    (200, {"Error": {"Message": "Slow down", "Code": "ThrottlingException"}}, "provider_rate_limited", "Slow down"),
    (503, {"title": "Service Unavailable", "detail": "no healthy upstream"}, "provider_unavailable", "no healthy"),
    (400, {"code": "DataInspectionFailed", "message": "Input may be inappropriate."}, "content_filtered", "may be"),
    (
        400,
        openai("<400> InternalError.Algo.DataInspectionFailed: Output data may contain inappropriate content."),
        "content_filtered",
        "may contain",
    ),
    (200, {"error": {"code": "1301", "message": "可能包含不安全或敏感内容"}}, "content_filtered", "敏感"),
    (200, {"error_code": 17, "error_msg": "Open api daily request limit reached"}, "provider_rate_limited", "daily"),
    (400, openai("litellm.RateLimitError: too many", code="429"), "provider_rate_limited", "too many"),
    (400, {"__type": "ThrottlingException", "message": "Rate exceeded"}, "provider_rate_limited", "Rate exceeded"),
    (400, openai("Budget has been exceeded! Current cost: 10.1, Max budget: 10.0"), "provider_quota", "10.1"),
    (403, openai("Key limit exceeded (total limit)."), "provider_quota", "Key limit"),
    (200, {"Message": "User is not authorized", "Type": "User"}, "provider_auth", "not authorized"),
    (
        400,
        openai('VertexAIException - b\'{"error": {"message": "The input token count (9) exceeds the maximum"}}\''),
        "context_too_long",
        "The input token count (9)",
    ),
    (400, "The prompt is 9000 tokens long, which is over the limit.", "context_too_long", "9000"),
    (400, openai("This model supports a maximum of 4096 tokens in total"), "context_too_long", "4096"),
    (400, openai("Invalid 'messages[0].content'", code="string_above_max_length"), "context_too_long", "messages[0]"),
    (400, {"message": "The provided model identifier is invalid."}, "unknown_model", "identifier"),
    (400, openai("Model not exist"), "unknown_model", "not exist"),
    (400, openai("Request blocked by guardrail: PII detected"), "content_filtered", "PII"),
    (200, {"ResponseMetadata": {"Error": {"Code": "AccessDenied", "Message": "no"}}}, "provider_auth", "error: no"),
    (
        400,
        openai("This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
        "context_too_long",
        "140000",
    ),
    (400, {"error": "Your request exceeds the maximum allowed input length"}, "context_too_long", "allowed input"),
    (500, openai("the prompt exceeds the maximum batch size (n_batch)"), "context_too_long", "n_batch"),
]


@pytest.mark.parametrize(("status", "body", "code", "words"), WRAPPED)
def test_what_stands_deep_in_a_body_is_read_and_shown(status: int, body: Any, code: str, words: str):
    error = failure_of_answer(VENDOR, Answer(status, body, {}))
    assert error.code == code
    assert words in error.message
    assert "TASK" not in error.message


@given(
    st.sampled_from(["error", "metadata", "raw", "innererror", "detail", "cause", "errors", "upstream_error"]),
    st.lists(st.sampled_from(["object", "list", "text"]), max_size=3),
    st.sampled_from(["error", "body", "fault"]),
)
def test_words_survive_any_wrapping(key: str, layers: list[str], outer: str):
    body: Any = {"message": "maximum context length is 5"}
    for layer in layers:
        body = {"object": {key: body}, "list": {key: [body]}, "text": {key: json.dumps(body)}}[layer]
    error = failure_of_answer(VENDOR, Answer(400, {outer: body, "message": "Upstream failed"}, {}))
    assert error.code == "context_too_long"
    assert "Upstream failed: maximum context length is 5" in error.message


@pytest.mark.parametrize(
    ("headers", "body", "words"),
    [
        ({"retry-after": "86400"}, openai("no"), "asked to wait 24 h."),
        ({"retry-after": "90"}, openai("no"), "asked to wait 90 s."),
        ({"retry-after": "600"}, openai("no"), "asked to wait 10 min."),
        ({"retry-after": "5400"}, openai("no"), "asked to wait 90 min."),
        ({}, openai("Please try again in 8h0m0s."), "asked to wait 8 h."),
        ({}, {"error": {"message": "no", "details": [{"retryDelay": "34s"}]}}, "asked to wait 34 s."),
        ({}, {"message": "no", "retry_after": 86400}, "asked to wait 24 h."),
    ],
)
def test_a_wait_that_is_asked_for_is_told(headers: dict[str, str], body: Any, words: str):
    error = failure_of_answer(VENDOR, Answer(429, body, headers))
    assert words in error.message
    assert error.retryable


def test_a_minutes_quota_heals():
    body = {"error": {"message": "You exceeded your current quota. Please retry in 34.07s.", "code": 429}}
    assert failure_of_answer(VENDOR, Answer(429, body, {})).code == "provider_rate_limited"
