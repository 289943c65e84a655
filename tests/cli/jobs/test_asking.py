"""`redraft ask`: from the task to the answer, beside a worker that runs elsewhere."""

import json
import time
from pathlib import Path

import pytest

from redraft.cli.backends.local_events import Wakeups, follow
from redraft.errors import RedraftError
from redraft.operations.jobs import queries
from redraft.operations.services import Services
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.shells import Shell
from tests.support.waiting import patient

CRIT = ("--crit", "Names the city.")


def test_the_answer_alone_goes_to_stdout_and_the_iterations_to_stderr(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["Lyon", "Paris"], evaluate=[0.4, 0.9])
    done = office.run("ask", "Capital of France?", *CRIT)
    assert (done.code, done.out) == (0, "Paris\n")
    for words in ("Iteration 1 of at most 3", "score 0.40", "Iteration 2", "score 0.90", "accepted", "4 calls"):
        assert words in done.err


def test_json_prints_the_whole_job_with_its_iterations(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["one", "two"], evaluate=[0.1, 0.2])
    done = office.run("ask", "Count.", *CRIT, "--json", "--iter-max", "2", "--threshold", "1", "--meta", "team=docs")
    assert done.code == 0
    job = done.data
    assert [each["answer"] for each in job["iterations"]] == ["one", "two"]
    assert job["result"]["final_answer"] == "two"
    assert (job["stop_reason"], job["metadata"]) == ("iteration_limit", {"team": "docs"})
    assert job["request"]["score_threshold"] == 1


def test_each_option_becomes_its_field(office: Shell, provider: ModelServer) -> None:
    options = ["--format", "short", "--crit", "good", "--iter-max", "1", "--threshold", "0", "--model", "openai:a"]
    options += ["--model", "openai:b", "--evaluator-model", "openai:c", "--candidates", "2", "--strategy", "fresh"]
    options += ["--deadline", "50", "--temperature", "1", "--max-output-tokens", "99", "--system", "Be kind."]
    options += ["--top-p", "0.5", "--seed", "7", "--reasoning-effort", "low", "--evaluator-temperature", "0"]
    options += ["--evaluator-max-output-tokens", "900", "--evaluator-reasoning-effort", "high", "--evaluator-seed", "8"]
    options += ["--evaluator-top-p", "0.9", "--reference", "Paris", "--max-tokens", "99000", "--cache", "--json"]
    request = office.run("ask", "Go.", *options).data["request"]
    assert request["model"] == ["openai:a", "openai:b"]
    assert (request["resp_format"], request["eval_crit"], request["candidates"]) == ("short", "good", 2)
    assert (request["iter_max"], request["score_threshold"], request["evaluator_model"]) == (1, 0, "openai:c")
    assert request["revision"] == {"strategy": "fresh", "from": "best"}
    assert request["limits"] == {"deadline_s": 50, "max_cost_usd": None, "max_tokens": 99000}
    assert request["cache"] == "use"
    names = ("temperature", "top_p", "max_output_tokens", "reasoning_effort", "seed")
    assert request["sampling"] == dict(zip(names, (1, 0.5, 99, "low", 7), strict=True))
    assert request["evaluator_sampling"] == dict(zip(names, (0, 0.9, 900, "high", 8), strict=True))
    assert (request["system_instructions"], request["reference"]) == ("Be kind.", "Paris")


def test_a_schema_is_read_from_a_file(office: Shell, provider: ModelServer, tmp_path: Path) -> None:
    file = tmp_path / "city.json"
    file.write_text(json.dumps({"type": "object", "properties": {"name": {"type": "string"}}}))
    provider.script(generate=['{"name": "Bern"}'], evaluate=[0.9])
    job = office.run("ask", "Describe Bern.", *CRIT, "--schema", str(file), "--json").data
    assert job["result"]["parsed"] == {"name": "Bern"}


