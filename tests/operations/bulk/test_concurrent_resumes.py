"""Two processes resume one run at the same time, or one resumes it while the other one cancels it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from sqlalchemy import event

from redraft.domain.bulk.run_requests import ResumeRun
from redraft.operations.bulk import run_results, runs, scheduler
from redraft.operations.bulk.run_completion import end_run
from redraft.operations.services import Services
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


def interrupt(driver: Driver, part: str, act: Callable[[], object]) -> Callable[[], None]:
    """Call `act` once, in another thread, before the next statement with this part. The result ends the listening."""
    engine, acts = driver.services.database.engine, [act]

    def listen(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if acts and part in statement:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(acts.pop()).result()

    event.listen(engine, "before_cursor_execute", listen)
    return lambda: event.remove(engine, "before_cursor_execute", listen)


@pytest.mark.both_databases
@pytest.mark.parametrize("retry", ["open", "failed"])
def test_a_resume_during_another_resume_cancels_no_row(driver: Driver, model_server: ModelServer, retry: str):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = start(driver, rows(3))
    runs.cancel_run(driver.services, run.id)
    end = interrupt(driver, "FROM run_items", lambda: runs.resume_run(driver.services, run.id, ResumeRun()))
    runs.resume_run(driver.services, run.id, ResumeRun.model_validate({"retry": retry}))
    end()
    assert work_off(driver, run).counts.succeeded == 3


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("stop", [runs.cancel_run, partial(runs.resume_run, body=ResumeRun())])
def test_a_cancellation_cancels_no_row_that_was_resumed_meanwhile(
    driver: Driver, model_server: ModelServer, stop: Callable[[Services, str], object]
):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = start(driver, rows(3))
    if stop is not runs.cancel_run:
        with driver.services.database.write() as connection:
            end_run(connection, run.id, "canceled", "canceled")
    resume = partial(runs.resume_run, driver.services, run.id, ResumeRun())
    end = interrupt(driver, "ORDER BY jobs.id FOR UPDATE", resume)
    stop(driver.services, run.id)
    end()
    assert work_off(driver, run).counts.succeeded == 3
