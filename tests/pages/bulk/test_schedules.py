"""The pages of schedules: the list, and the trend of one."""

from datetime import timedelta

from redraft.domain.bulk.schedule_requests import RunGates
from redraft.operations.bulk import runs
from redraft.operations.schedules.due_runs import check_ended_runs
from redraft.operations.services import Services
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import work_off
from tests.operations.driving import Driver
from tests.operations.schedules.test_due_runs import SIX, create, run_ids, start_at
from tests.support.html_pages import Reader, text_of


def test_the_trend_shows_the_runs_of_a_schedule_and_their_gates(
    reader: Reader, services: Services, model_server: ModelServer
):
    driver = Driver(services)
    schedule = create(driver, name="nightly", gates=RunGates(min_pass_rate=0.5))
    assert "No run has been started yet." in reader.go(f"/runs/schedules/{schedule.id}").text
    for hour, score in enumerate((0.9, 0.3)):
        model_server.script(generate=["a"], evaluate=[score])
        start_at(driver, SIX + timedelta(hours=hour))
        work_off(driver, runs.get_run(services, run_ids(driver)[0]))
        check_ended_runs(services)
    page = reader.go(f"/runs/schedules/{schedule.id}")
    newest, oldest = ([text_of(cell) for cell in row] for row in page.all("tbody/tr"))
    assert newest[0] == "2026-11-30 07:00 UTC"
    assert (newest[2].split()[0], newest[3]) == ("0.0", "0.30")
    assert (oldest[2].split()[0], oldest[3]) == ("100.0", "0.90")
    assert newest[5].startswith("✗ Not passed: 0 of 2 items accepted")
    assert page.source.count("<svg") >= 2


def test_schedules_are_linked_from_the_runs_paused_and_deleted(reader: Reader, services: Services):
    create(Driver(services), name="<b>nightly</b>")
    reader.go("/runs")
    assert "0 * * * *" in reader.click("Schedules").text
    page = reader.click("<b>nightly</b>")
    assert "active" in page.text
    assert "paused" in reader.press("Pause").text
    assert "calls that cost money" in reader.click("Resume …").text
    assert "active" in reader.press("Resume").text
    assert "Its runs are kept" in reader.click("Delete …").text
    assert "No schedules yet" in reader.press("Delete permanently").text
