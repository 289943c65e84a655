"""`redraft runs …` and `redraft compare`: look, watch, cancel, resume, export, report; ids as people type them."""

import csv
import json
from pathlib import Path

import pytest
from sqlalchemy import insert, update

from redraft.operations.services import Services
from redraft.storage.engine.bulk_tables import batches, runs
from tests.cli.bulk.dataset_rows import rows_file
from tests.model_server import ModelServer, Reply
from tests.support.shells import Shell

CRIT = ("--crit", "Right.")


def made(office: Shell, count: int = 2, *options: str, code: int = 0) -> str:
    """A run that has ended; its id."""
    done = office.run("eval", rows_file(count, iter_max=1), *CRIT, "--json", *options)
    assert done.code == code, done.err
    return done.data["run"]["id"]


def test_without_runs_it_teaches_how_to_start_one(shell: Shell) -> None:
    for arguments in (["runs"], ["runs", "list"]):
        done = shell.run(*arguments)
        assert (done.code, done.out) == (0, "")
        assert "redraft eval" in done.err
    assert shell.run("runs", "list", "--json").data == {"data": [], "next_cursor": None}


@pytest.mark.parametrize("verb", ["show", "watch", "cancel", "resume", "export", "report", "delete"])
def test_a_run_that_is_not_there_is_5(shell: Shell, verb: str) -> None:
    for text in ("latest", "0199", "run_0199", "ö"):
        done = shell.run("runs", verb, text)
        assert done.code == 5, text
        assert "redraft runs list" in done.err


def test_runs_are_listed_newest_first_and_page_by_page(office: Shell, provider: ModelServer) -> None:
    ids = [made(office, 1, "--name", name) for name in ("first", "second\n[bold]")]
    first = office.run("runs", "list", "--limit", "1", "--json").data
    rest = office.run("runs", "list", "--limit", "1", "--after", first["next_cursor"], "--json").data
    assert [run["id"] for run in first["data"] + rest["data"]] == ids[::-1]
    done = office.run("runs", "list", "--limit", "1")
    (line,) = [line for line in done.out.splitlines() if ids[1] in line]
    for part in ("✓ succeeded", "1/1", "100.0 %", "second [bold]"):
        assert part in line
    assert f"redraft runs list --after {first['next_cursor']}" in done.err


def test_ids_are_known_by_their_beginning(office: Shell, provider: ModelServer) -> None:
    run_id = made(office, 1)
    made(office, 1)
    for text in (run_id, run_id[:-2], run_id.removeprefix("run_"), run_id.removeprefix("run_")[:-2]):
        assert office.run("runs", "show", text, "--json").data["id"] == run_id
    ambiguous = office.run("runs", "show", "0")
    assert ambiguous.code == 2
    assert "write more of" in ambiguous.err


def test_runs_and_datasets_are_known_by_a_name_that_one_of_them_has(office: Shell, provider: ModelServer) -> None:
    first, second = made(office, 1, "--name", "Frühling"), made(office, 1, "--name", "twin")
    assert office.run("runs", "show", "Frühling", "--json").data["id"] == first
    assert office.run("compare", "Frühling", "twin", "--json").code == 0
    Path("spring questions.jsonl").write_text('{"instruct": "What blooms first in spring?"}')
    dataset = office.run("datasets", "import", "spring questions.jsonl", "--json").data
    assert office.run("datasets", "show", dataset["name"], "--json").data["id"] == dataset["id"]
    third = made(office, 1, "--name", "twin")
    several = office.run("runs", "show", "twin")
    assert several.code == 2
    assert second in several.err
    assert third in several.err


