"""Reads texts of a few chosen items of a run: their questions, and the answers of chosen iterations."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, func, select, tuple_

from redraft.storage.engine.bulk_tables import run_items
from redraft.storage.engine.columns import text_in
from redraft.storage.engine.query_parts import fetch_all
from redraft.storage.engine.tables import evaluations, iterations, jobs


def list_questions(connection: Connection, run_id: str, numbers: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Return the job's id and the question of these items, by item number."""
    query = (
        select(run_items.c.number, jobs.c.id, text_in(connection, jobs.c.request, "instruct"))
        .join_from(run_items, jobs, jobs.c.id == run_items.c.job_id)
        .where(run_items.c.run_id == run_id, run_items.c.number.in_(numbers))
    )
    return {number: (job_id, question or "") for number, job_id, question in connection.execute(query)}


def list_attempts(
    connection: Connection, run_id: str, wanted: Sequence[tuple[int, int]], answer_chars: int
) -> Mapping[tuple[int, int], Sequence[Mapping[str, Any]]]:
    """Return the evaluated candidates by (item, iteration), each with its verdict and the beginning of its answer."""
    in_loop = and_(evaluations.c.iteration_id == iterations.c.id, evaluations.c.role == "loop")
    verdict = ("score", "passed", "requirements_met", "reasoning", "suggestions", "criteria")
    answer = iterations.c.answer
    query = (
        select(
            run_items.c.number.label("item"),
            iterations.c.number,
            func.substr(answer, 1, answer_chars).label("answer"),
            func.length(answer).label("length"),
            *(evaluations.c[name] for name in verdict),
        )
        .join_from(run_items, iterations, iterations.c.job_id == run_items.c.job_id)
        .join(evaluations, in_loop)
        .where(run_items.c.run_id == run_id, tuple_(run_items.c.number, iterations.c.number).in_(wanted))
        .where(evaluations.c.score.is_not(None))
        .order_by(run_items.c.number, iterations.c.number, iterations.c.candidate)
    )
    found: defaultdict[tuple[int, int], list[Mapping[str, Any]]] = defaultdict(list)
    for row in fetch_all(connection, query):
        found[row["item"], row["number"]].append(row)
    return found
