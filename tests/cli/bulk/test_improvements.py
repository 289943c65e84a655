"""`redraft runs improve`: a draft that helps, one that cannot be used, and its adoption by a person."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from redraft.domain.bulk.improvements import is_held_out
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.jobs import lifecycle, submit
from redraft.operations.services import Services
from redraft.storage.engine.bulk_tables import runs
from tests.model_server import ModelServer, Reply
from tests.model_server.requests import Asked
from tests.support.shells import Outcome, Shell

RUBRIC = [{"id": "year", "kind": "check", "text": "It is complete", "check": {"kind": "contains", "value": "1969"}}]
WORDS = "One sentence that names the year."
DRAFT: dict[str, Any] = {"reasons": "No answer names a year.", "resp_format": WORDS, "rubric": []}
IDS = [f"row-{number}" for number in range(16)]


def reply_with(draft: Any) -> Any:
    """A generator that names the year only if the form asks for it, and drafts when it is asked for reasons."""

    def respond(asked: Asked) -> Reply | None:
        if "reasons" in ((asked.schema or {}).get("properties") or {}):
            return Reply(text=json.dumps(draft))
        return Reply(text="It was 1969." if WORDS in asked.prompt else "It was long ago.")

    return respond


@pytest.fixture
def run_id(office: Shell, provider: ModelServer, tmp_path: Path) -> Iterator[str]:
    """A run of 16 rows, none of which was accepted."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(json.dumps({"custom_id": each, "instruct": f"When was {each}?"}) for each in IDS))
    provider.respond(reply_with(DRAFT))
    fields = json.dumps({"resp_format": "One sentence.", "rubric": RUBRIC, "iter_max": 1})
    done = office.run("eval", str(rows), "--defaults", fields, "--json")
    yield done.data["run"]["id"]
    provider.respond(None)


def improve(office: Shell, run_id: str, *options: str) -> Outcome:
    return office.run("runs", "improve", run_id, *options)


def test_a_draft_that_helps_is_compared_on_held_out_rows_and_adopted_by_a_person(
    office: Shell, provider: ModelServer, run_id: str, tmp_path: Path
):
    done = improve(office, run_id, "--json")
    assert done.code == 0, done.err
    held_out = [each for each in IDS if is_held_out(each)]
    assert sorted(done.data["comparison"]["newly_passing"]) == sorted(held_out)
    assert done.data["after"] == {"resp_format": WORDS}
    drafting = [text for each in provider.requests() if '"reasons"' in (text := json.dumps(each.body))][-1]
    assert "When was" in drafting
    assert [each for each in held_out if f"{each}?" in drafting] == []
    before = len(provider.requests())
    file = tmp_path / "better.json"
    assert improve(office, run_id, "--adopt", str(file)).code == 2
    adopted = improve(office, run_id, "--draft", done.data["draft"], "--adopt", str(file))
    assert (adopted.code, len(provider.requests())) == (0, before)
    assert json.loads(file.read_text()) == {"resp_format": WORDS}
    assert "- One sentence.\n+ One sentence that names the year." in adopted.out
    # The trial of a draft is not paid twice
    again = improve(office, run_id, "--draft", done.data["draft"], "--json")
    assert (again.data["runs"], len(provider.requests())) == (done.data["runs"], before)
    assert improve(office, run_id, "--draft", done.data["runs"][0]).code == 5
    assert "All rows of the run are held out" in improve(office, done.data["runs"][0]).err


def test_a_draft_that_cannot_be_used_starts_no_run(office: Shell, provider: ModelServer, run_id: str):
    provider.respond(reply_with({**DRAFT, "resp_format": "One sentence."}))
    done = improve(office, run_id)
    assert done.code == 2
    assert "It changes nothing." in done.err
    assert office.run("runs", "list", "--json").data["data"][0]["id"] == run_id


def test_a_long_draft_is_cut_on_the_screen_and_one_over_a_limit_is_refused(
    office: Shell, provider: ModelServer, run_id: str
):
    provider.respond(reply_with({**DRAFT, "resp_format": "x" * 200_001}))
    done = improve(office, run_id)
    assert done.code == 2
    assert "must have at most 200000 characters" in done.err
    provider.respond(reply_with({**DRAFT, "resp_format": "x" * 5000, "reasons": "y" * 5000}))
    assert improve(office, run_id).out.count("(5,000 characters)") == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--max-in-flight", "0"), "max-in-flight"),
        (("--max-cost", "0"), "max-cost"),
        (("--max-cost", "2000000"), "max-cost"),
        (("--model", "nobody:model"), "nobody"),
        (("--draft", "job_none"), "job_none"),
    ],
)
def test_a_wrong_option_is_refused_before_the_draft_is_paid(
    office: Shell, provider: ModelServer, run_id: str, options: tuple[str, str], words: str
):
    before = len(provider.requests())
    done = improve(office, run_id, *options)
    assert done.code in {2, 5}
    assert words in done.err
    assert len(provider.requests()) == before


def test_a_job_that_drafts_for_no_run_is_no_draft(office: Shell, provider: ModelServer, run_id: str):
    office.run("ask", "When?", "--crit", "True.", "--detach")
    assert f"is no draft for {run_id}" in improve(office, run_id, "--draft", "latest").err


