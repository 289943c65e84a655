"""Reads the verdicts on the criteria of returned answers. This parses JSON texts, so it is for few jobs at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from redraft.domain.evaluation.rubrics import FAULT_ABSENT, STATEMENT_CHARS
from redraft.storage.engine.tables import evaluations, iterations, jobs


@dataclass(frozen=True, slots=True)
class CriterionCount:
    """The numbers of returned answers that have a verdict on a criterion, and that do not meet the criterion."""

    statement: str
    judged: int
    not_met: int

    @property
    def met_percent(self) -> int:
        """The percentage of answers that meet the criterion, rounded down, so that 99.9 % does not show as 100 %."""
        return 100 * (self.judged - self.not_met) // self.judged


def count_verdicts(connection: sa.Connection, job_ids: Sequence[str]) -> list[CriterionCount]:
    """Return the counts of each criterion over these jobs, the criterion that most answers do not meet first."""
    has_answer = sa.and_(jobs.c.id.in_(job_ids), jobs.c.status == "succeeded")
    verdicts = sa.select(_returned_verdict().label("criteria")).where(has_answer).subquery("verdicts")
    each = _Elements(connection, verdicts.c.criteria)
    statement, number = each.statement.label("statement"), sa.func.count()
    query = (
        sa.select(statement, number.label("judged"), number.filter(each.is_not_met).label("not_met"))
        .select_from(verdicts.join(each.table, sa.true()))
        .where(each.is_judged)
        .group_by(statement)
    )
    found = [CriterionCount(*row) for row in connection.execute(query)]
    return sorted(found, key=lambda each: (-each.not_met, -each.judged, each.statement))


def does_not_meet(connection: sa.Connection, statement: str) -> sa.ColumnElement[bool]:
    """Return a condition that the returned answer of a job does not meet a criterion."""
    each = _Elements(connection, _returned_verdict())
    is_same = each.statement == statement[:STATEMENT_CHARS]
    found = sa.select(1).select_from(each.table).where(is_same, each.is_not_met).exists()
    return sa.and_(jobs.c.status == "succeeded", found)


def _returned_verdict() -> sa.ScalarSelect[Any]:
    """Return the criteria of the verdict on the best candidate, as `redraft.domain.jobs.loop.best_of` chooses it."""
    is_returned = sa.and_(iterations.c.job_id == jobs.c.id, iterations.c.number == jobs.c.best_iteration)
    return (
        sa.select(sa.type_coerce(evaluations.c.criteria, sa.Text))
        .select_from(iterations.join(evaluations, evaluations.c.iteration_id == iterations.c.id))
        .where(is_returned, evaluations.c.role == "loop", evaluations.c.score.is_not(None))
        .where(evaluations.c.criteria.is_not(None))
        .order_by(evaluations.c.requirements_met.is_(False), evaluations.c.score.desc(), iterations.c.candidate)
        .limit(1)
        .correlate(jobs)
        .scalar_subquery()
    )


class _Elements:
    """The results of criteria in a JSON list, as rows."""

    def __init__(self, connection: sa.Connection, criteria: sa.ColumnElement[str]) -> None:
        self._is_postgresql = connection.dialect.name == "postgresql"
        if self._is_postgresql:
            function = sa.func.json_array_elements(sa.cast(criteria, sa.JSON))
        else:
            function = sa.func.json_each(criteria)
        self.table = function.table_valued("value", name="each")
        text = sa.func.coalesce(sa.func.nullif(self._text("text"), ""), self._text("id"))
        is_fault = sa.cast(self._text("weight"), sa.Float) < 0
        statement = sa.case((is_fault, sa.literal(FAULT_ABSENT) + text), else_=text)
        self.statement = sa.func.substr(statement, 1, sa.literal_column(str(STATEMENT_CHARS)), type_=sa.Text)
        self.is_judged = self._text("passed").is_not(None)
        self.is_not_met = sa.cast(self._text("passed"), sa.Text).in_(("false", "0"))

    def _text(self, name: str) -> sa.ColumnElement[str]:
        if self._is_postgresql:
            return self.table.c.value.op("->>")(sa.literal_column(f"'{name}'"))
        return sa.func.json_extract(self.table.c.value, sa.literal_column(f"'$.{name}'"), type_=sa.Text)
