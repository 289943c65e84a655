"""Nothing that is written down holds a secret: log lines, tracebacks, what providers say."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.redaction import MARK, redact, redact_known, redact_known_values, redact_values, remember
from tests.rules.sources import ROOT

KNOWN = "Very/own+key:of=ours"
TAILS = st.text("abcXYZ019_-", min_size=8, max_size=40)
WORDS = st.text("abc xyz.,;()\n", max_size=30)
# What reads as a port is found by its value only: an address may hold an @ behind its host.
PASSWORDS = st.text(
    st.characters(codec="ascii", categories=["L", "N", "P", "S"], exclude_characters="\"'<>"), min_size=1
).filter(lambda password: not re.match(r"\d+[/?#]", password))
SECRETS = st.one_of(
    TAILS.map(lambda tail: f"rd_{tail}"),
    TAILS.map(lambda tail: f"sk-{tail}"),
    TAILS.map(lambda tail: f"sk-ant-api03-{tail}"),
    TAILS.map(lambda tail: f"whsec_{tail}"),
    TAILS.map(lambda tail: f"AIzaSy{tail * 3}"),
    st.just(KNOWN),
)
FRAMES = (
    "{}",
    "key: {}.",
    "'{}'",
    '{{"a": "{}"}}',
    "<b>{}</b>",
    "Authorization: Bearer {}",
    "https://host/?key={}&x=1",
)

ADDRESS = "postgresql://u:hunter2@h/d"
SCRIPT = f"""
import logging, sys
import structlog
from redraft.logs import configure_logs
from redraft.redaction import remember

class Odd:
    def __repr__(self):
        return "<Odd rd_0123456789abcdef>"

remember([{KNOWN!r}])
configure_logs("DEBUG", sys.argv[1])
log, other = structlog.get_logger(), logging.getLogger("a.library")
log.info("said sk-0123456789", url="redis://:hunter2@host/0", nested={{"a": [{KNOWN!r}]}}, authorization="x", odd=Odd())
other.warning("connecting to %s with %s", "{ADDRESS}", {{"api_key": "hunter2"}})
try:
    raise ValueError("Incorrect key: {KNOWN}, {ADDRESS}") from RuntimeError("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La")
except ValueError as error:
    log.exception("failed", error=error)
    other.exception("failed too")
print("nothing here")
raise RuntimeError("last words: {KNOWN}")
"""


@pytest.fixture(autouse=True)
def _known() -> None:
    remember([KNOWN, "short"])


@given(WORDS, SECRETS, st.sampled_from(FRAMES), WORDS)
def test_a_secret_is_found_in_any_text(before: str, secret: str, frame: str, after: str):
    text = f"{before} {frame.format(secret)} {after}"
    shown = redact(text)
    assert secret not in shown
    assert MARK in shown
    assert redact(shown) == shown
    assert shown.startswith(before)
    assert shown.endswith(after)


@given(PASSWORDS, WORDS)
def test_passwords_in_addresses_are_found_whatever_they_hold(password: str, after: str):
    shown = redact(f"cannot reach postgresql://redraft:{password}ß@db.example/redraft {after}")
    assert shown == f"cannot reach postgresql://redraft:{MARK}@db.example/redraft {after}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://:hunter2@valkey:6379/0", f"redis://:{MARK}@valkey:6379/0"),
        ("password=hunter2 host=db", f"password={MARK} host=db"),
        ("{'Authorization': 'Basic dXNlcjpwYXNz'}", f"{{'Authorization': 'Basic {MARK}'}}"),
        ("[(b'authorization', b'Bearer abcdefgh')]", f"[(b'authorization', b'Bearer {MARK}')]"),
        ("x-api-key: anything-at-all", f"x-api-key: {MARK}"),
        ("Incorrect API key provided: sk-proj-****wxyz.", f"Incorrect API key provided: {MARK}"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text: str, shown: str):
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "GET http://127.0.0.1:8000/v1/jobs?x=a@b",
        "Use Bearer authentication with the key-value store; the task-queue is risk-free.",
        "The database cannot be used now: password authentication failed for user redraft",
        "lease_token=7 input_tokens=12",
        "short",
    ],
)
def test_other_texts_stay_as_they_are(text: str):
    assert redact(text) == text


@given(
    st.recursive(
        SECRETS | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(WORDS | SECRETS, inner)
    )
)
def test_values_are_searched_at_every_depth(value: Any):
    shown = json.dumps(redact_values({"a": (value, b"rd_0123456789")}))
    assert not any(mark in shown for mark in ("rd_", "sk-", "whsec_", KNOWN))


def test_under_the_name_of_a_secret_nothing_is_left():
    values = {"Authorization": "odd", "api_key": ["x"], "openai-api-key": 5, "db_password": "", "input_tokens": 7}
    shown = redact_values(values)
    assert shown == {
        **dict.fromkeys(("Authorization", "api_key", "openai-api-key"), MARK),
        "db_password": "",
        "input_tokens": 7,
    }


def test_an_answer_keeps_what_merely_looks_like_a_key():
    text = f"Set OPENAI_API_KEY=sk-your-key-here, never {KNOWN}."
    assert redact_known(text) == f"Set OPENAI_API_KEY=sk-your-key-here, never {MARK}."
    assert redact_known_values({"a": [text, 1.5, True]}) == {"a": [redact_known(text), 1.5, True]}


def test_a_known_secret_is_found_in_values_whose_json_form_differs():
    secret = 'quo"ted\\ sécret\n'
    remember([secret])
    assert redact_known_values({f"k{secret}": [f"a {secret} b"]}) == {f"k{MARK}": [f"a {MARK} b"]}
    assert redact_known_values({"a": f"{secret} \ud83d"}) == {"a": f"{MARK} \ud83d"}


def test_a_secret_that_is_not_utf8_is_remembered_too():
    secret = "half \udcff of a secret"
    remember([secret])
    assert redact_known_values({"a": [f"<{secret}>"]}) == {"a": [f"<{MARK}>"]}


def test_a_text_without_end_is_read_in_no_time():
    for text in ("a" * 200_000, "a://b:" * 30_000, "authorization " * 20_000, "bearer " * 20_000, "password=" * 20_000):
        redact(text)


def test_no_line_of_the_log_holds_a_secret(capfd: pytest.CaptureFixture[str]):
    for log_format in ("json", "console"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, log_format], capture_output=True, text=True, cwd=ROOT, check=False
        )
        assert (done.returncode, done.stdout) == (1, "nothing here\n")
        assert done.stderr.count("Traceback") == 3
        assert f"last words: {MARK}" in done.stderr
        assert done.stderr.count(MARK) >= 12
        found = [
            secret for secret in ("hunter2@", "rd_", "sk-0", "whsec_", KNOWN, '"hunter2"') if secret in done.stderr
        ]
        assert found == [], done.stderr
