"""`redraft datasets …`: what a run would make of a file, before anything is stored or paid for."""

import json
from pathlib import Path

import pytest

from tests.cli.bulk.dataset_rows import MESSY, rows_file, write
from tests.media import PNG, attachment
from tests.model_server import ModelServer
from tests.support.shells import Shell


def test_a_messy_file_is_told_line_by_line(shell: Shell, model_server: ModelServer) -> None:
    done = shell.run("datasets", "check", write("rows.csv", MESSY), "--crit", "Right.")
    assert done.code == 6
    for part in (
        "cells separated by ';'",
        "5: 3 good, 2 bad",
        "3 generate_answer",
        "instruct = 'question'",
        "if it contains instruct: --map instruct=instrct",
        "1 row with the id of an earlier row",
        "reference in 2 rows",
        "at most 27, without retries after failures",
        "unknown: the price of openai:judge, openai:writer is unknown; set it in REDRAFT_PRICES",
        "Line 8 as a request",
        "instruct: two lines",
        "line 6: custom_id 'a' is on line 2 already.",
        "line 7: The row has 2 cells",
    ):
        assert part in done.out, part
    assert model_server.requests() == []
    assert shell.run("datasets", "list", "--json").data["data"] == []


def test_a_check_as_json_counts_calls_and_cost_at_most(shell: Shell) -> None:
    prices = json.dumps({"openai:writer": {"input": 1, "output": 2}, "openai:judge": {"input": 1, "output": 2}})
    done = shell.run(
        *("datasets", "check", rows_file(2), "--crit", "Right.", "--iter-max", "1", "--max-output-tokens", "100"),
        "--json",
        REDRAFT_PRICES=prices,
    )
    assert (done.code, done.data["calls_max"], done.data["good"]) == (0, 6, 2)
    assert float(done.data["cost_max_usd"]) > 0


def test_a_check_shows_each_criterion_of_a_row_on_a_line(shell: Shell) -> None:
    rubric = [{"id": "kind", "text": "Is kind.", "weight": 2}, {"id": "a", "text": "Names " + "a city, " * 9 + "too."}]
    row = {"instruct": "Why?", "rubric": rubric, "metadata": {"team": "größer"}}
    file = write("rows.jsonl", json.dumps(row) + "\n")
    lines = shell.run("datasets", "check", file).out.splitlines()
    at = lines.index("  rubric (! required, #id, *weight):")
    assert lines[at + 1 : at + 3] == ["    #kind *2 Is kind.", f"    #a {rubric[1]['text']}"]
    assert '  metadata: {"team": "größer"}' in lines


def test_a_check_counts_what_checks_candidates_and_judges_make_of_it(shell: Shell) -> None:
    def calls(*options: str) -> int:
        return shell.run("datasets", "check", rows_file(1), "--iter-max", "1", "--json", *options).data["calls_max"]

    assert calls("--check", "max_words=9") == 1
    assert calls("--crit", "x") == 3
    assert calls("--crit", "x", "--candidates", "2") == 6
    assert calls("--crit", "x", "--panel", "openai:a", "--panel", "openai:b") == 5


def test_templates_without_vars_are_told(shell: Shell) -> None:
    file = write("rows.jsonl", '{"instruct": "Say {{ name }}."}\n')
    assert "1 row with braces and no vars" in shell.run("datasets", "check", file, "--crit", "x").out
    write("defaults.json", '{"vars": {"name": "Ada"}}')
    done = shell.run("datasets", "check", file, "--crit", "x", "--defaults", "defaults.json")
    assert (done.code, "instruct: Say Ada." in done.out) == (0, True)


def test_a_column_that_never_comes_is_told(shell: Shell) -> None:
    done = shell.run("datasets", "check", rows_file(1), "--crit", "x", "--map", "reference=gold")
    assert "missing columns" in done.out
    assert "'gold'" in done.out
    assert (
        "no row has the column 'gold'" in shell.run("datasets", "import", "rows.jsonl", "--map", "reference=gold").err
    )


def test_rows_of_which_none_can_be_used_are_2(shell: Shell) -> None:
    done = shell.run("datasets", "check", rows_file(2))
    assert done.code == 2
    assert done.err.count("needs eval_crit or a rubric") == 1
    assert "No row can be used" in done.err
    assert "Add criteria: --crit 'Correct and complete.', --check max_words=60" in done.err
    assert "eval_crit" not in done.out


def test_equal_errors_are_shown_once_with_their_lines(shell: Shell) -> None:
    write("rows.csv", "custom_id,question,iter_max\n" + "".join(f"r{line},Why?,none\n" for line in range(2, 10)))
    bad = shell.run("datasets", "check", "rows.csv", "--crit", "x")
    assert (bad.code, bad.err.count("iter_max"), "iter_max: " in bad.out) == (2, 1, False)
    assert "Lines 2 to 9: iter_max" in bad.err
    with Path("rows.csv").open("a") as file:
        file.write("good,Why?,1\nbad,Why?,none\n")
    mixed = shell.run("datasets", "check", "rows.csv", "--crit", "x")
    assert (mixed.code, mixed.out.count("iter_max: ")) == (6, 1)
    assert "lines 2 to 9, 11: iter_max" in mixed.out


