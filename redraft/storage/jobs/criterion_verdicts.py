"""Reads the verdicts on the criteria of returned answers. This parses JSON texts, so it is for few jobs at a time."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from redraft.domain.evaluation.rubrics import FAULT_ABSENT
from redraft.storage.engine.tables import evaluations, iterations, jobs

_STATEMENT_CHARS = 300


@dataclass(frozen=True, slots=True)
class StatementCount:
    """The counts of one statement of a criterion. Each job can give the criterion its own text or check value."""

    text: str
    judged: int
    not_met: int


@dataclass(frozen=True, slots=True)
class CriterionCount:
    """The numbers of returned answers that have a verdict on a criterion, and that do not meet the criterion.

    `statements` has the counts of each statement, the one that most answers do not meet first.
    """

    id: str
    judged: int
    not_met: int
    statements: tuple[StatementCount, ...]

    @property
    def text(self) -> str:
        """The statement that most answers do not meet."""
        return self.statements[0].text


def count_verdicts(connection: sa.Connection, job_ids: Sequence[str]) -> list[CriterionCount]:
    """Return the counts of each criterion over these jobs, the largest share of answers that do not meet it first."""
    has_answer = sa.and_(jobs.c.id.in_(job_ids), jobs.c.status == "succeeded")
    verdicts = sa.select(_returned_verdict().label("criteria")).where(has_answer).subquery("verdicts")
    each = _Elements(connection, verdicts.c.criteria)
    name, statement, number = each.id.label("id"), each.statement.label("statement"), sa.func.count()
    query = (
        sa.select(name, statement, number.label("judged"), number.filter(each.is_not_met).label("not_met"))
        .select_from(verdicts.join(each.table, sa.true()))
        .where(each.is_judged)
        .group_by(name, statement)
    )
    found: defaultdict[str, list[StatementCount]] = defaultdict(list)
    for criterion_id, text, judged, not_met in connection.execute(query):
        found[criterion_id].append(StatementCount(text, judged, not_met))
    return sorted((_sum(*pair) for pair in found.items()), key=_order)


def _order(each: CriterionCount) -> tuple[float, int, int, str]:
    return -each.not_met / each.judged, -each.not_met, -each.judged, each.id


def count_judged(connection: sa.Connection, job_ids: Sequence[str]) -> int:
    """Return how many of these jobs have a verdict on a criterion of their returned answer."""
    each = _Elements(connection, _returned_verdict())
    has_verdict = sa.select(1).select_from(each.table).where(each.is_judged).exists()
    query = sa.select(sa.func.count()).where(jobs.c.id.in_(job_ids), jobs.c.status == "succeeded", has_verdict)
    return connection.scalar(query) or 0


def _sum(criterion_id: str, statements: Sequence[StatementCount]) -> CriterionCount:
    judged, not_met = sum(each.judged for each in statements), sum(each.not_met for each in statements)
    ordered = sorted(statements, key=lambda each: (-each.not_met, -each.judged, each.text))
    return CriterionCount(criterion_id, judged, not_met, tuple(ordered))


def does_not_meet(connection: sa.Connection, criterion_id: str) -> sa.ColumnElement[bool]:
    """Return a condition that the returned answer of a job does not meet a criterion."""
    each = _Elements(connection, _returned_verdict())
    found = sa.select(1).select_from(each.table).where(each.id == criterion_id, each.is_not_met).exists()
    return sa.and_(jobs.c.status == "succeeded", found)


def _returned_verdict() -> sa.ScalarSelect[Any]:
    """Return the criteria of the best candidate's verdict. `best_of` in `domain/loop/attempts.py` has the rule."""
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
        self.id = sa.type_coerce(self._text("id"), sa.Text)
        text = sa.func.coalesce(sa.func.nullif(self._text("text"), ""), self.id)
        is_fault = sa.cast(self._text("weight"), sa.Float) < 0
        statement = sa.case((is_fault, sa.literal(FAULT_ABSENT) + text), else_=text)
        self.statement = sa.func.substr(statement, 1, sa.literal_column(str(_STATEMENT_CHARS)), type_=sa.Text)
        self.is_judged = self._text("passed").is_not(None)
        self.is_not_met = sa.cast(self._text("passed"), sa.Text).in_(("false", "0"))

    def _text(self, name: str) -> sa.ColumnElement[str]:
        if self._is_postgresql:
            return self.table.c.value.op("->>")(sa.literal_column(f"'{name}'"))
        return sa.func.json_extract(self.table.c.value, sa.literal_column(f"'$.{name}'"), type_=sa.Text)
