from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.bodies.time_parsing import read_time

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-01T12:00:00Z",
        "2026-11-01t12:00z",
        "2026-11-01T12:00",
        "2026-11-01 12:00:00.000",
        "2026-11-01T14:00:00+02:00",
        "2026-11-01T14:00:00 02:00",
        "2026-11-01T14:00:00+0200",
        "2026-11-01T07:00:00-05:00",
    ],
)
def test_one_moment_has_many_spellings(text: str):
    assert read_time(text) == NOON


def test_a_date_is_its_first_moment():
    assert read_time("2026-11-01") == datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "2026-02-30", "1767225600", "2026-11-01T25:00Z"])
def test_a_text_that_is_no_time_is_refused_with_an_example(text: str):
    with pytest.raises(ValueError, match=r"2026-11-01T08:30:00\+02:00"):
        read_time(text)


@given(st.datetimes())
def test_every_time_is_read_or_clamped(moment: datetime):
    read = read_time(moment.isoformat() + "Z")
    assert 1970 <= read.year <= 9998


@pytest.mark.parametrize(("text", "year"), [("0001-01-01T00:00:00+14:00", 1970), ("9999-12-31T23:59:60-12:00", 9998)])
def test_moments_that_no_database_compares_become_the_nearest_one(text: str, year: int):
    assert read_time(text).year == year
