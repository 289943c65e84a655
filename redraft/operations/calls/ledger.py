"""Records the outcomes of calls in the ledger, together with the result of their step, or one by one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from redraft.domain.calls.finish_reasons import Finish, classify_finish
from redraft.operations.calls.model_calls import Outcome, storable_reason
from redraft.storage.engine.statements import Change
from redraft.storage.jobs import calls, transitions

RECORD_REPLY_S = 3600.0
"""The time for which a thread tries to store a reply if the database fails, because the reply is already paid."""


def sum_usage(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Sum the usage of calls, by the usage columns of a job."""
    total: dict[str, int] = {}
    for outcome in outcomes:
        for name, amount in (outcome.usage or {}).items():
            total[name] = total.get(name, 0) + amount
    return total


def unstored_usage(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Sum the usage that the job's row does not include yet."""
    return sum_usage([outcome for outcome in outcomes if outcome.row_update])


def close_calls(connection: Connection, outcomes: Sequence[Outcome]) -> list[calls.ClosedCall]:
    """Close the open calls in the ledger with their outcomes."""
    found = [calls.close(connection, *each) for each in _open_calls(outcomes)]
    return [closed for closed in found if closed]


def close_changes(outcomes: Sequence[Outcome]) -> list[Change]:
    """Return the changes that `close_calls` makes, for a combined statement."""
    return [calls.close_change(*each, number=number) for number, each in enumerate(_open_calls(outcomes))]


def _open_calls(outcomes: Sequence[Outcome]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(o.call_id, o.row_update) for o in outcomes if o.call_id and o.row_update]


def record_outcomes(connection: Connection, job_id: str, outcomes: Sequence[Outcome]) -> list[calls.ClosedCall]:
    """Close calls and add their usage to the job. This needs no lease."""
    # Jobs are locked before calls, as in all units of work, because another order can cause a deadlock
    transitions.lock(connection, [job_id])
    closed = close_calls(connection, outcomes)
    if closed:
        transitions.add_usage(connection, job_id, unstored_usage(outcomes))
        # A call that counted as lost has an outcome now, so the usage that was counted for it is subtracted
        counted = calls.lost_usage(each.is_free for each in closed if each.was_lost)
        transitions.add_usage(connection, job_id, {name: -amount for name, amount in counted.items()})
    return closed


def stored(outcome: Outcome, closed: Sequence[calls.ClosedCall] = ()) -> Outcome:
    """Return the outcome as it is after its row was closed."""
    return replace(outcome, row_update=None, came_second=any(each.status == "dup" for each in closed))


def unclear_ends(outcomes: Iterable[Outcome]) -> list[dict[str, str]]:
    """Return warnings about used replies whose finish reason does not show that they are complete."""
    return [
        {"code": "finish_reason_unknown", "message": _unclear_end(model, reason)}
        for model, reason in dict.fromkeys(
            (outcome.model, storable_reason(outcome.finish_reason))
            for outcome in outcomes
            if outcome.text is not None and classify_finish(outcome.finish_reason) is Finish.UNKNOWN
        )
    ]


def _unclear_end(model: str, reason: str | None) -> str:
    ended = (
        f"ended a reply with the finish reason {reason!r}, which is not known" if reason else "gave no finish reason"
    )
    return f"{model} {ended}: the reply may not be whole."
