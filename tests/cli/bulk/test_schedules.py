"""`redraft runs schedule …`."""

from tests.cli.bulk.test_runs import made
from tests.support.shells import Shell


def test_a_run_is_repeated_by_a_schedule(office: Shell) -> None:
    run_id = made(office, 1, "--name", "nightly")
    added = office.run(
        "runs", "schedule", "add", "latest", "--cron", "0 6 * * mon-fri", "--min-pass-rate", "0.8", "--json"
    )
    assert added.code == 0, added.err
    assert (added.data["name"], added.data["gates"]["min_pass_rate"]) == ("nightly", 0.8)
    assert added.data["run"]["dataset_id"] == office.run("runs", "show", run_id, "--json").data["dataset_id"]
    schedule_id = added.data["id"]
    listed = office.run("runs", "schedule")
    assert all(part in listed.out for part in (schedule_id, "0 6 * * mon-fri", "UTC nightly"))
    assert "paused" in office.run("runs", "schedule", "pause", schedule_id).out
    assert "next" in office.run("runs", "schedule", "resume", schedule_id).out
    assert office.run("runs", "schedule", "show", schedule_id).code == 0
    assert office.run("runs", "schedule", "delete", schedule_id).code == 0
    assert "No schedules yet" in office.run("runs", "schedule").err
    assert office.run("runs", "schedule", "show", schedule_id).code == 5


def test_bad_cron_words_are_an_error_of_usage(office: Shell) -> None:
    made(office, 1)
    done = office.run("runs", "schedule", "add", "latest", "--cron", "61 * * * *")
    assert done.code == 2
    assert "the minute, '61', cannot be read" in done.err
