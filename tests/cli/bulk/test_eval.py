"""`redraft eval`: rows in, a report out; options, gates, broken files, progress."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from redraft.cli.bulk.finished_runs import exit_of_run
from redraft.cli.bulk.run_progress import Pace, words_of
from redraft.domain.bulk.gates import GateResult
from redraft.operations.bulk.run_resources import Run
from redraft.storage.engine.tables import TOKENS
from tests.cli.bulk.dataset_rows import MESSY, rows, rows_file, write
from tests.media import PDF, PNG, attachment
from tests.model_server import ModelServer, Reply
from tests.support.shells import Shell

CRIT = ("--crit", "Right.")


def counts_of(office: Shell, run: str = "latest") -> dict[str, int]:
    return office.run("runs", "show", run, "--json").data["counts"]


def test_each_row_becomes_a_job_and_the_report_goes_to_stdout(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["one", "two"], evaluate=[0.4, 0.9])
    asked = len(provider.requests("generate"))
    done = office.run("eval", rows_file(3), *CRIT)
    assert done.code == 0, done.err
    assert "Pass rate" in done.out
    assert "3 of 3 done" in done.err
    assert "100.0 %" in done.err
    assert len(provider.requests("generate")) == asked + 6


def test_json_is_the_run_its_report_and_nothing_else(office: Shell, provider: ModelServer) -> None:
    data = office.run("eval", rows_file(2), *CRIT, "--json").data
    assert set(data) == {"run", "report", "comparison"}
    assert data["run"]["counts"]["succeeded"] == data["report"]["counts"]["accepted"] == 2
    assert data["comparison"] is None


def test_results_and_reports_are_written_in_the_form_of_their_names(office: Shell, provider: ModelServer) -> None:
    files = ["r.html", "r.md", "r.json", "r.xml", "r.txt", "r.junit"]
    options = [part for file in files for part in ("--report", file)]
    assert office.run("eval", rows_file(2), *CRIT, "--output", "out.csv", *options).code == 0
    beginnings = [Path(file).read_text("utf-8")[:20] for file in files]
    assert [text[0] for text in beginnings] == ["<", "#", "{", "<", "R", "<"]
    table = list(csv.DictReader(Path("out.csv").read_text("utf-8").splitlines()))
    assert [(row["custom_id"], row["status"]) for row in table] == [("r0", "succeeded"), ("r1", "succeeded")]
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]


def test_rows_come_from_stdin_and_from_what_is_stored(office: Shell, provider: ModelServer) -> None:
    piped = office.run("eval", "-", *CRIT, "--json", stdin=rows(1, metadata={"from": "a pipe"}))
    assert piped.code == 0, piped.err
    assert ": 1 item of " in piped.err
    dataset = piped.data["run"]["dataset_id"]
    again = office.run("eval", dataset.removeprefix("ds_"), *CRIT, "--json")
    assert (again.code, again.data["run"]["dataset_id"]) == (0, dataset)


def test_options_fill_what_rows_leave_open_and_set_is_over_what_they_say(office: Shell, provider: ModelServer) -> None:
    write("defaults.json", json.dumps({"iter_max": 2, "eval_crit": "From the file.", "vars": {"n": 1}}))
    data = office.run(
        *("eval", rows_file(1, score_threshold=0.1), "--defaults", "defaults.json", "--iter-max", "1"),
        *("--set", "score_threshold=0.25", "--set", "limits.max_tokens=9000", "--set", "metadata.a.b=x"),
        *("--set", "sampling.temperature=0", "--name", "mine", "--repeat", "2", "--json"),
    ).data
    assert data["run"]["defaults"] == {"iter_max": 1, "eval_crit": "From the file.", "vars": {"n": 1}}
    assert data["run"]["overrides"] == {
        "score_threshold": 0.25,
        "limits": {"max_tokens": 9000},
        "metadata": {"a.b": "x"},
        "sampling": {"temperature": 0},
    }
    assert (data["run"]["name"], data["run"]["counts"]["total"]) == ("mine", 2)
    job = office.run("jobs", "show", "--json").data
    assert (job["request"]["iter_max"], job["request"]["score_threshold"]) == (1, 0.25)


def test_columns_are_mapped_and_unclear_ones_are_told(office: Shell, provider: ModelServer) -> None:
    file = write("rows.csv", "Nr;Frage;instrct\n1;[[case:a]] Was?;x\n")
    done = office.run("eval", file, *CRIT, "--map", "instruct=Frage", "--map", "custom_id=Nr", "--json")
    assert done.code == 0, done.err
    assert "column 'instrct' fills no field. If it contains instruct, use --map instruct=instrct" in done.err
    assert "[[case:a]] Was?" in json.dumps(provider.requests("generate")[-1].body)


def test_bad_rows_are_named_at_once_and_end_with_6(office: Shell, provider: ModelServer) -> None:
    file = write("rows.jsonl", rows(2) + "nonsense\n" + '{"instruct": "Q", "iter_max": 99}\n')
    done = office.run("eval", file, *CRIT, "--json")
    assert (done.code, done.data["run"]["counts"]["invalid"]) == (6, 2)
    assert "line 3: " in done.err
    assert "line 4: " in office.run("runs", "show", "--status", "invalid").out


def test_the_good_rows_of_a_messy_file_are_run(office: Shell, provider: ModelServer) -> None:
    done = office.run("eval", write("rows.csv", MESSY), *CRIT, "--output", "out.jsonl")
    assert done.code == 6
    assert "line 6: custom_id 'a' is on line 2 already." in done.err
    assert "line 7: The row has 2 cells" in done.err
    lines = [json.loads(line) for line in Path("out.jsonl").read_text("utf-8").splitlines()]
    assert [(line["line"], line["custom_id"], line["status"], line["instruct"]) for line in lines] == [
        (2, "a", "succeeded", "two\nlines"),
        (5, "b", "succeeded", "What?"),
        (6, "a", "invalid", "again"),
        (7, "line 7", "invalid", None),
        (8, "d", "succeeded", "How?"),
    ]


def test_a_failed_item_ends_with_6_and_is_done_again_when_asked_for(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["a"], evaluate=[0.9])
    provider.script(generate=[Reply(status=401), "a"], case="r0")
    first = office.run("eval", rows_file(2), *CRIT, "--max-in-flight", "1", "--json")
    assert (first.code, first.data["run"]["counts"]["failed"]) == (6, 1)
    assert "--retry-errors executes failed items again" in office.run("eval", "--resume", "latest").err
    asked = len(provider.requests())
    again = office.run("eval", "--resume", first.data["run"]["id"], "--retry-errors", "--json", "--output", "o.jsonl")
    assert (again.code, again.data["run"]["counts"]["succeeded"]) == (0, 2)
    assert len(provider.requests()) == asked + 2


def test_gates_are_3_and_before_6(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["a"], evaluate=[0.9])
    provider.script(generate=["a"], evaluate=[0.1], case="r0")
    file = rows_file(2, iter_max=1)
    missed = office.run("eval", file, *CRIT, "--min-pass-rate", "0.9", "--json")
    (gate,) = missed.data["report"]["gates"]
    assert (missed.code, gate["passed"]) == (3, False)
    assert office.run("eval", file, *CRIT, "--min-pass-rate", "0.5").code == 0
    mixed = write("mixed.jsonl", rows(2, iter_max=1) + "nonsense\n")
    assert office.run("eval", mixed, *CRIT, "--min-pass-rate", "0.9").code == 3


def test_a_run_that_is_shown_to_be_worse_than_the_one_before_is_3(office: Shell, provider: ModelServer) -> None:
    file = rows_file(24, iter_max=1, metadata={"of": "regression"})
    gate = ("--baseline", "latest", "--fail-on-regression")
    provider.script(generate=["a"], evaluate=[0.9])
    first = office.run("eval", file, *CRIT, "--name", "nightly", *gate)
    assert first.code == 3
    assert "No earlier run of the same rows has succeeded" in first.err
    same = office.run("eval", file, *CRIT, "--name", "nightly", *gate)
    assert same.code == 0, same.out
    assert "No difference" in same.out
    provider.script(generate=["a"], evaluate=[0.1])
    worse = office.run("eval", file, *CRIT, "--name", "nightly", *gate, "--json")
    assert worse.code == 3
    assert len(worse.data["comparison"]["newly_failing"]) == 24


@pytest.mark.parametrize(
    ("status", "counts", "gate", "code"),
    [
        ("succeeded", {"succeeded": 2}, "passed", 0),
        ("succeeded", {"succeeded": 1, "failed": 1}, "passed", 6),
        ("succeeded", {"succeeded": 1, "invalid": 1}, "passed", 6),
        ("succeeded", {"succeeded": 1, "canceled": 1}, "passed", 6),
        ("succeeded", {"succeeded": 1, "failed": 1}, "missed", 3),
        ("canceled", {"succeeded": 1, "canceled": 1}, "missed", 130),
        ("running", {"running": 1, "failed": 1}, "passed", 0),
    ],
)
def test_where_several_exit_codes_fit_one_has_precedence(
    status: str, counts: dict[str, int], gate: str, code: int
) -> None:
    gates = [GateResult("min_pass_rate", gate == "passed", "…")]
    assert exit_of_run(run_in(status, **counts), gates) == code


def test_a_run_that_was_given_up_is_not_interrupted():
    run = run_in("canceled", canceled=1).model_copy(update={"stop_reason": "error"})
    assert exit_of_run(run, []) == 6


def run_in(status: str, **counts: int) -> Run:
    names = ("queued", "running", "succeeded", "failed", "canceled", "invalid", "accepted")
    usage = dict.fromkeys(("calls", *TOKENS), 0)
    return Run(
        **dict.fromkeys(("id", "name", "dataset_id"), "x"),
        **dict.fromkeys(("stop_reason", "finished_at", "max_cost_usd", "webhook")),
        **{name: {} for name in ("defaults", "overrides", "urls")},
        **dict.fromkeys(("repeat", "max_in_flight", "version"), 1),
        status=status,
        created_at=datetime.now(UTC),
        counts={**dict.fromkeys(names, 0), **counts, "total": sum(counts.values())},
        usage={**usage, "cost_usd": "0.5"},
    )


def test_the_time_left_follows_from_how_fast_items_end() -> None:
    pace = Pace()
    assert pace.left(run_in("running", queued=10), 0) is None
    assert pace.left(run_in("running", queued=8, succeeded=2), 4) == 16
    words = words_of(run_in("running", queued=1, running=2, succeeded=3, failed=4), 75).split(" · ")
    assert words[:3] == ["7 of 10 done", "2 in flight", "4 failed"]
    assert words[3:] == ["accepted 0.0 % (0 to 56 %) so far; easy rows finish first", "$0.5", "1 min 15 s left"]
    assert "easy rows" not in words_of(run_in("succeeded", succeeded=3, failed=4), None)
    assert pace.left(run_in("succeeded", succeeded=10), 9) is None


def test_a_detached_run_is_left_to_the_workers(office: Shell, provider: ModelServer) -> None:
    done = office.run("eval", rows_file(1), *CRIT, "--detach")
    run_id = done.out.strip()
    assert (done.code, run_id[:4]) == (0, "run_")
    assert f"redraft runs watch {run_id}" in done.err
    watched = office.run("runs", "watch", run_id, "--json")
    assert (watched.code, watched.data["run"]["counts"]["succeeded"]) == (0, 1)
    data = office.run("eval", rows_file(1), *CRIT, "--detach", "--json").data
    assert data["object"] == "run"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "Name a file of rows"),
        (("rows.jsonl", "--set", "itr_max=3"), "did you mean 'iter_max'"),
        (("rows.jsonl", "--set", "iter_max"), "is not FIELD=VALUE"),
        (("rows.jsonl", "--set", "iter_max=few"), "needs a whole number"),
        (("rows.jsonl", "--set", "custom_id=x"), "belongs to a row"),
        (("rows.jsonl", "--map", "nothing=x"), "nothing"),
        (("rows.jsonl", "--map", "instruct"), "is not FIELD=COLUMN"),
        (("rows.jsonl", "--file-format", "xls"), "is not one of"),
        (("rows.jsonl", "--output", "out.xls"), "must be one of .jsonl, .csv"),
        (("rows.jsonl", "--report", "out"), "The suffix of out must be one of"),
        (("rows.jsonl", "--report", "nowhere/out.md"), "cannot be written to"),
        (("rows.jsonl", "--fail-on-regression"), "needs --baseline"),
        (("rows.jsonl", "--min-pass-rate", "90"), "--min-pass-rate"),
        (("rows.jsonl", "--iter-max", "99"), "--iter-max (/defaults/iter_max)"),
        (("rows.jsonl", "--repeat", "0"), "--repeat (/repeat)"),
        (("rows.jsonl", "--max-in-flight", "0"), "--max-in-flight"),
        (("rows.jsonl", "--max-cost", "-1"), "--max-cost"),
        (("rows.jsonl", *CRIT, "--model", "nobody:knows"), "nobody"),
        (("rows.jsonl", "--retry-errors"), "--retry-errors works only with --resume"),
        (("rows.jsonl", "--resume", "latest"), "Remove: DATASET"),
        (("--resume", "latest", "--iter-max", "2"), "Remove: the field iter_max"),
    ],
)
def test_wrong_usage_is_2_before_anything_is_asked(
    shell: Shell, model_server: ModelServer, options: tuple[str, ...], words: str
) -> None:
    rows_file(1)
    done = shell.run("eval", *options, COLUMNS="400")
    assert done.code == 2, done.err
    assert words in " ".join(done.err.replace("│", " ").split())
    assert model_server.requests() == []


def test_what_is_not_there_is_5(shell: Shell) -> None:
    for arguments in (
        ["eval", "ds_none"],
        ["eval", "absent.jsonl"],
        ["eval", rows_file(1), "--defaults", "absent.json"],
        ["eval", "--resume", "latest"],
        ["eval", rows_file(1), "--baseline", "none"],
    ):
        assert shell.run(*arguments).code == 5, arguments


def test_a_broker_that_is_away_is_75(shell: Shell) -> None:
    done = shell.run("eval", rows_file(1), *CRIT, REDRAFT_BROKER_URL="redis://127.0.0.1:1/0")
    assert done.code == 75


BROKEN = {
    "empty.jsonl": (b"", "holds no rows"),
    "blank.csv": (b"\n\n \n", "holds no rows"),
    "only-header.csv": (b"id,question\n", "holds no rows"),
    "book.xlsx": (b"PK\x03\x04rest", "save it as CSV"),
    "rows.jsonl.gz": (b"\x1f\x8brest", "unpack it"),
    "twice.csv": (b"question,question\na,b\n", "Two columns are called"),
    "unclear.csv": (b"question,prompt\na,b\n", "both mean instruct"),
    "none.jsonl": (b"nonsense\n[1]\n", "No row can be used"),
    "picture.png": (b"\x89PNG\r\n\x1a\n\x00\x00\xff", ""),
    "wide.jsonl": ("\ufeff".encode("utf-16") + b"\x00", ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_used_is_2_and_says_why(shell: Shell, model_server: ModelServer, name: str) -> None:
    content, words = BROKEN[name]
    write(name, content)
    for command in (["eval", name, *CRIT], ["datasets", "check", name, *CRIT], ["datasets", "import", name]):
        done = shell.run(*command)
        assert done.code == 2, (command, done.err)
        assert words in done.err
        assert "bug" not in done.err
    assert model_server.requests() == []


def test_a_file_of_which_no_row_can_be_used_by_the_run_is_2_before_anything_starts(
    shell: Shell, model_server: ModelServer
) -> None:
    for content, options, words in [
        (
            rows(3),
            (),
            "--crit (/defaults/eval_crit): No row can be used: profile 'criteria' needs eval_crit",
        ),
        ('{"frage": "Was?"}\n', CRIT, "No row can be used. Line 1: No column fills a field"),
        (rows(2, iter_max=99), CRIT, "Error: No row can be used. Lines 1 to 2: iter_max"),
    ]:
        file = write("rows.jsonl", content)
        for command in ("eval", "datasets check"):
            done = shell.run(*command.split(), file, *options)
            assert done.code == 2, done.err
            assert words in " ".join(done.err.split())
            assert "--iter-max" not in done.err, "what rows say is no option's fault"
    assert shell.run("runs", "list", "--json").data["data"] == []
    assert model_server.requests() == []


def test_a_hostile_file_does_not_act_on_the_terminal(office: Shell, provider: ModelServer) -> None:
    evil = "\x1b[2J\u202e[bold]x"
    file = write("rows.jsonl", rows(1) + json.dumps({"custom_id": evil, "instruct": evil, evil: 1, "iter_max": evil}))
    for command in (["eval", file, *CRIT, "--name", "[red]\u202ename"], ["runs"], ["runs", "show"], ["runs", "export"]):
        _, screen = office.on_terminal(*command, width=200)
        assert "\u202e" not in screen
        assert "\x1b[2J" not in screen


def test_on_a_terminal_progress_is_a_bar_with_figures(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["a"], evaluate=[0.9], latency_s=0.3)
    code, screen = office.on_terminal("eval", rows_file(10), *CRIT, "--max-in-flight", "2", width=140)
    assert code == 0
    for part in ("━", "of 10 done", "in flight", "accepted 100.0 %", " left"):
        assert part in screen
    assert screen.count("\x1b[?25l") == screen.count("\x1b[?25h"), "the cursor is back"


def test_defaults_are_a_file_or_the_json_itself(office: Shell, provider: ModelServer) -> None:
    rows = rows_file(1)
    Path("defaults.json").write_text('{"iter_max": 2}')
    for defaults in ("defaults.json", '{"iter_max": 2}'):
        done = office.run("eval", rows, *CRIT, "--defaults", defaults, "--json")
        assert (done.code, done.data["run"]["defaults"]["iter_max"]) == (0, 2), done.err
    broken = office.run("eval", rows, *CRIT, "--defaults", '{"iter_max": 2')
    assert (broken.code, "the value is not JSON" in broken.err) == (2, True)


def test_a_wrong_rubric_is_told_once_by_the_id_of_its_criterion(shell: Shell) -> None:
    Path("rubric.json").write_text('[{"id": "brief", "kind": "check", "check": {"kind": "max_wrds", "value": 3}}]')
    done = shell.run("eval", rows_file(1), "--rubric", "rubric.json")
    assert done.code == 2
    assert done.err.count("max_wrds") == 1
    assert "criterion 'brief': there is no check 'max_wrds'" in done.err


def test_a_refused_run_leaves_no_dataset_behind(office: Shell) -> None:
    before = office.run("datasets", "list", "--json").data["data"]
    assert office.run("eval", write("typo.json", '[{"instruct": "a", "iter_mx": 2, "eval_crit": ""}]')).code == 2
    hook = ("--webhook", "https://hooks.example/runs", "--detach")
    refused = office.run("eval", rows_file(1, reference="new"), *CRIT, *hook)
    assert refused.code == 2
    assert "--webhook (/webhook): " in refused.err
    assert "Also set the secret in this shell" in refused.err
    assert office.run("datasets", "list", "--json").data["data"] == before


def test_attachments_of_rows_reach_the_models(office: Shell, provider: ModelServer) -> None:
    write("a.png", PNG)
    file = rows_file(1, attachments=["a.png", attachment(PDF, "application/pdf", title="Notes")])
    asked = len(provider.requests("generate"))
    done = office.run("eval", file, *CRIT, "--json")
    assert done.data["run"]["counts"]["succeeded"] == 1, done.err
    sent = json.dumps(provider.requests("generate")[asked].body)
    assert attachment(PNG)["data"] in sent
    assert attachment(PDF)["data"] in sent