def test_a_run_is_shown_with_its_items(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["fine"], evaluate=[0.9])
    provider.script(generate=[Reply(status=401)], case="r1")
    provider.script(generate=["poor"], evaluate=[0.1], case="r2")
    run_id = made(office, 3, "--set", "limits.max_tokens=90000", code=6)
    shown = office.run("runs", "show", run_id).out
    for part in (
        run_id,
        "3 of 3 done",
        "1 failed",
        'limits = {"max_tokens": 90000}',
        "✓ accepted",
        "✗ failed",
        "≈ not accepted",
        "fine",
    ):
        assert part in shown
    failed = office.run("runs", "show", run_id, "--status", "failed", "--json").data
    assert [item["custom_id"] for item in failed["items"]] == ["r1"]
    part = office.run("runs", "show", run_id, "--limit", "1")
    assert f"redraft runs show {run_id} --after 1" in part.err
    for options in (("--limit", "3"), ("--status", "failed", "--limit", "1"), ("--after", "2", "--limit", "1")):
        assert "There are more" not in office.run("runs", "show", run_id, *options).err
    chosen = ("--status", "failed", "--status", "succeeded")
    more = office.run("runs", "show", run_id, *chosen, "--limit", "2")
    assert f"redraft runs show {run_id} --status failed --status succeeded --after 2" in more.err
    assert office.run("runs", "show", run_id, "--status", "odd").code == 2


def test_watching_a_run_that_has_ended_tells_its_report(office: Shell, provider: ModelServer) -> None:
    run_id = made(office)
    done = office.run("runs", "watch", run_id, "--min-pass-rate", "1", "--report", "r.md")
    assert (done.code, "Pass rate" in done.out, Path("r.md").exists()) == (0, True, True)


def test_watching_a_run_in_batches_tells_its_round(
    staffed: tuple[Services, ModelServer], office: Shell, provider: ModelServer
) -> None:
    provider.script(generate=[Reply(text="never", latency_s=60)])
    run_id = office.run("eval", rows_file(2), *CRIT, "--detach").out.strip()
    batch = {"id": "b1", "run_id": run_id, "model": "openai:writer", "round": 1, "status": "sent", "total": 5}
    facts = {"provider_batch_id": "batch_abc", "done": 3, "failed": 1}
    with staffed[0].database.write() as connection:
        connection.execute(update(runs).values(delivery="batch").where(runs.c.id == run_id))
        connection.execute(insert(batches).values(**batch, **facts))
    watch = office.start("runs", "watch", run_id)
    watch.wait_says("round 1: 3 of 5 calls, 1 failed · sent as batch_abc")
    assert watch.interrupt() == 130
    assert office.run("runs", "cancel", run_id, "--json").data["status"] == "canceled"


def test_a_run_is_canceled_and_resumed(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=[Reply(text="never", latency_s=60)])
    run_id = office.run("eval", rows_file(3), *CRIT, "--detach").out.strip()
    done = office.run("runs", "cancel", run_id)
    assert (done.code, f"redraft runs resume {run_id}" in done.err) == (0, True)
    assert office.run("runs", "watch", run_id).code == 130
    # Canceled items are not failed ones
    assert "no item is open." in office.run("runs", "resume", run_id, "--retry-failed").err
    both = office.run("runs", "resume", run_id, "--retry-errors", "--retry-failed")
    assert (both.code, "Choose one" in both.err) == (2, True)
    provider.script(generate=[Reply(text="a", is_held=True)], evaluate=[0.9])
    left = office.run("runs", "resume", run_id, "--detach", "--json").data
    assert left["status"] == "running"
    provider.release()
    again = office.run("runs", "resume", run_id, "--json")
    assert (again.code, again.data["run"]["counts"]["succeeded"]) == (0, 3)
    assert "no item is open." in office.run("runs", "resume", run_id).err


def test_results_are_exported_line_by_line(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["=1+1"], evaluate=[0.9])
    run_id = made(office)
    lines = [json.loads(line) for line in office.run("runs", "export", run_id).out.splitlines()]
    assert [(line["custom_id"], line["final_answer"]) for line in lines] == [("r0", "=1+1"), ("r1", "=1+1")]
    table = list(csv.DictReader(office.run("runs", "export", run_id, "--format", "csv").out.splitlines()))
    assert [row["final_answer"] for row in table] == ["'=1+1", "'=1+1"]
    written = office.run("runs", "export", run_id, "--output", "r.csv", "--bom")
    assert (written.code, written.out) == (0, "")
    assert Path("r.csv").read_bytes().startswith(b"\xef\xbb\xbfcustom_id,")
    assert office.run("runs", "export", run_id, "--output", "r", "--format", "jsonl").code == 0
    for wrong in (["--output", "r.xls"], ["--format", "xls"], ["--output", "nowhere/r.csv"]):
        assert office.run("runs", "export", run_id, *wrong).code == 2


