"""Bulk runs: a window of items at a time, counted at each moment, ended, canceled and resumed."""

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from pydantic import SecretStr

from redraft.domain.bulk.run_requests import CreateRun, ResumeRun
from redraft.domain.jobs.requests import ContinueJob
from redraft.errors import Conflict, Invalid, NotFound
from redraft.operations.admin import retention
from redraft.operations.bulk import datasets, run_results, runs, scheduler
from redraft.operations.bulk.report_tables import run_tables
from redraft.operations.bulk.run_resources import Run
from redraft.operations.jobs import lifecycle, webhooks
from redraft.operations.services import Services
from redraft.settings import ModelPrice
from redraft.storage.admin import workers
from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver
from tests.support.receiver import SECRET
from tests.support.waiting import wait_until

DEFAULTS = {"eval_crit": "True."}


def rows(count: int, **more: Any) -> bytes:
    return "".join(
        json.dumps({"custom_id": f"r{n}", "instruct": f"[[case:r{n}]]", **more}) + "\n" for n in range(count)
    ).encode()


def dataset(services: Services, data: bytes, name: str = "rows.jsonl") -> str:
    return datasets.import_dataset(services, BytesIO(data), name)[0].id


def verdict(score: float, reasoning: str, suggestion: str) -> dict[str, Any]:
    said = {"evaluation_reasoning": reasoning, "improvement_suggestions": [suggestion]}
    return {"score": score, "meets_criteria": False, **said}


def start(driver: Driver, data: bytes, **fields: Any) -> Run:
    body = {"dataset_id": dataset(driver.services, data), "defaults": DEFAULTS, **fields}
    return runs.create_run(driver.services, CreateRun.model_validate(body))[0]


def now(driver: Driver, run: Run) -> Run:
    found = runs.get_run(driver.services, run.id)
    counts = found.counts.model_dump()
    assert counts["total"] == sum(counts[name] for name in counts if name not in {"total", "accepted"})
    return found


def under_way(driver: Driver, run: Run) -> list[str]:
    items = run_results.list_items(driver.services, run.id, after=0, limit=1000, statuses=["running"])
    return [item["job_id"] for item in items]


def work_off(driver: Driver, run: Run) -> Run:
    def has_ended() -> bool:
        scheduler.schedule_all(driver.services)
        while now(driver, run).status == "running" and (job_ids := under_way(driver, run)):
            for job_id in job_ids:
                driver.run(job_id)
            scheduler.schedule_all(driver.services)
        return now(driver, run).status != "running"

    # What waits is an item that no worker can start yet
    wait_until(has_ended, within_s=60, every_s=0.05, what="the end of the run")
    return now(driver, run)