@pytest.mark.parametrize(("text", "told"), [("{", "--schema"), ('{"$anchor": "a"}', "--schema")])
def test_a_schema_of_no_use_is_refused(office: Shell, tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "city.json"
    file.write_text(text)
    done = office.run("ask", "Describe Bern.", *CRIT, "--schema", str(file))
    assert done.code == 2
    assert told in done.err


def test_a_request_file_is_taken_and_options_win_over_it(office: Shell, provider: ModelServer, tmp_path: Path) -> None:
    body = {"instruct": "From the file.", "eval_crit": "fine", "iter_max": 2, "metadata": {"a": "1"}}
    file = tmp_path / "request.json"
    file.write_text(json.dumps({**body, "sampling": {"temperature": 0.5}}))
    done = office.run(
        "ask", "--file", str(file), "--iter-max", "1", "--meta", "b=2", "--max-output-tokens", "9", "--json"
    )
    request = done.data["request"]
    assert (request["instruct"], request["iter_max"]) == ("From the file.", 1)
    assert request["metadata"] == {"a": "1", "b": "2"}
    named = {name: value for name, value in request["sampling"].items() if value is not None}
    assert named == {"temperature": 0.5, "max_output_tokens": 9}


@pytest.mark.parametrize("argument", [[], ["-"]])
def test_the_task_can_be_piped(office: Shell, provider: ModelServer, argument: list[str]) -> None:
    provider.script(generate=["Ça va"], evaluate=[1.0])
    done = office.run("ask", *argument, *CRIT, "--json", stdin="Grüße\nbitte\n")
    assert done.data["request"]["instruct"] == "Grüße\nbitte"


def test_without_criteria_a_default_one_is_used_and_told(office: Shell, provider: ModelServer) -> None:
    done = office.run("ask", "Hello?", "--json")
    criterion = "Answers the task completely and correctly, in the wanted form."
    assert done.data["request"]["eval_crit"] == criterion
    assert criterion in done.err


def test_a_missed_threshold_is_an_exit_code_only_when_asked_for(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["meh"], evaluate=[0.3])
    assert office.run("ask", "Try.", *CRIT, "--iter-max", "1").code == 0
    strict = office.run("ask", "Try.", *CRIT, "--iter-max", "1", "--require-accept")
    assert (strict.code, strict.out) == (3, "meh\n")
    assert "not accepted (iteration limit)" in strict.err


def test_a_refused_key_is_4_with_words_and_advice(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=[Reply(status=401, raw={"error": {"message": "Incorrect API key provided"}})])
    done = office.run("ask", "Try.", *CRIT)
    assert (done.code, done.out) == (4, "")
    assert "The provider refused the key" in done.err
    assert "redraft doctor" in done.err
    assert "Traceback" not in done.err


def test_a_deadline_without_an_answer_is_124(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=[Reply(text="late", latency_s=20)])
    done = office.run("ask", "Try.", *CRIT, "--deadline", "0.7")
    assert (done.code, done.out) == (124, "")
    assert "--deadline" in done.err


def test_an_error_after_an_answer_still_gives_the_answer(office: Shell, provider: ModelServer) -> None:
    refusal = Reply(status=400, raw={"error": {"message": "no such thing"}})
    provider.script(generate=["first", refusal], evaluate=[0.2])
    done = office.run("ask", "Try.", *CRIT)
    assert (done.code, done.out) == (0, "first\n")
    assert "The provider rejected the request" in done.err


def test_detached_it_prints_the_id_and_leaves(office: Shell, provider: ModelServer) -> None:
    left = office.run("ask", "Later.", *CRIT, "--detach")
    job_id = left.out.strip()
    assert (left.code, job_id[:4]) == (0, "job_")
    assert f"redraft jobs watch {job_id}" in left.err
    watched = office.run("jobs", "watch", job_id)
    assert (watched.code, watched.out) == (0, "draft 1\n")


def test_the_trace_context_gives_a_job_its_trace_id(office: Shell, provider: ModelServer) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    options = [*CRIT, "--detach", "--json", "--traceparent"]
    assert office.run("ask", "Later.", *options, f"00-{trace}-00f067aa0ba902b7-01").data["trace_id"] == trace
    left = office.run("ask", "Later.", *options, "nonsense")
    assert (left.data["trace_id"], "the trace context is not valid" in left.err) == (None, True)


def test_watching_a_running_job_shows_it_from_its_beginning(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=[Reply(text="slow", latency_s=0.5)], evaluate=[0.9])
    job_id = office.run("ask", "Later.", *CRIT, "--detach", "--json").data["id"]
    watched = office.run("jobs", "watch", job_id, "--json")
    assert watched.data["result"]["final_answer"] == "slow"
    assert "Iteration 1" in watched.err


def test_a_job_continues_from_where_it_was(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["a", "b"], evaluate=[0.2, 0.95])
    job_id = office.run("ask", "Try.", *CRIT, "--iter-max", "1", "--json").data["id"]
    options = ["--iter-max", "1", "--guidance", "Mention the river.", "--threshold", "0.9", "--require-accept"]
    done = office.run("jobs", "continue", job_id, *options, "--deadline", "60")
    assert (done.code, done.out) == (0, "b\n")
    assert "Iteration 2" in done.err
    assert "Iteration 1" not in done.err
    assert "Mention the river." in json.dumps(provider.requests("generate")[-1].body)


def test_a_continuation_can_be_left_to_the_worker(office: Shell, provider: ModelServer) -> None:
    job_id = office.run("ask", "Try.", *CRIT, "--json").data["id"]
    left = office.run("jobs", "continue", job_id, "--detach", "--model", "openai:other")
    assert (left.code, left.out.strip()) == (0, job_id)
    assert office.run("jobs", "watch", job_id, "--json").data["continuations"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["Hi", "--iter-max", "11"], "--iter-max (/iter_max)"),
        (["Hi", "--threshold", "2"], "--threshold (/score_threshold)"),
        (["Hi", "--strategy", "pray"], "--strategy (/revision/strategy)"),
        (["Hi", "--model", "nonsense"], "--model (/model)"),
        (["Hi", "--model", "openai:x", "--model", "nonsense"], "--model (/model/1)"),
        (["Hi", "--meta", "novalue"], "not KEY=VALUE"),
        (["   "], "INSTRUCT (/instruct)"),
        (["Hi", "--deadline", "-1"], "--deadline (/limits/deadline_s)"),
        (["Hi", "--threshold", "high"], "--threshold"),
    ],
)
def test_wrong_input_is_2_and_names_the_option(shell: Shell, arguments: list[str], words: str) -> None:
    done = shell.run("ask", *arguments)
    assert (done.code, done.out) == (2, "")
    assert words in " ".join(done.err.split())


