"""The command line shows what a person asked of a continuation."""

from datetime import UTC, datetime
from typing import Any

from redraft.cli.views.live import lines_of
from redraft.operations.jobs.resources import Event


def event(kind: str, **data: Any) -> Event:
    return Event(seq=1, type=kind, data={"message": "The job goes on.", "at": datetime.now(UTC).isoformat(), **data})


def test_a_continuation_is_shown_with_its_guidance():
    assert lines_of(event("job.continued", guidance="NAME THE\nSOURCES"), 0.8) == [
        ("The job goes on.", "dim"),
        ("  guidance: NAME THE SOURCES", ""),
    ]


def test_a_cut_answer_is_told_as_not_evaluated():
    error = {"detail": "The reply was cut off.", "code": "output_truncated", "output_limit": 50}
    ((words, _),) = lines_of(event("iteration.evaluated", score=None, error=error), 0.8)
    assert words == "  not evaluated: cut off at the output limit"
