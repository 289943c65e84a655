"""The wait of a step before its next attempt."""

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.calls.backoff import read_retry_after, retry_wait_s

ATTEMPTS = st.integers(1, 10_000)
SEEDS = st.integers().map(random.Random)
SECONDS = st.floats(0.001, 1000)


@given(attempt=ATTEMPTS, first_s=SECONDS, max_s=SECONDS, rng=SEEDS)
def test_waits_are_positive_and_capped(attempt, first_s, max_s, rng):
    assert 0 < retry_wait_s(attempt, first_s=first_s, max_s=max_s, rng=rng) <= max_s


@given(attempt=ATTEMPTS, rng=SEEDS)
def test_waits_lie_between_half_and_the_whole_of_the_doubled_wait(attempt, rng):
    whole = min(60.0, 2.0 ** min(attempt - 1, 10))
    assert whole / 2 <= retry_wait_s(attempt, first_s=1, max_s=60, rng=rng) <= whole


@given(attempt=ATTEMPTS, asked_s=st.floats(0, 1e6), rng=SEEDS)
def test_a_wait_is_never_shorter_than_what_the_provider_asked_for(attempt, asked_s, rng):
    waited = retry_wait_s(attempt, first_s=1, max_s=60, asked_s=asked_s, rng=rng)
    assert asked_s <= waited <= max(60.0, asked_s)


def test_two_waits_after_the_same_failure_differ():
    rng = random.Random(7)
    assert len({retry_wait_s(3, first_s=1, max_s=60, rng=rng) for _ in range(20)}) == 20


def test_without_a_seed_the_system_rolls_the_dice():
    assert 0.5 <= retry_wait_s(1, first_s=1, max_s=60) <= 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("120", 120),
        ("0", 0),
        ("-5", None),
        ("Thu, 01 Jan 2026 00:02:00 GMT", 120),
        ("Thu, 01 Jan 2026 00:02:00 -0000", 120),
        ("Wed, 31 Dec 2025 00:00:00 GMT", 0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("Thu, 99 Jan 2026 00:02:00 GMT", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(text: str | None, seconds: float | None):
    assert read_retry_after(text, datetime(2026, 1, 1, tzinfo=UTC)) == seconds
