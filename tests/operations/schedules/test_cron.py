"""Cron words: the times that they name, in UTC, and clear errors for bad ones."""

from datetime import UTC, datetime

import pytest

from redraft.errors import Invalid
from redraft.operations.schedules.cron import parse_cron

# A Monday
NOW = datetime(2026, 11, 30, 6, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "following"),
    [
        ("* * * * *", "2026-11-30 06:01"),
        ("*/15 * * * *", "2026-11-30 06:15"),
        ("0 6 * * *", "2026-12-01 06:00"),
        ("0 6 * * mon-fri", "2026-12-01 06:00"),
        ("30 5 * * 0", "2026-12-06 05:30"),
        ("0 0 1 1 *", "2027-01-01 00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        # Either day, as in cron
        ("0 0 13 * fri", "2026-12-04 00:00"),
    ],
)
def test_the_next_time(words: str, following: str):
    assert f"{parse_cron(words, NOW).next_after(NOW):%Y-%m-%d %H:%M}" == following


@pytest.mark.parametrize(
    ("words", "last"),
    [("* * * * *", "2026-11-30 06:00"), ("30 5 * * 0", "2026-11-29 05:30"), ("0 6 1 * *", "2026-11-01 06:00")],
)
def test_the_latest_time(words: str, last: str):
    assert f"{parse_cron(words, NOW).latest_until(NOW):%Y-%m-%d %H:%M}" == last


def test_a_time_is_the_latest_at_itself_and_not_the_next():
    cron, at = parse_cron("0 6 * * *", NOW), datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
    assert cron.latest_until(at) == at
    assert cron.next_after(at) == datetime(2026, 12, 1, 6, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("0 6 * *", "it has 4 fields instead of five: minute, hour, day of the month, month, day of the week"),
        ("@daily", "it has 1 fields instead of five"),
        ("60 6 * * *", "the minute, '60', cannot be read"),
        ("0 6 * * someday", "the day of the week, 'someday', cannot be read"),
        ("0 */0 * * *", "the hour, '*/0', cannot be read"),
        ("0 6 0 * *", "the day of the month, '0', cannot be read"),
        ("0 0 30 2 *", "no date has this day and this month"),
    ],
)
def test_bad_words_are_refused_with_the_reason(words: str, said: str):
    with pytest.raises(Invalid) as refused:
        parse_cron(words, NOW)
    assert said in refused.value.message
    assert (refused.value.errors[0].pointer, refused.value.errors[0].code) == ("/cron", "invalid_cron")
