"""`redraft jobs …`: look, narrow, cancel, delete; ids as people type them."""

import json
import re
from collections.abc import Callable

import pytest

from redraft.operations.services import Services
from tests.model_server.server import ModelServer
from tests.support.shells import Shell, drain

AddJob = Callable[..., str]


def test_without_jobs_it_teaches_how_to_make_one(shell: Shell) -> None:
    for arguments in (["jobs"], ["jobs", "list"], ["jobs", "list", "--status", "failed"]):
        done = shell.run(*arguments)
        assert (done.code, done.out) == (0, "")
        assert "No jobs yet. Try: redraft ask" in done.err
    assert shell.run("jobs", "list", "--json").data == {"data": [], "next_cursor": None}


def test_the_newest_id_of_none_is_not_found(shell: Shell) -> None:
    done = shell.run("jobs", "show")
    assert done.code == 5
    assert "redraft ask" in done.err


def test_a_line_tells_state_score_iterations_model_and_task(shell: Shell, add_job: AddJob) -> None:
    job_id = add_job("Say\n hello. [bold]", is_done=True)
    (line,) = [line for line in shell.run("jobs").out.splitlines() if job_id in line]
    for part in ("✓ accepted", "0.90/0.80", "1/3", "openai:writer", "Say hello. [bold]"):
        assert part in line


def test_an_export_has_a_line_for_each_job_that_matches(shell: Shell, add_job: AddJob) -> None:
    assert shell.run("jobs", "export").out == ""
    first, second = add_job("One\u2028job", is_done=True), add_job("Another")
    lines = [json.loads(line) for line in shell.run("jobs", "export").out.splitlines()]
    assert [line["id"] for line in lines] == [second, first]
    assert lines[1]["result"]["final_answer"]
    (line,) = shell.run("jobs", "export", "--status", "queued").out.splitlines()
    assert json.loads(line)["id"] == second


def test_a_missed_threshold_is_told_apart(shell: Shell, add_job: AddJob) -> None:
    add_job(score_threshold=1.0, iter_max=1, is_done=True)
    assert "≈ not accepted (iteration limit)" in shell.run("jobs").out


def test_the_list_is_narrowed_by_each_filter(shell: Shell, add_job: AddJob) -> None:
    done = add_job(is_done=True, metadata={"team": "docs"})
    queued = add_job(model="openai:other")
    narrowed = {
        ("--status", "queued"): [queued],
        ("--status", "queued", "--status", "succeeded"): [queued, done],
        ("--stop-reason", "accepted"): [done],
        ("--kind", "generate_answer"): [queued, done],
        ("--kind", "generate"): [queued, done],
        ("--kind", "evaluate_answer"): [],
        ("--model", "openai:other"): [queued],
        ("--meta", "team=docs"): [done],
        ("--limit", "1"): [queued],
    }
    for options, ids in narrowed.items():
        assert [job["id"] for job in shell.run("jobs", "list", *options, "--json").data["data"]] == ids, options
    assert "No job matches" in shell.run("jobs", "list", "--kind", "evaluate_answer").err


def test_pages_follow_each_other(shell: Shell, add_job: AddJob) -> None:
    ids = [add_job() for _ in range(3)]
    first = shell.run("jobs", "list", "--limit", "2", "--json").data
    rest = shell.run("jobs", "list", "--limit", "2", "--after", first["next_cursor"], "--json").data
    assert [job["id"] for job in first["data"] + rest["data"]] == ids[::-1]
    filters = ("--status", "queued", "--kind", "generate")
    more = shell.run("jobs", "list", "--limit", "2", *filters).err
    assert f"redraft jobs list {' '.join(filters)} --after {first['next_cursor']}" in more


@pytest.mark.parametrize(
    "options",
    [
        ["--status", "odd"],
        ["--stop-reason", "odd"],
        ["--kind", "odd"],
        ["--model", "odd"],
        ["--meta", "odd"],
        ["--limit", "0"],
        ["--after", "odd"],
    ],
)
def test_a_wrong_filter_is_2(shell: Shell, options: list[str]) -> None:
    done = shell.run("jobs", "list", *options)
    assert (done.code, done.out) == (2, "")


def test_ids_may_be_shortened_while_they_are_unique(shell: Shell, add_job: AddJob) -> None:
    first, second = add_job(), add_job()
    differs_at = next(i for i in range(len(first)) if first[i] != second[i])
    for text in (first, first[: differs_at + 1], first.removeprefix("job_")[: differs_at - 3]):
        assert shell.run("jobs", "show", text, "--json").data["id"] == first
    assert shell.run("jobs", "show", "latest", "--json").data["id"] == second
    assert shell.run("jobs", "show", "--json").data["id"] == second
    ambiguous = shell.run("jobs", "show", first[:differs_at])
    assert ambiguous.code == 2
    assert "write more of" in ambiguous.err


