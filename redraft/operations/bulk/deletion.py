"""Deletes runs and datasets in small units of work with pauses, so that workers and requests are not blocked.

If a deletion is interrupted, the next request continues it.
"""

from sqlalchemy import Connection

from redraft.errors import Conflict, NotFound
from redraft.operations.admin.retention import in_batches
from redraft.operations.bulk import datasets as known_datasets
from redraft.operations.bulk import runs as known_runs
from redraft.operations.services import Services
from redraft.storage.bulk import datasets, runs, schedules


def delete_run(services: Services, run_id: str) -> None:
    """Delete a run that has ended, with its items and their jobs.

    Raises NotFound if there is no such run, and Conflict if the run or one of its jobs has not ended (`run_not_ended`).
    """
    with services.database.read() as connection:
        known_runs.find(connection, run_id)
        _refuse_live(runs.live_job(connection, run_id), run_id)
    in_batches(services, lambda connection, limit: _remove_items(connection, run_id, limit))


def _remove_items(connection: Connection, run_id: str, limit: int) -> int:
    """Delete some items of a run, and return their number. If no item is left, delete the run and return 0."""
    run = runs.lock(connection, run_id)
    if run is None:
        return 0
    if run.status == "running":
        raise Conflict(f"Run {run_id} is running: cancel it before you delete it.", code="run_not_ended")
    items = runs.first_items(connection, run_id, limit)
    if not items:
        runs.remove(connection, run_id)
        return 0
    # The jobs of a canceled run end after the run, so one of them may still be live
    _refuse_live(runs.remove_jobs(connection, [job_id for _, job_id in items if job_id]), run_id)
    runs.remove_items(connection, run_id, [number for number, _ in items])
    return len(items)


def _refuse_live(job_id: str | None, run_id: str) -> None:
    if job_id is not None:
        words = f"Job {job_id}, an item of run {run_id}, has not ended: cancel it before you delete the run."
        raise Conflict(words, code="run_not_ended")


def delete_dataset(services: Services, dataset_id: str) -> None:
    """Delete a dataset that no run and no schedule uses, with its rows.

    Raises NotFound if there is no such dataset, and Conflict if a run or a schedule uses it (`dataset_in_use`).
    """
    with services.database.write() as connection:
        if not datasets.lock(connection, dataset_id):
            raise NotFound("dataset", dataset_id)
        known_datasets.find(connection, dataset_id)
        if (run_id := runs.one_of_dataset(connection, dataset_id)) is not None:
            words = f"Dataset {dataset_id} is used by run {run_id}: delete its runs before you delete it."
            raise Conflict(words, code="dataset_in_use")
        if (schedule_id := schedules.one_of_dataset(connection, dataset_id)) is not None:
            words = f"Dataset {dataset_id} is used by schedule {schedule_id}: delete the schedule before you delete it."
            raise Conflict(words, code="dataset_in_use")
        # Without a version the dataset is hidden, so no new run can use it while its rows are deleted
        datasets.finish(connection, dataset_id, {"version": None})
    in_batches(services, lambda connection, limit: datasets.remove_some(connection, dataset_id, limit))