@pytest.mark.parametrize("text", ["[]", "{", '{"answer": "x", "instruct": "Hi"}'])
def test_a_wrong_request_file_is_2(shell: Shell, tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    assert shell.run("ask", "--file", "r.json").code == 2


def test_an_unknown_field_of_a_request_file_is_told_with_the_nearest_name(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"instruct": "Hi", "iter_maxx": 3, "zzz": 1}')
    lines = shell.run("ask", "--file", "r.json").err.splitlines()
    assert "  /iter_maxx: Unknown field (did you mean 'iter_max'?)" in lines
    assert "  /zzz: Unknown field" in lines


def test_a_piped_task_must_be_text(shell: Shell) -> None:
    assert shell.run("ask", stdin=b"\xff\xfe\x00").code == 2
    assert shell.run("ask", stdin="").code == 2
    assert shell.run("ask", "--file", "-", stdin='{"iter_max": 2}').code == 2


def test_a_model_without_a_key_is_4(shell: Shell) -> None:
    done = shell.run("ask", "Hi", "--model", "anthropic:claude")
    assert done.code == 4
    assert "ANTHROPIC_API_KEY" in done.err


def test_a_broker_that_is_away_is_75_and_nothing_is_stored(shell: Shell, home: Services) -> None:
    done = shell.run("ask", "Hi", REDRAFT_BROKER_URL="redis://127.0.0.1:1/0")
    assert done.code == 75
    assert "REDRAFT_BROKER_URL" in done.err
    assert shell.run("jobs", "list", "--json").data["data"] == []


def test_without_any_worker_it_says_so(shell: Shell) -> None:
    left = shell.run("ask", "Hi", "--detach")
    assert left.code == 0
    assert "No worker is alive" in left.err


def test_waiting_ends_when_nobody_ends_the_job(home: Services, add_job) -> None:
    job_id = add_job()
    with pytest.raises(RedraftError) as caught:
        list(follow(home, job_id, 0, lambda: None, deadline_s=-100))
    assert caught.value.code == "deadline_exceeded"
    assert queries.get_job(home, job_id).status == "queued"


def test_a_model_that_judges_itself_is_told(office: Shell, provider: ModelServer) -> None:
    done = office.run("ask", "Try.", *CRIT, "--evaluator-model", "openai:writer")
    assert (done.code, done.out) == (0, "draft 1\n")
    assert "evaluates its own answers" in done.err


def test_without_wake_ups_it_looks_after_a_while(home: Services) -> None:
    away = home.settings.model_copy(update={"broker_url": "redis://127.0.0.1:1/0"})
    started_at = time.monotonic()
    with Wakeups(away, "job_x") as wakeups:
        wakeups.wait(0.1)
    assert 0.1 <= time.monotonic() - started_at < patient(1.25)


@pytest.mark.parametrize("option", ["--file", "--schema", "--rubric", "--source"])
def test_a_file_that_is_not_there_is_5_and_names_the_option(shell: Shell, option: str) -> None:
    done = shell.run("ask", "Hi", option, "absent.json")
    assert (done.code, done.out) == (5, "")
    assert f"There is no file for {option}: 'absent.json'." in done.err