def test_the_label_name_is_a_reference_while_one_job_has_it(shell: Shell, add_job: AddJob) -> None:
    first = add_job(metadata={"name": "my answer"})
    assert shell.run("jobs", "show", "my answer", "--json").data["id"] == first
    add_job(metadata={"name": "my answer"})
    several = shell.run("jobs", "show", "my answer")
    assert (several.code, "use an id" in several.err) == (2, True)


def test_the_page_of_a_job_tells_model_calls_and_waiting_apart(shell: Shell, add_job: AddJob) -> None:
    add_job(is_done=True)
    (took,) = [line for line in shell.run("jobs", "show").out.splitlines() if line.startswith("took")]
    assert re.search(r"s: [\d.]+ s in model calls, [\d.]+ s waiting for a worker, a retry or a limit$", took)
    add_job()
    assert "took" not in shell.run("jobs", "show").out


@pytest.mark.parametrize("text", ["job_nope", "", " ", "ü"])
def test_an_unknown_id_is_5(shell: Shell, add_job: AddJob, text: str) -> None:
    add_job()
    for command in ("show", "watch", "cancel", "continue", "calls", "diff", "delete"):
        assert shell.run("jobs", command, text).code == 5


def test_show_tells_the_whole_story(shell: Shell, add_job: AddJob, model_server: ModelServer) -> None:
    model_server.script(generate=["Hi.", "Hello!"], evaluate=[0.4, 0.9])
    job_id = add_job("Say hello.", resp_format="One word.", metadata={"a": "b"}, is_done=True)
    page = shell.run("jobs", "show", job_id).out
    story = ["Say hello.", "One word.", "Friendly.", "Iteration 1", "Hi.", "score 0.40", "Iteration 2", "score 0.90"]
    positions = [page.index(words) for words in story]
    assert positions == sorted(positions)
    for words in ("a=b", "openai:judge", "accepted", "4 calls"):
        assert words in page


def test_a_diff_tells_what_an_iteration_changed(shell: Shell, add_job: AddJob, model_server: ModelServer) -> None:
    model_server.script(
        generate=["The sky is blue.", "The sky looks blue.", "The sea \x1b[31mlooks blue."], evaluate=[0.4, 0.5, 0.9]
    )
    job_id = add_job(is_done=True)
    done = shell.run("jobs", "diff", job_id, "--from", "1", "--to", "2")
    assert (done.code, done.out) == (0, "The sky [-is -]{+looks +}blue.\n")
    assert "From iteration 1 to 2" in done.err
    assert "{+sea" in shell.run("jobs", "diff").out
    for options in (["--from", "1", "--to", "2"], ["--to", "2"]):
        data = shell.run("jobs", "diff", job_id, *options, "--json").data
        assert (data["from_iteration"], data["to_iteration"]) == (1, 2)
    assert [part["kind"] for part in data["parts"]] == ["equal", "delete", "insert", "equal"]
    assert shell.run("jobs", "diff", job_id, "--from", "9").code == 5
    assert shell.run("jobs", "diff", job_id, "--to", "0").code == 2
    assert shell.run("jobs", "diff", add_job("Once", iter_max=1, is_done=True)).code == 5


def test_a_page_names_whose_answers_are_judged_and_that_code_alone_judges(
    shell: Shell, home: Services, add_job: AddJob, model_server: ModelServer
) -> None:
    checks = [{"id": "short", "kind": "check", "check": {"kind": "max_words", "value": 9}}]
    job_id = add_job(rubric=checks, is_done=True)
    page = shell.run("jobs", "show", job_id).out
    assert re.search(r"evaluator +checks only\n", page)
    assert re.search(r"usage +1 call, ", page)
    again = shell.run("jobs", "rescore", job_id).out.strip()
    drain(home)
    assert re.search(rf"answers of +{job_id}\n", shell.run("jobs", "show", again).out)
    lines = shell.run("jobs", "list").out.splitlines()
    assert [line.split()[1] for line in lines] == ["kind", "rescore", "generate"]


def test_an_evaluation_that_failed_is_shown_as_such(shell: Shell, add_job: AddJob, model_server: ModelServer) -> None:
    model_server.script(evaluate=["no json at all"])
    job_id = add_job(iter_max=1, is_done=True)
    assert "could not be evaluated" in shell.run("jobs", "show", job_id).out
    watched = shell.run("jobs", "watch", job_id)
    assert (watched.code, watched.out) == (0, "draft 1\n")
    assert "could not be evaluated" in watched.err


