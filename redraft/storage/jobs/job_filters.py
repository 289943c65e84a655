"""Filters and orders lists of jobs."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
from pydantic_core import to_json

from redraft.domain.jobs.states import JobKind, Outcome
from redraft.storage.engine import postgresql
from redraft.storage.engine.columns import text_in
from redraft.storage.engine.query_parts import ListPosition, is_after_position, is_between, matches
from redraft.storage.engine.tables import OTHER_KINDS, OUTCOME_GROUP, job_labels, jobs
from redraft.storage.jobs.criterion_verdicts import does_not_meet

_RETURNED = frozenset({Outcome.ACCEPTED, Outcome.NOT_ACCEPTED, Outcome.NOT_EVALUATED})
_CONTINUED = "continued"

# After this number of jobs with a label, the search goes on in the order of another index
_LABELLED_AT_ONCE = 2000
_MILLISECOND = timedelta(milliseconds=1)

Sort = Literal["time", "best", "worst", "cost", "duration"]


@dataclass(frozen=True, slots=True)
class JobFilter:
    """The filter of a list of jobs. `after` is the position of the last row of the previous page.

    `is_continued` narrows `outcomes`; see `split_by_order`. `words` must be in the task or in the answer. `not_met` is
    the id of a criterion that the answer does not meet. No index has these two, because its updates would slow
    down every submission and every end of a job.
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
    is_scored: bool = False
    id_prefix: str | None = None
    words: tuple[str, ...] = ()
    not_met: str | None = None
    sort: Sort = "time"
    newest_first: bool = True
    after: ListPosition | None = None
    limit: int = 20

    @property
    def is_narrowed(self) -> bool:
        return replace(self, sort="time", newest_first=True, after=None, limit=20) != JobFilter()

    @property
    def is_searched(self) -> bool:
        """Whether jobs have to be read one after another to find those that match."""
        return bool(self.words) or self.not_met is not None

    @property
    def has_only_labels(self) -> bool:
        """Whether the table of labels has all that the filter needs."""
        others = replace(self, metadata=None, created_after=None, created_before=None)
        return bool(self.metadata) and not others.is_narrowed


def in_order(query: Any, *, newest_first: bool, table: sa.Table = jobs) -> Any:
    order = (table.c.created_at, table.c.id)
    return query.order_by(*(column.desc() if newest_first else column.asc() for column in order))


def conditions(connection: sa.Connection, criteria: JobFilter) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if criteria.statuses:
        found.append(jobs.c.status.in_(criteria.statuses))
    if criteria.outcomes:
        found.append(sa.or_(*(_has_outcome(connection, each, criteria) for each in criteria.outcomes)))
    found += matches(jobs, criteria, ("stop_reason", "kind", "model", "run_id"))
    if criteria.kind not in {None, JobKind.GENERATE_ANSWER}:
        found.append(_literal(OTHER_KINDS))
    if criteria.is_scored:
        found.append(jobs.c.best_score.is_not(None))
    found.extend(metadata_conditions(connection, criteria.metadata or {}))
    if criteria.id_prefix:
        # Ids have hexadecimal digits, so each id with this beginning sorts before the beginning followed by "g"
        found.append(sa.and_(jobs.c.id >= criteria.id_prefix, jobs.c.id < criteria.id_prefix + "g"))
    found.extend(_has_word(connection, word) for word in criteria.words)
    if criteria.not_met is not None:
        found.append(does_not_meet(connection, criteria.not_met))
    return [*found, *_has_position(jobs, criteria)]


def _has_position(table: sa.Table, criteria: JobFilter) -> list[sa.ColumnElement[bool]]:
    found = is_between(table.c.created_at, criteria.created_after, criteria.created_before)
    if criteria.after:
        found.append(is_after_position(table, criteria.after, newest_first=criteria.newest_first))
    return found


def positions(connection: sa.Connection, criteria: JobFilter, *, extra: int = 0) -> list[ListPosition]:
    """Return the positions of the jobs of a page, and of `extra` further jobs."""
    limit = criteria.limit + extra
    if not criteria.metadata:
        return _positions_of_jobs(connection, criteria, limit)
    if criteria.has_only_labels and len(criteria.metadata) == 1:
        return _fetch_positions(connection, _select_label(criteria, *criteria.metadata).limit(limit))
    criteria = _from_first_job(connection, criteria)
    key, ends = _rarest_label(connection, criteria)
    labelled = _select_labelled(connection, criteria, key).limit(limit)
    if criteria.has_only_labels or len(ends) < 2:
        return _fetch_positions(connection, labelled)
    # Most pages are full of these jobs. If few of them match the rest of the filter, an index of the rest is faster
    last, following = ends
    is_near = is_after_position(job_labels, following, newest_first=not criteria.newest_first)
    found = _fetch_positions(connection, labelled.where(is_near))
    return found + _positions_of_jobs(connection, replace(criteria, after=last), limit - len(found))


