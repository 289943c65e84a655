"""Two processes resume one run at the same time."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event

from redraft.domain.bulk.run_requests import ResumeRun
from redraft.operations.bulk import run_results, runs, scheduler
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import rows, start, under_way, work_off
from tests.operations.driving import Driver


# Case E10
def test_a_canceled_run_keeps_its_results_and_resumes_with_what_is_open(driver: Driver, model_server: ModelServer):
    run = start(driver, rows(4), max_in_flight=2)
    done, open_one = under_way(driver, run)
    driver.run(done)
    canceled, is_ours = runs.cancel_run(driver.services, run.id)
    assert (is_ours, canceled.status, canceled.counts.succeeded, canceled.counts.canceled) == (True, "canceled", 1, 3)
    assert runs.cancel_run(driver.services, run.id)[1] is False
    asked = len(model_server.requests())
    resumed = runs.resume_run(driver.services, run.id, ResumeRun())
    assert (resumed.status, resumed.counts.succeeded, resumed.counts.running) == ("running", 1, 2)
    ended = work_off(driver, run)
    assert ended.counts.succeeded == 4
    assert len(model_server.requests()) == asked + 3 * 2
    # It goes on as the job that it was, so nothing that is paid for is paid again
    assert driver.job(open_one).continuations == 1


# Case E10
@pytest.mark.both_databases
def test_a_run_that_is_resumed_twice_at_once_does_its_open_rows_once(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = start(driver, rows(5), max_in_flight=3)
    for job_id in under_way(driver, run):
        driver.run(job_id)
    runs.cancel_run(driver.services, run.id)
    done = run_results.list_items(driver.services, run.id, after=0, limit=9, statuses=["succeeded"])
    assert len(done) == 3
    asked = len(model_server.requests())
    with ThreadPoolExecutor(2) as pool:
        resumed = [pool.submit(runs.resume_run, driver.services, run.id, ResumeRun()) for _ in range(2)]
    assert [each.exception() for each in resumed] == [None, None]
    assert work_off(driver, run).counts.succeeded == 5
    assert len(model_server.requests()) == asked + 2 * 2
    kept = run_results.list_items(driver.services, run.id, after=0, limit=9, statuses=["succeeded"])
    assert [item for item in kept if item in done] == done

    assert runs.resume_run(driver.services, run.id, ResumeRun()).status == "succeeded"
    scheduler.schedule_all(driver.services)
    assert len(model_server.requests()) == asked + 2 * 2


@pytest.mark.both_databases
def test_a_resume_during_another_resume_leaves_no_row_canceled(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = start(driver, rows(3))
    runs.cancel_run(driver.services, run.id)
    engine, others = driver.services.database.engine, [ResumeRun()]

    def resume_elsewhere(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if others and "FROM runs" in statement:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(runs.resume_run, driver.services, run.id, others.pop()).result()

    event.listen(engine, "after_cursor_execute", resume_elsewhere)
    runs.resume_run(driver.services, run.id, ResumeRun())
    event.remove(engine, "after_cursor_execute", resume_elsewhere)
    assert work_off(driver, run).counts.succeeded == 3