def test_watching_an_ended_job_replays_it(shell: Shell, add_job: AddJob) -> None:
    job_id = add_job(score_threshold=1.0, iter_max=1, candidates=2, is_done=True)
    watched = shell.run("jobs", "watch", job_id, "--require-accept")
    assert watched.code == 3
    assert watched.out.startswith("draft ")
    assert "candidate 2" in watched.err
    assert shell.run("jobs", "watch", job_id, "--json").data["status"] == "succeeded"


def test_cancel_ends_a_job_once(shell: Shell, add_job: AddJob) -> None:
    job_id = add_job()
    assert shell.run("jobs", "cancel", job_id).err == f"Canceled {job_id}.\n"
    again = shell.run("jobs", "cancel", job_id, "--json")
    assert (again.code, again.data["status"]) == (0, "canceled")
    assert "had already ended" in again.err
    assert shell.run("jobs", "watch", job_id).code == 130


def test_only_an_ended_job_can_be_deleted_or_continued(shell: Shell, add_job: AddJob) -> None:
    job_id = add_job()
    for command in ("delete", "continue"):
        refused = shell.run("jobs", command, job_id)
        assert refused.code == 1
        assert "queued" in refused.err


def test_delete_takes_everything_with_it(shell: Shell, add_job: AddJob) -> None:
    job_id = add_job(is_done=True)
    assert shell.run("jobs", "delete", job_id, "--json").data == {"id": job_id, "deleted": True}
    assert shell.run("jobs", "show", job_id).code == 5


def test_calls_are_the_ledger(shell: Shell, add_job: AddJob) -> None:
    job_id = add_job(is_done=True)
    ledger = shell.run("jobs", "calls", job_id, "--json").data["data"]
    assert [call["type"] for call in ledger] == ["generate", "evaluate"]
    table = shell.run("jobs", "calls", job_id).out.splitlines()
    assert "openai:writer" in table[1]
    assert "✓ succeeded" in table[1]
    assert " ms" in table[2]


def test_one_call_is_shown_whole(shell: Shell, add_job: AddJob) -> None:
    text = "long " * 30_000
    add_job(text, iter_max=1, score_threshold=0.0, reference=text, is_done=True)
    ids = [call["id"] for call in shell.run("jobs", "calls", "--json").data["data"]]
    call = shell.run("jobs", "calls", "latest", "--full", ids[1])
    assert (call.data["id"], call.data["truncated"]) == (ids[1], False)
    assert text.strip() in json.dumps(call.data["request"])
    assert shell.run("jobs", "calls", "--full", ids[0].removeprefix("call_")).data["id"] == ids[0]
    assert shell.run("jobs", "calls", "--full", "call_").code == 2
    assert shell.run("jobs", "calls", "--full", "nope").code == 5


def test_a_job_without_calls_says_so(shell: Shell, add_job: AddJob) -> None:
    add_job()
    assert "no calls yet" in shell.run("jobs", "calls").err


def test_a_failed_call_shows_its_trouble(shell: Shell, add_job: AddJob, model_server: ModelServer) -> None:
    model_server.script(generate=[{"status": 404, "raw": {"error": {"code": "model_not_found"}}}])
    add_job(is_done=True)
    assert "unknown_model" in shell.run("jobs", "calls").out
    shown = shell.run("jobs", "show")
    assert "✗ failed" in shown.out
    watched = shell.run("jobs", "watch")
    assert (watched.code, watched.out) == (1, "")
    assert "redraft models" in watched.err


def test_a_job_that_only_evaluates_is_shown_too(shell: Shell, home: Services) -> None:
    from redraft.domain.jobs.requests import EvaluateAnswer
    from redraft.operations.jobs import submit

    submit.submit(home, EvaluateAnswer(instruct="Add 1 and 1.", eval_crit="Right.", answer="2"))
    drain(home)
    assert "openai:judge" in shell.run("jobs").out
    page = shell.run("jobs", "show").out
    assert "writer" not in page
    assert "score 0.90" in page


def test_a_budget_is_raised_where_the_job_goes_on(office: Shell, provider: ModelServer) -> None:
    stopped = office.run("ask", "Go.", "--crit", "good", "--max-tokens", "50")
    assert stopped.code == 1
    assert "--max-tokens" in stopped.err
    done = office.run("jobs", "continue", "latest", "--max-tokens", "90000", "--evaluator-seed", "7", "--json")
    assert done.data["request"]["evaluator_sampling"]["seed"] == 7
    assert done.data["request"]["limits"]["max_tokens"] == 90_000
    assert done.data["stop_reason"] == "accepted"
