"""Finds a job, a run or a dataset by its id, by a unique beginning of its id, by a unique name, or by `latest`."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, Table

from redraft.errors import Conflict, NotFound
from redraft.operations.services import Services
from redraft.storage.engine import query_parts
from redraft.storage.engine.bulk_tables import datasets, runs
from redraft.storage.engine.tables import jobs as jobs_table
from redraft.storage.jobs import jobs
from redraft.storage.jobs.job_filters import JobFilter

_WHOLE_ID = re.compile(r"[a-z]+_[0-9a-f]{32}")


def _jobs_with_name(connection: Connection, _table: Table, name: str) -> list[str]:
    # The name of a job is in its metadata, since jobs have no column for it
    return [job.id for job in jobs.list_page(connection, JobFilter(metadata={"name": name}, limit=2))]


def _ids_with_name(connection: Connection, table: Table, name: str) -> list[str]:
    return query_parts.ids_where(connection, table, table.c.name == name)


@dataclass(frozen=True, slots=True)
class _Noun:
    word: str
    prefix: str
    table: Table
    ids_with_name: Callable[[Connection, Table, str], list[str]]


def _find(noun: _Noun, services: Services, text: str) -> str:
    """The id of a job, run or dataset.

    Raises NotFound if nothing matches, and Conflict if several match (code `ambiguous_id`).
    """
    text = text.strip()
    with services.database.read() as connection:
        found, kind = _candidates(connection, noun, text)
    if not found:
        raise NotFound(noun.word, text)
    if len(found) > 1:
        listed = ", ".join([*found[:2], *(["…"] if found[2:] else [])])
        words = {
            "id": f"{text!r} begins the ids of several {noun.word}s; write more of the id.",
            "name": f"Several {noun.word}s are named {text!r}; use an id: {listed}",
        }
        raise Conflict(words[kind], code="ambiguous_id")
    return found[0]


def _candidates(connection: Connection, noun: _Noun, text: str) -> tuple[list[str], str]:
    """The matching ids, and whether they match by `id` or by `name`."""
    if text == "latest":
        newest = query_parts.latest_id(connection, noun.table)
        return ([newest] if newest else []), "id"
    if not text:
        return [], "id"
    if _WHOLE_ID.fullmatch(text):
        # A condition of equality uses the index in both databases, a condition on a prefix not always
        return query_parts.ids_where(connection, noun.table, noun.table.c.id == text), "id"
    beginning = text if text.startswith(noun.prefix) else noun.prefix + text
    begins_so = noun.table.c.id.startswith(beginning, autoescape=True)
    found = query_parts.ids_where(connection, noun.table, begins_so) if text.isascii() else []
    if found:
        return found, "id"
    return noun.ids_with_name(connection, noun.table, text), "name"


find_job_id = partial(_find, _Noun("job", "job_", jobs_table, _jobs_with_name))
find_run_id = partial(_find, _Noun("run", "run_", runs, _ids_with_name))
find_dataset_id = partial(_find, _Noun("dataset", "ds_", datasets, _ids_with_name))
