"""Runs and datasets are deleted, with all that hangs on them and nothing else."""

import pytest

from redraft.domain.jobs.requests import ContinueJob
from redraft.errors import Conflict, NotFound
from redraft.operations.bulk import datasets, deletion, runs
from redraft.operations.jobs import lifecycle
from redraft.storage.bulk import datasets as stored_datasets
from redraft.storage.bulk import runs as stored_runs
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import dataset, rows, start, under_way, work_off
from tests.operations.driving import Driver


def job_ids(driver: Driver, run_id: str) -> list[str]:
    with driver.services.database.read() as connection:
        return [job_id for _, job_id in stored_runs.first_items(connection, run_id, 1000) if job_id]


@pytest.mark.both_databases
def test_a_run_goes_with_its_items_and_jobs_and_leaves_others(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    gone, kept = (work_off(driver, start(driver, rows(5) + b"nonsense\n")) for _ in range(2))
    its_jobs = job_ids(driver, gone.id)
    assert len(its_jobs) == 5
    deletion.delete_run(driver.services, gone.id)
    with pytest.raises(NotFound):
        runs.get_run(driver.services, gone.id)
    for job_id in its_jobs[::2]:
        with pytest.raises(NotFound):
            lifecycle.cancel(driver.services, job_id)
    assert runs.get_run(driver.services, kept.id) == kept
    with pytest.raises(NotFound):
        deletion.delete_run(driver.services, gone.id)


def test_a_run_that_has_not_ended_is_not_deleted(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.2])
    run = start(driver, rows(2), max_in_flight=1)
    (job_id,) = under_way(driver, run)
    with pytest.raises(Conflict) as caught:
        deletion.delete_run(driver.services, run.id)
    assert caught.value.code == "run_not_ended"
    ended = work_off(driver, run)
    lifecycle.continue_job(driver.services, job_id, ContinueJob())
    with pytest.raises(Conflict, match=job_id):
        deletion.delete_run(driver.services, run.id)
    assert runs.get_run(driver.services, run.id).counts == ended.counts
    lifecycle.cancel(driver.services, job_id)
    deletion.delete_run(driver.services, run.id)


def test_a_dataset_goes_when_no_run_uses_it(driver: Driver):
    run = runs.cancel_run(driver.services, start(driver, rows(600), max_in_flight=1).id)[0]
    with pytest.raises(Conflict, match=run.id) as caught:
        deletion.delete_dataset(driver.services, run.dataset_id)
    assert caught.value.code == "dataset_in_use"
    assert datasets.get_dataset(driver.services, run.dataset_id).rows == 600
    deletion.delete_run(driver.services, run.id)
    deletion.delete_dataset(driver.services, run.dataset_id)
    with driver.services.database.read() as connection:
        assert stored_datasets.list_items(connection, run.dataset_id, after=-1, limit=1) == []
    for again in (deletion.delete_dataset, datasets.get_dataset):
        with pytest.raises(NotFound):
            again(driver.services, run.dataset_id)
    assert dataset(driver.services, rows(600)) != run.dataset_id
