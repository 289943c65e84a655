"""Lists of jobs are read in the order of an index: EXPLAIN says so on both databases."""

import re

import pytest
from sqlalchemy import text

from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import job_lists
from redraft.storage.jobs.job_filters import JobFilter, Sort, positions
from tests.storage.engine.conftest import NOW, SORTS
from tests.support.databases.plans import explained

pytestmark = pytest.mark.both_databases


def test_few_jobs_of_a_kind_are_not_looked_for_among_all(full: Database):
    with full.write() as connection, explained(connection) as plans:
        for kind in ("evaluate_answer", "rescore_answers"):
            job_lists.page(connection, JobFilter(kind=kind))
            positions(connection, JobFilter(kind=kind, after=(NOW, "job_1"), newest_first=False))
    assert [plan for plan in plans if "ix_jobs_other_kinds" not in plan] == []
    assert len(plans) == 4


def test_jobs_of_an_outcome_are_found_in_its_index(full: Database):
    outcomes = ("failed", "not_accepted", "not_evaluated")
    with full.write() as connection:
        if not full.is_sqlite:
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        with explained(connection) as plans:
            job_lists.page(connection, JobFilter(outcomes=outcomes))
            positions(connection, JobFilter(outcomes=outcomes, after=(NOW, "job_1")))
            positions(connection, JobFilter(outcomes=outcomes, newest_first=False))
    # For not_accepted and not_evaluated, a second query finds the continued jobs
    assert len(plans) == 3 * 5
    assert [plan for plan in plans if "ix_jobs_outcome_created" not in plan] == []


def test_jobs_with_a_label_are_found_in_the_order_of_the_list(full: Database):
    with full.write() as connection, explained(connection) as plans:
        positions(connection, JobFilter(metadata={"n": "77"}))
        positions(connection, JobFilter(metadata={"n": "77"}, after=(NOW, "job_1")))
        positions(connection, JobFilter(metadata={"n": "77"}, newest_first=False))
    index = "job_labels USING PRIMARY KEY" if full.is_sqlite else "Index Only Scan.* using pk_job_labels"
    assert [plan for plan in plans if not re.search(index, plan) or re.search(r"Sort|B-TREE|\bjobs\b", plan)] == []
    assert len(plans) == 3


def test_jobs_with_labels_and_an_outcome_are_tested_in_the_order_of_the_label(full: Database):
    with full.write() as connection:
        if not full.is_sqlite:
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        with explained(connection) as plans:
            positions(connection, JobFilter(metadata={"n": "77"}, outcomes=("accepted",)))
    assert [plan for plan in plans if "job_labels" not in plan] == []
    # The first job with the label, the last of the first jobs with it, and the page
    assert len(plans) == 3


@pytest.mark.parametrize("sort", SORTS)
def test_an_index_gives_the_order_of_all_jobs(full: Database, sort: Sort):
    with full.write() as connection:
        if not full.is_sqlite:
            # Sorting so few jobs is cheap, so PostgreSQL would not use the index
            connection.execute(text("SET LOCAL enable_sort = off"))
        with explained(connection) as plans:
            [row, *_] = job_lists.page_by(connection, sort, None, 50) or []
            job_lists.page_by(connection, sort, row.id, 50)
    first, next_page = plans[0], plans[3]
    assert f"ix_jobs_{sort}" in first
    assert re.search(rf"ix_jobs_{sort}.*(<|\n *Index Cond: .*<)", next_page)
