"""Filters and orders lists of jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from pydantic_core import to_json

from redraft.domain.jobs.states import JobKind, Outcome
from redraft.storage.engine.columns import text_in
from redraft.storage.engine.query_parts import ListPosition, is_after_position, is_between, matches
from redraft.storage.engine.tables import OTHER_KINDS, OUTCOME_GROUP, jobs

_RETURNED = frozenset({Outcome.ACCEPTED, Outcome.NOT_ACCEPTED, Outcome.NOT_EVALUATED})
_CONTINUED = "continued"

# Rows with a pair of metadata that SQLite reads and sorts at once
_RARE_MAX = 2000

Sort = Literal["time", "best", "worst", "cost", "duration"]


@dataclass(frozen=True, slots=True)
class JobFilter:
    """The filter of a list of jobs. `after` is the position of the last row of the previous page.

    `is_continued` narrows `outcomes`; see `split_by_order`. `words` are contained in the task or in the answer. No
    index has the words, because its upkeep would slow down every submission and every end of a job.
    """

    statuses: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    is_continued: bool | None = None
    stop_reason: str | None = None
    kind: str | None = None
    model: str | None = None
    run_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    metadata: Mapping[str, str] | None = None
    id_prefix: str | None = None
    words: tuple[str, ...] = ()
    sort: Sort = "time"
    newest_first: bool = True
    after: ListPosition | None = None
    limit: int = 20

    @property
    def is_narrowed(self) -> bool:
        return replace(self, sort="time", newest_first=True, after=None, limit=20) != JobFilter()


def in_order(query: Any, *, newest_first: bool) -> Any:
    order = (jobs.c.created_at, jobs.c.id)
    return query.order_by(*(column.desc() if newest_first else column.asc() for column in order))


def conditions(connection: sa.Connection, criteria: JobFilter) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if criteria.statuses:
        found.append(jobs.c.status.in_(criteria.statuses))
    if criteria.outcomes:
        found.append(sa.or_(*(_has_outcome(connection, each, criteria) for each in criteria.outcomes)))
    found += matches(jobs, criteria, ("stop_reason", "kind", "model", "run_id"))
    if criteria.kind not in {None, JobKind.GENERATE_ANSWER}:
        # The same text as in the partial index, because SQLite does not use the index for another text
        found.append(sa.text(OTHER_KINDS))  # pyright: ignore[reportArgumentType]
    found += is_between(jobs.c.created_at, criteria.created_after, criteria.created_before)
    found.extend(metadata_conditions(connection, criteria.metadata or {}))
    if criteria.id_prefix:
        # Ids have hexadecimal digits, so all ids with this beginning sort before it with a "g"
        found.append(sa.and_(jobs.c.id >= criteria.id_prefix, jobs.c.id < criteria.id_prefix + "g"))
    found.extend(_has_word(connection, word) for word in criteria.words)
    if criteria.after:
        found.append(is_after_position(jobs, criteria.after, newest_first=criteria.newest_first))
    return found


def split_by_order(criteria: JobFilter) -> list[JobFilter]:
    """Split a filter into filters of one value each of the indexes, because an index gives the order of one value."""
    if criteria.outcomes:
        parts = [(each, kept) for each in dict.fromkeys(criteria.outcomes) for kept in (False, True)]
        found = [(each, kept) for each, kept in parts if not kept or each in _RETURNED]
        return [replace(criteria, outcomes=(each,), is_continued=kept) for each, kept in found]
    return [replace(criteria, statuses=(each,)) for each in dict.fromkeys(criteria.statuses)] or [criteria]


def _has_outcome(connection: sa.Connection, outcome: str, criteria: JobFilter) -> sa.ColumnElement[bool]:
    group = sa.literal_column(f"({OUTCOME_GROUP})", sa.String)
    if criteria.is_continued is False or outcome not in _RETURNED:
        return group == sa.literal(outcome)
    is_accepted = sa.func.coalesce(has_success(connection, jobs), sa.false())
    verdicts = {
        Outcome.ACCEPTED: is_accepted,
        Outcome.NOT_ACCEPTED: sa.and_(~is_accepted, jobs.c.best_score.is_not(None)),
        Outcome.NOT_EVALUATED: sa.and_(~is_accepted, jobs.c.best_score.is_(None)),
    }
    # The CASE keeps the database from reading the results of jobs that were never continued
    has_verdict = sa.case((jobs.c.continuations > 0, verdicts[Outcome(outcome)]), else_=sa.false())
    kept = sa.and_(group == sa.literal(_CONTINUED), has_verdict)
    return kept if criteria.is_continued else sa.or_(group == sa.literal(outcome), kept)


def has_success(connection: sa.Connection, table: sa.FromClause) -> sa.ColumnElement[bool]:
    return sa.cast(text_in(connection, table.c.result, "success"), sa.String).in_(("true", "1"))


def _has_word(connection: sa.Connection, word: str) -> sa.ColumnElement[bool]:
    # The stored text is compared first, because to parse it is slower, and most jobs do not have the word
    written = to_json(word).decode()[1:-1]
    return sa.or_(
        *(
            sa.and_(
                _contains(connection, sa.type_coerce(column, sa.Text), written),
                _contains(connection, text_in(connection, column, name), word),
            )
            for column, name in ((jobs.c.request, "instruct"), (jobs.c.result, "final_answer"))
        )
    )


def _contains(connection: sa.Connection, text: sa.ColumnElement[str], word: str) -> sa.ColumnElement[bool]:
    escaped = word.replace("/", "//").replace("%", "/%").replace("_", "/_")
    # With this collation, PostgreSQL compares several times faster. Like SQLite, it then ignores the case of ASCII only
    text = text if connection.dialect.name == "sqlite" else sa.collate(text, "C")
    return text.ilike(f"%{escaped}%", escape="/")


def metadata_conditions(connection: sa.Connection, wanted: Mapping[str, str]) -> list[sa.ColumnElement[bool]]:
    """Return conditions that a job has all these pairs in its metadata."""
    if not wanted:
        return []
    if connection.dialect.name == "postgresql":
        return [jobs.c.metadata.op("@>")(dict(wanted))]
    each = sa.func.json_each(jobs.c.metadata).table_valued("key", "value")
    exact: list[sa.ColumnElement[bool]] = [
        sa.select(1).select_from(each).where(each.c.key == key, each.c.value == value).exists()
        for key, value in wanted.items()
    ]
    # A scan of the index alone finds the few rows that `json_each` then has to parse. The literal is that of the index
    labelled = jobs.alias("labelled")
    pairs = [to_json({key: value}).decode()[1:-1] for key, value in wanted.items()]

    def has_pairs(table: sa.FromClause) -> list[sa.ColumnElement[bool]]:
        # This search for texts is faster than parsing the JSON. So `exact` parses only the rows that it finds
        return [sa.func.instr(sa.type_coerce(table.c.metadata, sa.Text), pair) > 0 for pair in pairs]

    rare = sa.select(labelled.c.id).where(sa.text("labelled.metadata <> '{}'"), *has_pairs(labelled))
    number = sa.select(sa.func.count()).select_from(rare.limit(_RARE_MAX + 1).subquery())
    # More rows than that are soon found in the order of the list, and would be slow to sort
    is_rare = connection.execute(number).scalar_one() <= _RARE_MAX
    return [jobs.c.id.in_(rare) if is_rare else sa.and_(*has_pairs(jobs)), *exact]
