"""Standard Webhooks: signatures, payloads, waits between attempts, and URLs of receivers."""

import base64
import json
import random
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from redraft.domain.admin.urls import RequestTarget, read_url
from redraft.domain.jobs.requests import GenerateAnswer, Webhook
from redraft.domain.jobs.webhook_retries import ATTEMPTS_MAX, WAIT_MAX_S, WAITS_S, wait_s
from redraft.domain.jobs.webhooks import (
    EVENT_BYTES_MAX,
    EVENT_TYPES,
    body_of,
    headers_of,
    message_type,
    sign,
)
from redraft.setting_values import webhook_keys
from tests.rules.sources import ROOT

# The vector of the specification's own libraries.
SECRET, ID, TIMESTAMP = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
BODY, SIGNATURE = b'{"test": 2432232314}', "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_signature_is_the_specifications():
    assert headers_of(webhook_keys(SECRET), ID, TIMESTAMP, BODY) == {
        "webhook-id": ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": SIGNATURE,
    }


def test_each_part_is_signed_and_each_key_signs():
    keys = webhook_keys(f"{SECRET}  whsec_{base64.b64encode(b'k' * 32).decode()}")
    first, second = sign(keys, ID, TIMESTAMP, BODY).split()
    assert first == SIGNATURE
    others = [
        sign(keys, ID + "x", TIMESTAMP, BODY),
        sign(keys, ID, TIMESTAMP + 1, BODY),
        sign(keys, ID, TIMESTAMP, b""),
    ]
    assert len({first, second, *(part for other in others for part in other.split())}) == 8


@pytest.mark.parametrize("size", [24, 32, 64])
def test_keys_of_the_specifications_sizes_are_read(size: int):
    assert webhook_keys("whsec_" + base64.b64encode(b"x" * size).decode()) == [b"x" * size]


def test_types_are_grouped_by_their_noun():
    assert [message_type(each) for each in ("done", "job.started", "step.retrying")] == [
        "job.done",
        "job.started",
        "job.step.retrying",
    ]


JOB = {"job_id": "job_1", "url": "/v1/jobs/job_1", "metadata": {"team": "docs"}}


def done(answer: str, parsed: Any = None) -> dict[str, Any]:
    result = {"final_answer": answer, "parsed": parsed, "success": True, "final_score": 0.9}
    return {"message": "m", "at": "2026-01-01T00:00:00.000Z", "status": "succeeded", "result": result, "error": None}


def payload(event: dict[str, Any]) -> dict[str, Any]:
    return json.loads(body_of(JOB, 7, "done", event))


def test_a_payload_holds_the_event():
    assert payload(done("Paris.")) == {
        "type": "job.done",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "data": {
            "job_id": "job_1",
            "url": "/v1/jobs/job_1",
            "metadata": {"team": "docs"},
            "seq": 7,
            "truncated": False,
            "event": done("Paris."),
        },
    }


def test_a_long_answer_is_left_out_and_the_verdict_is_not():
    data = payload(done("x" * EVENT_BYTES_MAX))["data"]
    assert data["truncated"]
    assert data["event"] == done("") | {"result": done("")["result"] | {"final_answer": None}}
    assert payload(done("x" * (EVENT_BYTES_MAX - 500)))["data"]["event"]["result"]["final_answer"]


@settings(max_examples=20)
@given(
    st.text(max_size=50).map(lambda text: text * 3000),
    st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
)
def test_the_size_of_a_payload_is_bounded(answer: str, parsed: Any):
    assert len(body_of(JOB, 7, "done", done(answer, [parsed] * 5000))) < EVENT_BYTES_MAX + 1000


@given(st.integers(1, ATTEMPTS_MAX - 1), st.integers(0, 2**32))
def test_waits_follow_the_schedule_with_some_jitter_and_grow(failures: int, seed: int):
    wait = wait_s(failures, rng=random.Random(seed))
    assert wait is not None
    assert WAITS_S[failures - 1] <= wait <= WAITS_S[failures - 1] * 1.1
    following = wait_s(failures + 1, rng=random.Random(seed + 1))
    assert following is None or following > wait


@given(st.integers(1, ATTEMPTS_MAX - 1), st.floats(0, 1e9))
def test_a_receiver_may_ask_for_a_longer_wait_up_to_a_day(failures: int, asked_s: float):
    wait = wait_s(failures, asked_s=asked_s)
    assert wait is not None
    assert wait >= min(asked_s, WAIT_MAX_S)
    assert wait <= max(WAITS_S[failures - 1] * 1.1, WAIT_MAX_S)


def test_the_schedule_ends_after_three_days():
    assert wait_s(ATTEMPTS_MAX) is None
    assert wait_s(ATTEMPTS_MAX + 5, asked_s=1.0) is None
    assert 70 < sum(WAITS_S) / 3600 < 80


@pytest.mark.parametrize(
    ("url", "goal"),
    [
        ("http://a.example", RequestTarget("http", "a.example", 80, "/")),
        ("HTTPS://A.Example/x?y=1#z", RequestTarget("https", "a.example", 443, "/x?y=1")),
        ("https://[2606:4700::1]:8443/x", RequestTarget("https", "2606:4700::1", 8443, "/x")),
    ],
)
def test_a_url_is_read_into_the_parts_of_a_request(url: str, goal: RequestTarget):
    assert read_url(url) == goal


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example/", "//a.example/", "a.example", "http://", "http:///x", "http://:80/", "http://a.example:0/",
        "http://a.example:99999/", "http://user:pw@a.example/", "http://user@a.example/", "http://@a.example/",
        "http://a.example\\@b.example/", "http://a.example /", "http://a.example/ x", "http://a\u3002example/",
        "http://a%2eexample/", "http://[::1%25lo]/", "http://[::1/", "http://a.example\n/", "http://\u2460.example/",
        "http://" + "a" * 2000, "", "http://a.example:80:80/", "http://-a/",
    ],
)  # fmt: skip
def test_urls_that_parsers_read_differently_are_refused(url: str):
    with pytest.raises(ValidationError):
        Webhook(url=url)


def test_the_default_event_is_the_end_of_the_job():
    request = {"instruct": "t", "eval_crit": "c", "webhook": {"url": "https://a.example/"}}
    assert GenerateAnswer.model_validate(request).webhook == Webhook(url="https://a.example/", events=["done"])
    assert Webhook(url="https://a.example/", events=list(EVENT_TYPES)).events == list(EVENT_TYPES)


@pytest.mark.parametrize("events", [[], ["answer.delta"], ["finished"], "done", ["done"] * 11, [None]])
def test_unknown_events_are_refused(events: Any):
    with pytest.raises(ValidationError):
        Webhook.model_validate({"url": "https://a.example/", "events": events})


def test_the_page_verifies_as_it_says_and_names_all_events():
    page = (ROOT / "docs/webhooks.md").read_text("utf-8")
    [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    now = int(time.time())
    keys = webhook_keys(f"whsec_{base64.b64encode(b'k' * 32).decode()} {SECRET}")
    names["verify"](SECRET, headers_of(keys, "whd_1", now, BODY), BODY)
    for headers, body in (
        (headers_of(keys, "whd_1", now, BODY), BODY + b" "),
        (headers_of(keys, "whd_1", now - 400, BODY), BODY),
        (headers_of(keys[:1], "whd_1", now, BODY), BODY),
    ):
        with pytest.raises(ValueError):
            names["verify"](SECRET, headers, body)
    assert all(f"`{kind}`" in page for kind in EVENT_TYPES)