def test_a_run_does_each_row_and_keeps_to_its_window(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", "two"], evaluate=[0.4, 0.9])
    run = start(driver, rows(5), max_in_flight=2)
    assert (run.counts.total, run.counts.running, run.counts.queued) == (5, 2, 3)
    driver.run(under_way(driver, run)[0])
    scheduler.schedule_all(driver.services)
    assert (now(driver, run).counts.running, now(driver, run).counts.queued) == (2, 2)
    ended = work_off(driver, run)
    assert (ended.status, ended.stop_reason, ended.counts.succeeded) == ("succeeded", "finished", 5)
    assert ended.usage.calls == len(model_server.requests())


def test_results_come_in_order_with_all_that_a_person_needs(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["no", "yes"], evaluate=[0.4, 0.9])
    run = work_off(driver, start(driver, rows(1, reference="R", human_pass=True), repeat=2))
    first, second = run_results.stream_results(driver.services, run.id)
    assert set(first) == set(run_results.RESULT_COLUMNS)
    assert [(line["custom_id"], line["repeat"], line["human_pass"]) for line in (first, second)] == [
        ("r0", 1, True),
        ("r0", 2, True),
    ]
    assert (first["first_score"], first["final_score"], first["final_answer"], first["success"]) == (
        0.4,
        0.9,
        "yes",
        True,
    )
    report = run_tables(driver.services, run.id).report
    assert (report.counts.total, report.counts.accepted) == (2, 2)


def test_bad_rows_are_errors_of_their_own(driver: Driver, model_server: ModelServer):
    data = rows(1) + b"nonsense\n" + b'{"custom_id": "x", "instruct": "Q", "iter_max": 99}\n'
    run = work_off(driver, start(driver, data))
    assert (run.status, run.counts.succeeded, run.counts.invalid) == ("succeeded", 1, 2)
    lines = list(run_results.stream_results(driver.services, run.id))
    assert [(line["custom_id"], line["status"]) for line in lines] == [
        ("r0", "succeeded"),
        ("line 2", "invalid"),
        ("x", "invalid"),
    ]
    assert "iter_max" in lines[2]["error"]


def test_results_tell_what_the_judge_said_of_the_returned_answer(driver: Driver, model_server: ModelServer):
    model_server.script(
        generate=["best", "worse"],
        evaluate=[
            verdict(0.6, "Nearly.", "Name a source."),
            verdict(0.2, "Not at all.", "Start again."),
        ],
    )
    run = work_off(driver, start(driver, rows(1, reference="R", metadata={"team": "docs"}, iter_max=2)))
    (line,) = run_results.stream_results(driver.services, run.id)
    assert (line["evaluation_reasoning"], line["improvement_suggestions"]) == ("Nearly.", ["Name a source."])
    assert (line["reference"], line["metadata"]) == ("R", {"team": "docs"})


def test_items_without_a_job_tell_what_their_rows_say(driver: Driver):
    odd = {"custom_id": "odd", "instruct": 7, "reference": ["x"], "metadata": "none"}
    data = rows(2, reference="R", metadata={"team": "docs"}) + json.dumps(odd).encode()
    run = start(driver, data, max_in_flight=1)
    found = [(line["instruct"], line["reference"]) for line in run_results.stream_results(driver.services, run.id)]
    assert found == [("[[case:r0]]", "R"), ("[[case:r1]]", "R"), ("7", '["x"]')]


def test_bad_rows_tell_their_texts_as_far_as_they_could_be_read(driver: Driver):
    bad = {"instruct": "NUL \x00", "reference": "R", "metadata": {"team": "docs", "n": 1}, "human_score": 7}
    data = rows(1) + f"{json.dumps(bad)}\nnonsense\n".encode()
    _, read, unread = run_results.stream_results(driver.services, start(driver, data).id)
    assert (read["status"], read["instruct"], read["reference"]) == ("invalid", "NUL ", "R")
    assert read["metadata"] == {"team": "docs"}
    assert (unread["instruct"], unread["reference"], unread["metadata"]) == (None, None, {})


@pytest.mark.both_databases
def test_a_table_has_a_column_for_each_name_in_the_metadata(driver: Driver):
    data = rows(1, metadata={"team": "docs", "a.b": "x"}) + b'{"instruct": "Q", "metadata": {"=who": "=me()"}}\n'
    run = start(driver, data, defaults={**DEFAULTS, "metadata": {"of": "run"}}, max_in_flight=2)
    columns, lines = run_results.stream_table(driver.services, run.id)
    assert [name for name in columns if name.startswith("metadata")] == [
        *("metadata.=who", "metadata.a.b", "metadata.of", "metadata.team"),
    ]
    assert [(line.get("metadata.of"), line.get("metadata.team"), line.get("metadata.=who")) for line in lines] == [
        ("run", "docs", None),
        ("run", None, "=me()"),
    ]
    many = "".join(json.dumps({"instruct": f"Q{n}", "metadata": {f"n{n}": "x"}}) + "\n" for n in range(101))
    columns, lines = run_results.stream_table(driver.services, start(driver, many.encode(), max_in_flight=1).id)
    assert columns == run_results.RESULT_COLUMNS
    assert next(lines)["metadata"] == {"n0": "x"}


def test_rows_with_an_answer_are_judged_only(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.9])
    run = work_off(driver, start(driver, rows(1, answer="GIVEN")))
    (line,) = run_results.stream_results(driver.services, run.id)
    assert (line["final_answer"], line["success"]) == ("GIVEN", True)
    assert model_server.requests("generate") == []


# Case B10
def test_a_row_that_is_filtered_fails_alone_after_one_call(driver: Driver, model_server: ModelServer):
    words = "The response was filtered due to the prompt triggering the content management policy."
    error = {"message": words, "type": None, "param": "prompt", "code": "content_filter", "status": 400}
    model_server.script(generate=[Reply(status=400, raw={"error": error})], case="r1")
    run = work_off(driver, start(driver, rows(3)))
    lines = list(run_results.stream_results(driver.services, run.id))
    assert [(line["status"], line["error_code"]) for line in lines] == [
        ("succeeded", None),
        ("failed", "content_filtered"),
        ("succeeded", None),
    ]
    assert [asked.role for asked in model_server.requests() if asked.case == "r1"] == ["generate"]