def test_results_are_written_to_each_file_that_is_named(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["a"], evaluate=[0.9])
    run_id = made(office)
    both = ("--output", "a.jsonl", "--output", "b.CSV")
    assert office.run("runs", "export", run_id, *both).code == 0
    exported = [Path(name).read_text("utf-8") for name in ("a.jsonl", "b.CSV")]
    assert [text[:10] for text in exported] == ['{"custom_i', "custom_id,"]
    for name in ("a.jsonl", "b.CSV"):
        Path(name).unlink()
    assert office.run("runs", "watch", run_id, *both).code == 0
    assert [Path(name).read_text("utf-8") for name in ("a.jsonl", "b.CSV")] == exported
    assert office.run("runs", "export", run_id, "--output", "a.jsonl", "--output", "b.xls").code == 2


def test_a_report_is_made_again_with_gates(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["a"], evaluate=[0.9])
    run_id = made(office)
    assert office.run("runs", "report", run_id, "--min-pass-rate", "1").code == 0
    provider.script(generate=["a"], evaluate=[0.1])
    worse = made(office)
    report = office.run("runs", "report", worse, "--min-pass-rate", "0.5", "--baseline", run_id, "--json")
    assert report.code == 3
    assert report.data["comparison"]["losses"] == 2
    files = ("r.json", "r.md", "r.html", "r.xml")
    both = [part for file in files for part in ("--report", file)]
    assert office.run("runs", "report", worse, "--baseline", run_id, *both).code == 0
    assert json.loads(Path("r.json").read_text())["comparison"]["losses"] == 2
    for file in ("r.md", "r.html"):
        assert "Comparison with the baseline" in Path(file).read_text()


def test_two_runs_are_compared_row_by_row(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["a"], evaluate=[0.9])
    base = made(office, 24)
    provider.script(generate=["a"], evaluate=[0.1])
    new = made(office, 24)
    plain = office.run("compare", base, new)
    assert plain.code == 0
    assert "newly failing" in plain.out
    gated = office.run("compare", base, "latest", "--fail-on-regression", "--min-pass-rate", "0.5", "--json")
    assert (gated.code, gated.data["losses"]) == (3, 24)
    assert office.run("compare", new, base, "--fail-on-regression").code == 0
    files = ["c.html", "c.md", "c.json", "c.txt"]
    assert office.run("compare", base, new, *[part for file in files for part in ("--report", file)]).code == 0
    assert [Path(file).read_text("utf-8")[0] for file in files] == ["<", "#", "{", "C"]


def test_what_cannot_be_compared_is_said(office: Shell, provider: ModelServer) -> None:
    run_id = made(office, 1)
    same = office.run("compare", run_id, run_id)
    assert (same.code, "BASE (/baseline)" in same.err) == (2, True)
    assert office.run("compare", "none", run_id).code == 5
    assert office.run("compare", run_id, run_id, "--report", "c.xml").code == 2


def test_a_run_and_its_dataset_are_deleted(office: Shell, provider: ModelServer) -> None:
    # Rows of its own: the same ones would be the dataset of other tests' runs, too.
    file = rows_file(1, iter_max=1, metadata={"of": "the deleted run"})
    run_id = office.run("eval", file, *CRIT, "--json").data["run"]["id"]
    dataset_id = office.run("runs", "show", run_id, "--json").data["dataset_id"]
    assert office.run("datasets", "delete", dataset_id).code != 0
    assert office.run("runs", "delete", run_id, "--json").data == {"id": run_id, "deleted": True}
    assert office.run("datasets", "delete", dataset_id).code == 0
    assert (office.run("runs", "show", run_id).code, office.run("datasets", "show", dataset_id).code) == (5, 5)
