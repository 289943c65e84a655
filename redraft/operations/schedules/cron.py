"""Reads cron words, and computes the times that they name. All times are in UTC.

If the day of the month and the day of the week are both restricted, a day must match only one of them, as in cron.
Celery parses the fields, but its own schedules require that a day matches both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from celery.schedules import ParseException, crontab_parser

from redraft.errors import Invalid

# Name, number of values, first value
_FIELDS = (("minute", 60, 0), ("hour", 24, 0), ("day of the month", 31, 1), ("month", 12, 1), ("day of the week", 7, 0))
# The next 29 February can be eight years away, as from 1896 to 1904
_DAYS_MAX = 366 * 8


@dataclass(frozen=True, slots=True)
class Cron:
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    def next_after(self, at: datetime) -> datetime | None:
        """Return the first time after `at`. None if no such time exists, as for 30 February."""
        return next((tick for tick in self._ticks(at.date(), 1) if tick > at), None)

    def latest_until(self, at: datetime) -> datetime | None:
        """Return the last time that is not after `at`."""
        return next((tick for tick in self._ticks(at.date(), -1) if tick <= at), None)

    def _ticks(self, first: date, step: int) -> Iterator[datetime]:
        """Yield the times from the first day on, forwards (`step` 1) or backwards (-1)."""
        for offset in range(_DAYS_MAX):
            day = first + timedelta(days=step * offset)
            if day.month in self.months and self._is_on(day):
                yield from (
                    datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)
                    for hour in self.hours[::step]
                    for minute in self.minutes[::step]
                )

    def _is_on(self, day: date) -> bool:
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        are_both_restricted = len(self.days) < 31 and len(self.weekdays) < 7
        return in_month or in_week if are_both_restricted else in_month and in_week


def parse_cron(words: str, now: datetime) -> Cron:
    """Read five fields. Raises Invalid (code `invalid_cron`) if they are not valid, or name no time after `now`."""
    fields = words.split()
    if len(fields) != len(_FIELDS):
        names = ", ".join(name for name, _, _ in _FIELDS)
        raise _invalid(words, f"it has {len(fields)} fields instead of five: {names}, as in 0 6 * * mon-fri")
    values = [_values(words, field, *known) for field, known in zip(fields, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = values
    cron = Cron(tuple(sorted(minutes)), tuple(sorted(hours)), frozenset(days), frozenset(months), frozenset(weekdays))
    if cron.next_after(now) is None:
        raise _invalid(words, "no date has this day and this month")
    return cron


def _values(words: str, field: str, name: str, count: int, first: int) -> set[int]:
    try:
        return crontab_parser(count, first).parse(field)
    except (ParseException, ValueError, TypeError) as error:
        raise _invalid(words, f"the {name}, {field!r}, cannot be read: {error}") from error


def _invalid(words: str, reason: str) -> Invalid:
    return Invalid.at("/cron", f"The cron words {words!r} are not valid: {reason}.", "invalid_cron")