# Case D13
def test_the_counts_of_a_run_add_up_and_its_end_is_sent_once_though_rows_fail_and_messages_come_twice(
    make_driver: Callable[..., Driver], model_server: ModelServer
):
    driver = make_driver(webhook_secret=SecretStr(SECRET))
    model_server.respond(lambda asked: Reply(status=400) if int((asked.case or "r0")[1:]) % 14 == 13 else None)
    run = start(driver, rows(30), max_in_flight=8, webhook={"url": "https://hooks.example/runs"})
    while now(driver, run).status == "running":
        for job_id in under_way(driver, run):
            before = driver.row(job_id)
            driver.run(job_id)
            driver.repeat(before)
            now(driver, run)
        scheduler.schedule_all(driver.services)
    counts = now(driver, run).counts
    assert (counts.total, counts.succeeded, counts.failed) == (30, 28, 2)
    assert len(model_server.requests()) == 28 * 2 + 2
    assert [each.type for each in webhooks.list_deliveries(driver.services, run.id)] == ["run.finished"]


def test_failed_items_are_done_again_only_when_asked_for(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    model_server.script(generate=[Reply(status=401), "a"], case="r0")
    run = work_off(driver, start(driver, rows(2), max_in_flight=1))
    assert (run.counts.failed, run.counts.succeeded) == (1, 1)
    (failed, _) = run_results.stream_results(driver.services, run.id)
    assert failed["error_code"] == "provider_auth"
    assert runs.resume_run(driver.services, run.id, ResumeRun()).status == "succeeded"
    asked = len(model_server.requests())
    assert runs.resume_run(driver.services, run.id, ResumeRun(retry="errors")).status == "running"
    assert work_off(driver, run).counts.succeeded == 2
    assert len(model_server.requests()) == asked + 2


def test_what_every_item_would_fail_by_is_said_at_once(driver: Driver):
    with pytest.raises(Invalid) as caught:
        start(driver, rows(2), defaults={**DEFAULTS, "model": "nobody:knows"})
    assert "unknown_model" in {error.code for error in caught.value.errors}
    with pytest.raises(NotFound):
        runs.create_run(driver.services, CreateRun(dataset_id="ds_none"))


def test_a_run_of_which_no_row_can_be_used_is_refused_and_names_what_is_missing(driver: Driver):
    for data, fields, pointer, words in [
        (rows(250), {"defaults": {}}, "/defaults/eval_crit", "needs eval_crit or a rubric"),
        (b'{"custom_id": "1", "note": "Q"}\nnonsense\n', {}, "/defaults/instruct", "instruct (also called question"),
        (rows(2, iter_max=99), {}, "/iter_max", "Lines 1 to 2: iter_max"),
        (rows(2), {"overrides": {"resp_format": "{{ absent }}", "vars": {"a": 1}}}, "/resp_format", "'absent'"),
    ]:
        with pytest.raises(Invalid) as caught:
            start(driver, data, **fields)
        assert caught.value.code == "no_good_rows"
        assert caught.value.errors[0].pointer == pointer
        assert words in caught.value.message
    assert runs.list_runs(driver.services, cursor=None, limit=9)[0] == []


def test_one_row_that_can_be_used_late_in_the_file_is_enough(driver: Driver):
    late = b'{"custom_id": "late", "instruct": "Q", "eval_crit": "True."}\n'
    run = start(driver, rows(201) + late, defaults={})
    assert (run.counts.invalid, run.counts.running) == (201, 1)


@pytest.mark.both_databases
def test_the_same_rows_are_the_same_dataset(services: Services):
    first, is_new = datasets.import_dataset(services, BytesIO(rows(3)), "a.jsonl")
    again, is_new_again = datasets.import_dataset(services, BytesIO(rows(3)), "b.jsonl")
    assert (is_new, is_new_again, again.id, first.rows) == (True, False, first.id, 3)
    assert [item.custom_id for item in datasets.list_items(services, first.id, after=0, limit=9)] == ["r1", "r2"]


@pytest.mark.both_databases
def test_a_baseline_is_the_newest_run_of_the_same_rows_that_succeeded(driver: Driver, model_server: ModelServer):
    services = driver.services
    model_server.script(generate=["a"], evaluate=[0.9])
    first = work_off(driver, start(driver, rows(2), name="nightly"))
    assert runs.find_baseline_id(services, first.id) is None
    second = work_off(driver, start(driver, rows(2)))
    runs.cancel_run(services, start(driver, rows(2), name="nightly").id)
    work_off(driver, start(driver, rows(3), name="nightly"))
    start(driver, rows(2), name="nightly")
    last = start(driver, rows(2), name="nightly")
    assert runs.find_baseline_id(services, last.id) == second.id
    assert runs.find_baseline_id(services, second.id) == first.id


def test_a_run_keeps_to_its_budget_call_by_call(make_driver: Callable[..., Driver], model_server: ModelServer):
    price = ModelPrice(input=1.0, output=10.0)
    driver = make_driver(prices={"openai:writer": price, "openai:judge": price}, evaluator_max_output_tokens=1000)
    used = {"input": 100, "output": 250}
    model_server.script(generate=[Reply("a", usage=used)], evaluate=[Reply(score=0.9, usage=used)])
    few = {"sampling": {"max_output_tokens": 500}}
    run = work_off(driver, start(driver, rows(9), max_in_flight=2, max_cost_usd=0.03, defaults={**DEFAULTS, **few}))
    assert (run.status, run.stop_reason) == ("succeeded", "budget_exhausted")
    assert run.usage.cost_usd is not None
    assert 0.02 < float(run.usage.cost_usd) <= 0.03
    assert run.counts.accepted >= 3
    assert run.counts.canceled >= 2
    assert run.counts.failed <= 2


def test_what_a_canceled_item_has_paid_for_is_not_paid_again(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = start(driver, rows(1))
    (job_id,) = under_way(driver, run)
    driver.step(job_id)
    runs.cancel_run(driver.services, run.id)
    assert [call.type for call in driver.calls(job_id)] == ["generate"]
    runs.resume_run(driver.services, run.id, ResumeRun())
    ended = work_off(driver, run)
    assert ended.counts.succeeded == 1
    (line,) = run_results.stream_results(driver.services, run.id)
    assert (line["job_id"], line["calls"]) == (job_id, ended.usage.calls)


def test_invalid_rows_leave_their_room_to_others(driver: Driver, model_server: ModelServer):
    bad = "".join(json.dumps({"custom_id": f"b{n}", "instruct": "Q", "iter_max": 99}) + "\n" for n in range(60))
    run = start(driver, bad.encode() + rows(2), max_in_flight=2)
    assert (run.counts.invalid, run.counts.running) == (60, 2)


def test_a_worker_that_cannot_start_items_leaves_them_to_others(
    driver: Driver, make_driver: Callable[..., Driver], model_server: ModelServer
):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = start(driver, rows(8), max_in_flight=2)
    keyless = make_driver(openai_api_key=None, openai_base_url=None, anthropic_api_key=None)
    for job_id in under_way(driver, run):
        driver.run(job_id)
    scheduler.schedule_all(keyless.services)
    assert (now(driver, run).counts.invalid, now(driver, run).counts.queued) == (0, 6)
    assert work_off(driver, run).counts.succeeded == 8


@pytest.mark.both_databases
def test_all_runs_together_leave_threads_to_people(make_driver: Callable[..., Driver]):
    # Whose heartbeat counts for a minute, however slow the machine is
    driver = make_driver(heartbeat_s=20.0)
    with driver.services.database.write() as connection:
        workers.record_heartbeat(connection, {"id": "wrk_a", "host": "h", "pid": 1, "concurrency": 8, "version": "1"})
    first = start(driver, rows(20), max_in_flight=100)
    second = start(driver, rows(20, reference="R"), max_in_flight=100)
    assert (now(driver, first).counts.running, now(driver, second).counts.running) == (6, 1)


def test_without_a_worker_few_items_are_started(driver: Driver, model_server: ModelServer):
    assert start(driver, rows(50), max_in_flight=50).counts.running == 4


def test_the_job_of_a_running_run_is_not_deleted_and_a_success_stays_one(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = start(driver, rows(2), max_in_flight=1)
    (job_id,) = under_way(driver, run)
    driver.run(job_id)
    with pytest.raises(Conflict):
        lifecycle.delete(driver.services, job_id)
    assert retention.prune(driver.services, retention.too_old(driver.services, 0.0)) == {}
    assert work_off(driver, run).counts.succeeded == 2
    lifecycle.continue_job(driver.services, job_id, ContinueJob())
    lifecycle.cancel(driver.services, job_id)
    assert now(driver, run).counts.succeeded == 2
    lifecycle.delete(driver.services, job_id)
    first, _ = run_results.stream_results(driver.services, run.id)
    assert (first["status"], first["success"], first["cost_usd"]) == ("succeeded", None, None)
