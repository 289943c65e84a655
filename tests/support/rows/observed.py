"""Observations as rows, without the jobs' work."""

from datetime import datetime
from typing import Any

from sqlalchemy import update

from redraft.domain.jobs.ids import new_id
from redraft.storage.admin import observations
from redraft.storage.engine.tables import observations as table
from redraft.storage.engine.unit_of_work import Database


def source(number: int, *, cited: bool | None = False, score: float | None = None, **fields: Any) -> dict[str, Any]:
    """One source as it is stored; its rank is its number."""
    given = 1 - number / 10 if score is None else score
    names = {"chunk_id": f"c{number}", "document_id": None, "title": None, **fields}
    return {"source_number": number, **names, "relevance_score": given, "rank": number, "cited": cited}


def add_observation(
    database: Database,
    job_id: str,
    iteration: int = 1,
    *,
    cited: tuple[bool | None, ...] = (True, False),
    at: datetime | None = None,
    **fields: Any,
) -> str:
    """An observation with as many sources as `cited` tells of; returns its id."""
    values: dict[str, Any] = {
        "id": new_id("observation"),
        "job_id": job_id,
        "iteration": iteration,
        "candidate": 1,
        "query": "Why is the sky blue?",
        "sources": [source(number, cited=each) for number, each in enumerate(cited, 1)],
        "score": 0.9,
        "grounding_score": 1.0,
        "generator_model": "openai:writer",
        "evaluator_model": "openai:judge",
        "profile": "criteria",
        **fields,
    }
    with database.write() as connection:
        observations.add(connection, values)
        if at is not None:
            connection.execute(update(table).where(table.c.id == values["id"]).values(created_at=at))
    return values["id"]
