"""`redraft observations export` and `redraft observations ranks`."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from redraft.domain.jobs.requests import Source
from redraft.operations.services import Services
from tests.model_server.server import ModelServer
from tests.support.rows.observed import add_observation
from tests.support.shells import Shell

START = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def observed(home: Services, add_job: Callable[..., str]) -> list[str]:
    """Ten observations, one a day: of rank 1 eight are cited, of rank 2 one."""
    job_id = add_job()
    return [
        add_observation(home.database, job_id, n, cited=(n >= 2, n == 5), at=START + timedelta(days=n))
        for n in range(10)
    ]


def test_a_jobs_way_from_its_sources_to_the_report(
    shell: Shell, model_server: ModelServer, add_job: Callable[..., str]
):
    model_server.script(generate=["The Aare flows through Bern [Source 1]."], evaluate=[0.9])
    first = Source(content="The Aare flows through Bern.", relevance_score=0.03, chunk_id="c1")
    second = Source(content="Basel lies on the Rhine.", relevance_score=0.02)
    add_job("Where does the Aare flow?", is_done=True, sources=[first, second])
    done = shell.run("observations", "export")
    line = json.loads(done.out)
    assert (line["query"], line["final_score"]) == ("Where does the Aare flow?", 0.9)
    assert [(each["chunk_id"], each["rank"], each["cited"]) for each in line["sources"]] == [
        ("c1", 1, True),
        (None, 2, False),
    ]
    words = shell.run("observations", "ranks").out
    assert "Rank 1 was cited in 1 of 1 accepted answer (100 %, 95 % interval 21 to 100 %)." in words
    assert "Mean relevance score: 0.03 of cited sources, 0.02 of other sources." in words
    assert "1 observation is too few for a conclusion. At least 30 are needed." in words


def test_an_export_is_lines_on_stdout_or_in_a_file(shell: Shell, observed: list[str], tmp_path: Path):
    done = shell.run("observations", "export")
    assert (done.code, done.err) == (0, "")
    assert [json.loads(line)["id"] for line in done.out.splitlines()] == observed
    days = ("--after", "2026-11-03", "--before", "2026-11-05T12:00:01+00:00")
    assert [json.loads(line)["id"] for line in shell.run("observations", "export", *days).out.splitlines()] == observed[
        2:5
    ]
    file = tmp_path / "observations.jsonl"
    done = shell.run("observations", "export", "--output", str(file), *days)
    assert (done.code, done.out) == (0, "")
    assert f"Wrote 3 observations to {file.name}." in done.err.replace(f"{tmp_path}/", "")
    assert [json.loads(line)["id"] for line in file.read_text("utf-8").splitlines()] == observed[2:5]
    twice = shell.run("observations", "export", "--output", str(file), "--output", str(tmp_path / "other"))
    assert (twice.code, "more than once" in twice.err) == (2, True)
    wrong = shell.run("observations", "export", "--output", str(tmp_path / "no" / "file"))
    assert wrong.code == 2
    assert "cannot be written" in wrong.err


def test_the_report_is_a_table_and_a_sentence(shell: Shell, observed: list[str]):
    lines = shell.run("observations", "ranks").out.splitlines()
    assert lines[0].split() == ["rank", "offered", "cited", "share", "95", "%", "interval"]
    assert [line.split()[:3] for line in lines[1:3]] == [["1", "10", "8"], ["2", "10", "1"]]
    assert lines[3] == "Rank 1 was cited in 8 of 10 accepted answers (80 %, 95 % interval 49 to 94 %)."
    assert lines[5] == "10 observations are too few for a conclusion. At least 30 are needed."
    data = shell.run("observations", "ranks", "--json").data
    assert (data["observations"], data["observations_needed"], len(data["ranks"])) == (len(observed), 30, 2)
    assert data["ranks"][0]["share"]["value"] == 0.8
    code, screen = shell.on_terminal("observations", "ranks", width=80)
    assert code == 0
    assert "49 to 94 %" in screen


def test_enough_observations_are_not_called_too_little(home: Services, shell: Shell, add_job: Callable[..., str]):
    job_id = add_job()
    add_observation(home.database, job_id, 30, cited=(None,))
    done = shell.run("observations", "ranks")
    assert (done.out, done.err) == ("", "Not counted: 1 observation of structured answers, which have no citations.\n")
    for n in range(30):
        add_observation(home.database, job_id, n, cited=(True,))
    done = shell.run("observations", "ranks")
    assert "too few" not in done.out
    assert "- of other sources" in done.out
    assert "Not counted: 1 observation of structured answers, which have no citations." in done.err


def test_the_empty_state_says_how_to_get_one(shell: Shell):
    for command in ("export", "ranks"):
        done = shell.run("observations", command)
        assert (done.code, done.out) == (0, "")
        assert "No observations yet" in done.err
        assert '"relevance_score": 0.83' in done.err
        assert (
            "There is no observation in this period" in shell.run("observations", command, "--before", "2000-01-01").err
        )
    assert shell.run("observations", "ranks", "--json").data["ranks"] == []


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "1767225600"])
def test_a_date_that_is_none_is_refused(shell: Shell, text: str):
    done = shell.run("observations", "export", "--after", text)
    assert (done.code, done.out) == (2, "")
    assert "--after" in done.err