def test_unused_columns_are_shown_with_the_options_that_map_them(shell: Shell) -> None:
    write("rows.csv", "question,team\nWhy?,docs\n")
    ways = "To fill a field: --map FIELD=team. To keep the column in the results: --map metadata.team=team"
    out = shell.run("datasets", "check", "rows.csv", "--crit", "x").out
    assert ("'team' in 1 row\n" in out, ways in out, "stream" in out) == (True, True, False)
    assert f"Unused columns: 'team'. {ways}" in shell.run("datasets", "import", "rows.csv").err
    kept = shell.run("datasets", "import", "rows.csv", "--map", "metadata.team=team")
    assert "Unused" not in kept.err
    rows = shell.run("datasets", "show", kept.out.strip(), "--json").data["items"]
    assert [row["fields"]["metadata"] for row in rows] == [{"team": "docs"}]


def test_the_same_rows_are_stored_once(shell: Shell) -> None:
    first = shell.run("datasets", "import", rows_file(2))
    again = shell.run("datasets", "import", "-", stdin=rows_bytes())
    assert first.code == again.code == 0
    assert first.out == again.out
    assert f"redraft eval {first.out.strip()}" in first.err
    assert "Already stored" in again.err
    assert shell.run("datasets", "import", "rows.jsonl", "--json").data["rows"] == 2


def rows_bytes() -> bytes:
    with open("rows.jsonl", "rb") as stream:  # noqa: PTH123 - the test's own folder
        return stream.read()


def test_datasets_are_listed_and_shown(shell: Shell) -> None:
    messy = shell.run("datasets", "import", write("messy.csv", MESSY)).out.strip()
    other = shell.run("datasets", "import", rows_file(3)).out.strip()
    page = shell.run("datasets", "list", "--limit", "1", "--json").data
    assert [each["id"] for each in page["data"]] == [other]
    listed = shell.run("datasets", "list", "--limit", "1")
    assert (other in listed.out, "--after" in listed.err) == (True, True)
    shown = shell.run("datasets", "show", messy[:-1])
    for part in (
        messy,
        "5, 2 of them bad",
        "instruct = 'question'",
        "'instrct'",
        "bad",
        "is on line 2 already",
        "two lines",
    ):
        assert part in shown.out
    more = shell.run("datasets", "show", "--limit", "2")
    assert f"redraft datasets show {other} --after 1" in more.err
    assert [
        row["position"] for row in shell.run("datasets", "show", other, "--after", "0", "--json").data["items"]
    ] == [1, 2]


def test_without_datasets_it_teaches_how_to_store_one(shell: Shell) -> None:
    assert "redraft eval FILE" in shell.run("datasets").err
    for text in ("latest", "ds_none", "ö"):
        done = shell.run("datasets", "show", text)
        assert (done.code, "redraft datasets list" in done.err) == (5, True)


@pytest.mark.parametrize("verb", ["check", "import"])
def test_a_file_that_is_not_there_is_5_and_what_is_no_file_is_2(shell: Shell, verb: str) -> None:
    assert shell.run("datasets", verb, "absent.csv").code == 5
    assert shell.run("datasets", verb, ".").code == 2


def test_files_beside_the_dataset_are_attached(shell: Shell) -> None:
    Path("rows").mkdir()
    write("rows/a.png", PNG)
    rows = [
        {"custom_id": "base64", "instruct": "Go.", "attachments": [attachment(PNG)]},
        {"custom_id": "path", "instruct": "Go.", "attachments": ["a.png"]},
        {"custom_id": "outside", "instruct": "Go.", "attachments": ["../a.png"]},
    ]
    file = write("rows/rows.jsonl", "".join(json.dumps(each) + "\n" for each in rows))
    checked = shell.run("datasets", "check", file, "--crit", "x")
    assert checked.code == 6
    assert "line 3: attachments.0: '../a.png' must be relative" in checked.out
    samples = shell.run("datasets", "check", file, "--crit", "x", "--json").data["samples"]
    shown = [each for sample in samples for each in sample["attachments"]]
    assert [(each["media_type"], each["size"], "data" in each) for each in shown] == [
        ("image/png", len(PNG), False)
    ] * 2
    dataset = shell.run("datasets", "import", file).out.strip()
    items = shell.run("datasets", "show", dataset, "--json").data["items"]
    sent = [each["fields"] and each["fields"]["attachments"] for each in items]
    assert sent == [[attachment(PNG)], [attachment(PNG, title="a.png")], None]
    piped = shell.run("datasets", "check", "-", "--crit", "x", stdin=json.dumps(rows[1]))
    assert (piped.code, "read only on the command line, from the folder" in piped.err) == (2, True)
