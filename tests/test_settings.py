"""Settings that cannot work are refused when they are read."""

import pytest
from pydantic import ValidationError

from redraft.settings import Settings


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lease_s": 20.0}, r"REDRAFT_LEASE_S \(20 s\) must be at least 3 times REDRAFT_HEARTBEAT_S \(8 s\)"),
        ({"sweep_s": 31.0}, "at least 1 times REDRAFT_SWEEP_S"),
        ({"deaf_after_s": 0.1}, "greater than or equal to 5"),
        ({"deaf_after_s": float("inf")}, "finite"),
        ({"shutdown_grace_s": float("inf")}, "finite"),
        ({"lease_s": float("nan")}, "finite|greater"),
    ],
)
def test_timers_that_cannot_work_are_refused(changes: dict[str, float], words: str):
    with pytest.raises(ValidationError, match=words):
        Settings(_env_file=None, **changes)  # pyright: ignore[reportCallIssue]


def test_the_defaults_fit():
    assert Settings(_env_file=None).lease_s == 30.0  # pyright: ignore[reportCallIssue]