def test_a_draft_that_has_not_ended_is_named_so(
    staffed: tuple[Services, ModelServer], office: Shell, provider: ModelServer, run_id: str
):
    services = staffed[0]
    provider.respond(lambda _: Reply(latency_s=20))
    request = GenerateAnswer(instruct="Draft.", eval_crit="It is good.", metadata={"improves": run_id})
    job = submit.submit(services, request).job.id
    done = improve(office, run_id, "--draft", job)
    assert f"{job} has not ended" in done.err
    lifecycle.cancel(services, job)
    done = improve(office, run_id, "--draft", job)
    assert (done.code, "was canceled before it had a draft" in done.err) == (2, True)


def test_a_run_of_given_answers_is_refused(office: Shell, provider: ModelServer, tmp_path: Path):
    rows = tmp_path / "rows.jsonl"
    given = {"instruct": "When?", "answer": "It was long ago."}
    rows.write_text("\n".join(json.dumps({"custom_id": each, **given}) for each in IDS[:4]))
    run = office.run("eval", str(rows), "--defaults", json.dumps({"rubric": RUBRIC}), "--json").data["run"]["id"]
    before = len(provider.requests())
    done = improve(office, run)
    assert (done.code, len(provider.requests())) == (2, before)
    assert "only evaluates given answers" in done.err


@pytest.mark.parametrize(
    ("ids", "defaults", "row", "words"),
    [
        ([each for each in IDS if not is_held_out(each)][:2], {"rubric": RUBRIC}, {}, "No row is held out."),
        (IDS[:2], {}, {"rubric": RUBRIC, "resp_format": "Short."}, "so there is no common text to improve"),
        (IDS, {"rubric": [{**RUBRIC[0], "check": {"kind": "contains", "value": "long"}}]}, {}, "was accepted, so"),
    ],
    ids=["too_few_rows", "nothing_to_improve: no common text", "nothing_to_improve: all accepted"],
)
def test_a_run_without_anything_to_improve_is_refused(
    office: Shell, provider: ModelServer, tmp_path: Path, ids: list[str], defaults: Any, row: Any, words: str
):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(json.dumps({"custom_id": each, "instruct": "When?", **row}) for each in ids))
    provider.respond(reply_with(DRAFT))
    fields = json.dumps({**defaults, "iter_max": 1})
    run = office.run("eval", str(rows), "--defaults", fields, "--json").data["run"]["id"]
    done = improve(office, run)
    provider.respond(None)
    assert (done.code, words in done.err) == (2, True), done.err


def test_a_run_by_batches_is_tried_by_batches(
    staffed: tuple[Services, ModelServer], office: Shell, provider: ModelServer, run_id: str
):
    with staffed[0].database.write() as connection:
        connection.execute(update(runs).values(delivery="batch").where(runs.c.id == run_id))
    done = improve(office, run_id)
    # The provider of these tests has no batch endpoint, and a live run would not need one
    assert (done.code, "has no batch endpoint" in done.err) == (2, True)


def test_reworded_criteria_of_a_model_are_not_their_own_measure(office: Shell, provider: ModelServer, tmp_path: Path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(json.dumps({"custom_id": each, "instruct": "Why?"}) for each in IDS[:4]))
    lenient = {**DRAFT, "resp_format": "", "rubric": [{"id": "good", "text": "Anything goes"}]}
    drafting = reply_with(lenient)
    provider.respond(
        lambda asked: (
            Reply(score=float("Anything goes" in asked.prompt)) if asked.role == "evaluate" else drafting(asked)
        )
    )
    fields = json.dumps({"rubric": [{"id": "good", "text": "It is good"}], "iter_max": 1})
    run = office.run("eval", str(rows), "--defaults", fields, "--json").data["run"]["id"]
    done = improve(office, run)
    provider.respond(None)
    assert done.code == 0, done.err
    assert "the old request evaluates the answers of both runs" in done.err
    assert "No row passes in one run only." in done.out
    assert "too few to tell" in done.err


def test_a_draft_does_not_win_by_rows_without_an_answer(office: Shell, provider: ModelServer, tmp_path: Path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(json.dumps({"custom_id": each, "instruct": f"When was {each}?"}) for each in IDS))
    held_out = [each for each in IDS if is_held_out(each)]
    answered = set(held_out[:3])
    drafting = reply_with(DRAFT)

    def respond(asked: Asked) -> Reply | None:
        is_known = any(f"{each}?" in asked.prompt for each in answered)
        if asked.role == "evaluate":
            return Reply(score=float(is_known))
        is_draft = "reasons" in ((asked.schema or {}).get("properties") or {})
        return Reply(status=400) if WORDS in asked.prompt and not is_known and not is_draft else drafting(asked)

    provider.respond(respond)
    fields = json.dumps({"resp_format": "Short.", "rubric": [{"id": "good", "text": "It is good"}], "iter_max": 1})
    run = office.run("eval", str(rows), "--defaults", fields, "--json").data["run"]["id"]
    done = improve(office, run, "--json")
    assert done.code == 6
    found = done.data["comparison"]
    assert (found["n"], found["pass_rate"]["value"], found["verdicts"]["lost"]) == (len(held_out), 0, [])
    assert f"0 of the old request, {len(held_out) - 3} of the draft" in done.err
    answered.clear()
    done = improve(office, run, "--draft", done.data["draft"])
    provider.respond(None)
    assert done.code == 2
    assert f"draft: no row of {len(held_out)} has an answer" in done.err