def matching(connection: sa.Connection, criteria: JobFilter) -> sa.Select[Any]:
    """Return a query for the ids of the jobs that match a filter, in any order."""
    labels = criteria.metadata or {}
    labelled = [_select_label(criteria, key).with_only_columns(job_labels.c.id).order_by(None) for key in labels]
    if criteria.has_only_labels and len(labelled) == 1:
        return labelled[0]
    if connection.dialect.name == "postgresql":
        return sa.select(jobs.c.id).where(*conditions(connection, criteria))
    # SQLite has no index on the labels in `jobs`
    wanted = conditions(connection, replace(criteria, metadata=None))
    return sa.select(jobs.c.id).where(*wanted, *(jobs.c.id.in_(each) for each in labelled))


def _positions_of_jobs(connection: sa.Connection, criteria: JobFilter, limit: int) -> list[ListPosition]:
    if not limit:
        return []
    found: list[ListPosition] = []
    # The best plan depends on the number of jobs with the labels, which a generic plan does not know
    needs_own_plans = criteria.metadata and connection.dialect.name == "postgresql"
    with postgresql.unprepared(connection) if needs_own_plans else nullcontext():
        for part in split_by_order(criteria):
            query = sa.select(jobs.c.created_at, jobs.c.id).where(*conditions(connection, part))
            found += _fetch_positions(connection, in_order(query, newest_first=criteria.newest_first).limit(limit))
    return sorted(found, reverse=criteria.newest_first)[:limit]


def _fetch_positions(connection: sa.Connection, query: Any) -> list[ListPosition]:
    return [(row.created_at, row.id) for row in connection.execute(query)]


def _select_label(criteria: JobFilter, key: str) -> sa.Select[Any]:
    """Return a query for the positions of the jobs with the label `key`, with any other labels, in order."""
    is_labelled = (job_labels.c.key == key, job_labels.c.value == (criteria.metadata or {})[key])
    query = sa.select(job_labels.c.created_at, job_labels.c.id).where(
        *is_labelled, *_has_position(job_labels, criteria)
    )
    return in_order(query, newest_first=criteria.newest_first, table=job_labels)


def _select_labelled(connection: sa.Connection, criteria: JobFilter, key: str) -> sa.Select[Any]:
    """Return a query for the positions of the matching jobs, which tests the jobs with the label `key` in order."""
    query = _select_label(criteria, key)
    others = {name: value for name, value in (criteria.metadata or {}).items() if name != key}
    rest = replace(criteria, metadata=others, created_after=None, created_before=None, after=None)
    wanted = conditions(connection, rest)
    return query.where(sa.select(1).where(jobs.c.id == job_labels.c.id, *wanted).exists()) if wanted else query


def _from_first_job(connection: sa.Connection, criteria: JobFilter) -> JobFilter:
    """Return the filter from the first job on that can have all labels."""
    for key in criteria.metadata or {}:
        for first, _ in _fetch_positions(connection, _select_label(criteria, key).limit(1)):
            before, after = criteria.created_before, criteria.created_after
            if criteria.newest_first:
                before = min(filter(None, (before, first + _MILLISECOND)))
            else:
                after = max(filter(None, (after, first - _MILLISECOND)))
            criteria = replace(criteria, created_before=before, created_after=after)
    return criteria


def _rarest_label(connection: sa.Connection, criteria: JobFilter) -> tuple[str, list[ListPosition]]:
    """Return the key of the label that is probably the rarest. Only `_LABELLED_AT_ONCE` jobs of each label are read.

    Also returns the position of the last one of these jobs, and of the next job if there is one.
    """
    ends: dict[str, list[ListPosition]] = {}
    for key in criteria.metadata or {}:
        ends[key] = _fetch_positions(connection, _select_label(criteria, key).offset(_LABELLED_AT_ONCE - 1).limit(2))
        if len(ends[key]) < 2:
            return key, ends[key]
    key = (min if criteria.newest_first else max)(ends, key=lambda each: ends[each])
    return key, ends[key]


def split_by_order(criteria: JobFilter) -> list[JobFilter]:
    """Split a filter into filters with one indexed value each: an index has the rows of only one value in order."""
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
    # The stored text is compared first, because parsing it is slower, and most jobs do not have the word
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
    return [*_has_pairs(wanted), *_has_exactly(wanted)]


def _literal(condition: str) -> sa.ColumnElement[bool]:
    """Return the condition of a partial index in its exact text, because SQLite ignores the index for other texts."""
    return sa.text(condition)  # pyright: ignore[reportReturnType]


def _has_pairs(wanted: Mapping[str, str]) -> list[sa.ColumnElement[bool]]:
    # On SQLite, this search for texts is faster than parsing the JSON. So `_has_exactly` parses only few rows
    pairs = [to_json({key: value}).decode()[1:-1] for key, value in wanted.items()]
    return [sa.func.instr(sa.type_coerce(jobs.c.metadata, sa.Text), pair) > 0 for pair in pairs]


def _has_exactly(wanted: Mapping[str, str]) -> list[sa.ColumnElement[bool]]:
    each = sa.func.json_each(jobs.c.metadata).table_valued("key", "value")
    return [
        sa.select(1).select_from(each).where(each.c.key == key, each.c.value == value).exists()
        for key, value in wanted.items()
    ]
