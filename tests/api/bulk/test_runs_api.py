"""Bulk runs over HTTP: started, followed, canceled, resumed; what they come to, as JSON and as files."""

import csv
import io
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest

from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.bulk import scheduler
from redraft.operations.bulk.run_results import RESULT_COLUMNS
from redraft.operations.services import Services
from redraft.settings import ModelPrice
from tests.api.bulk.test_datasets import upload
from tests.api.conftest import assert_problem
from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver
from tests.support.api_server import ApiServer

DEFAULTS = {"eval_crit": "True."}
NONE = "run_" + "0" * 32


def lines(count: int) -> bytes:
    return "".join(json.dumps({"id": f"r{n}", "question": f"[[case:r{n}]]"}) + "\n" for n in range(count)).encode()


@pytest.fixture
def driver(services: Services) -> Driver:
    return Driver(services)


def start(client: httpx2.Client, data: bytes, headers: dict[str, str] | None = None, **fields: Any) -> httpx2.Response:
    dataset = upload(client, data, name="rows.jsonl").json()
    body = {"dataset_id": dataset["id"], "defaults": DEFAULTS, **fields}
    return client.post("/v1/runs", json=body, headers=headers or {})


def started(client: httpx2.Client, data: bytes, **fields: Any) -> dict[str, Any]:
    response = start(client, data, **fields)
    assert response.status_code == 202, response.text
    return response.json()


def look(client: httpx2.Client, run: dict[str, Any]) -> dict[str, Any]:
    found = client.get(run["urls"]["self"]).json()
    counts = dict(found["counts"])
    del counts["accepted"]
    assert counts.pop("total") == sum(counts.values())
    return found


def running(client: httpx2.Client, run: dict[str, Any]) -> list[str]:
    page = client.get(run["urls"]["items"], params={"status": "running", "limit": 100}).json()
    return [item["job_id"] for item in page["data"]]


def work_off(client: httpx2.Client, driver: Driver, run: dict[str, Any]) -> dict[str, Any]:
    while look(client, run)["status"] == "running":
        for job_id in running(client, run):
            driver.run(job_id)
        scheduler.schedule_all(driver.services)
    return look(client, run)


def test_a_run_from_start_to_end(client: httpx2.Client, driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", "two"], evaluate=[0.4, 0.9])
    response = start(client, lines(5), max_in_flight=2, name="first")
    run = response.json()
    assert response.headers["location"] == run["urls"]["self"] == f"/v1/runs/{run['id']}"
    assert response.headers["retry-after"] == "1"
    assert (run["name"], run["status"], run["stop_reason"], run["defaults"]) == ("first", "running", None, DEFAULTS)
    assert (run["counts"]["queued"], run["counts"]["running"]) == (3, 2)
    ended = work_off(client, driver, run)
    assert (ended["status"], ended["stop_reason"], ended["counts"]["accepted"]) == ("succeeded", "finished", 5)
    assert ended["usage"]["calls"] == len(model_server.requests())
    assert "retry-after" not in client.get(run["urls"]["self"]).headers
    assert client.get("/v1/runs").json() == {"data": [ended], "next_cursor": None}


def test_jobs_tell_their_run_and_are_listed_by_it(client: httpx2.Client, driver: Driver):
    run = started(client, lines(3))
    alone = driver.submit()
    jobs = client.get("/v1/jobs", params={"run_id": run["id"]}).json()["data"]
    assert sorted(job["id"] for job in jobs) == sorted(running(client, run))
    assert {job["run_id"] for job in jobs} == {run["id"]}
    assert client.get(f"/v1/jobs/{alone}").json()["run_id"] is None
    assert client.get("/v1/jobs", params={"run_id": "run_none"}).json()["data"] == []


def test_items_are_paged_and_narrowed(client: httpx2.Client):
    run = started(client, lines(5) + b"nonsense\n", repeat=2, max_in_flight=3)
    items = run["urls"]["items"]
    first = client.get(items, params={"limit": 5}).json()
    rest = client.get(items, params={"limit": 100, "after": first["next_cursor"]}).json()
    found = first["data"] + rest["data"]
    assert [item["number"] for item in found] == list(range(1, 13))
    assert [(item["custom_id"], item["repeat"]) for item in found[:3]] == [("r0", 1), ("r0", 2), ("r1", 1)]
    assert rest["next_cursor"] is None
    chosen = client.get(items, params={"status": ["running", "invalid"]}).json()["data"]
    assert [item["status"] for item in chosen] == ["running"] * 3 + ["invalid"] * 2
    assert chosen[3]["error_code"] == "invalid_row"
    for query in ({"status": "done"}, {"after": -1}, {"after": 2**31}, {"limit": 101}, {"after": "x"}):
        assert_problem(client.get(items, params=query), 422)


def test_case_e09_one_bad_row_stops_nothing(client: httpx2.Client, driver: Driver, model_server: ModelServer):
    """The case has a status of its own for it; by the contract bad rows are no errors of the run: its counts tell."""
    model_server.script(generate=["a"], evaluate=[0.9])
    model_server.script(generate=[Reply(status=400)], case="BOOM")
    data = (
        b'{"id": 1, "question": "a"}\n{"id": 2}\n{"id": 3, "question": "b"}\n'
        b'{"id": 4, "question": "[[case:BOOM]]"}\n{"id": 5, "question": "c"}\n'
    )
    run = work_off(client, driver, started(client, data))
    counts = run["counts"]
    assert (run["status"], run["stop_reason"]) == ("succeeded", "finished")
    assert (counts["succeeded"], counts["failed"], counts["invalid"]) == (3, 1, 1)
    results = [json.loads(line) for line in client.get(run["urls"]["results"]).text.splitlines()]
    assert [line["custom_id"] for line in results] == ["1", "2", "3", "4", "5"]
    assert (results[1]["calls"], results[1]["error_code"]) == (0, "missing")
    assert "instruct" in results[1]["error"]
    assert (results[3]["calls"], results[3]["error_code"]) == (1, "provider_bad_request")
    page = client.get(run["urls"]["report"])
    assert page.json()["counts"]["failed"] == 1


# Case T2-19
def test_results_are_files_also_while_the_run_goes_on(client: httpx2.Client, driver: Driver, model_server: ModelServer):
    model_server.script(generate=["=1+1"], evaluate=[0.9])
    run = started(client, lines(3), max_in_flight=1, name="質問 ü 😀")
    driver.run(running(client, run)[0])
    response = client.get(run["urls"]["results"], params={"format": "csv"})
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert list(rows[0]) == [name for name in RESULT_COLUMNS if name != "metadata"]
    assert [(row["custom_id"], row["status"]) for row in rows] == [
        ("r0", "succeeded"),
        ("r1", "queued"),
        ("r2", "queued"),
    ]
    assert (rows[0]["final_answer"], rows[0]["success"], rows[1]["final_answer"]) == ("'=1+1", "true", "")
    marked = client.get(run["urls"]["results"], params={"format": "csv", "bom": "true"})
    assert marked.content == b"\xef\xbb\xbf" + response.content
    response = client.get(run["urls"]["results"])
    assert response.headers["content-type"].startswith("application/x-ndjson")
    assert json.loads(response.text.splitlines()[0])["final_answer"] == "=1+1"
    assert_problem(client.get(run["urls"]["results"], params={"format": "xlsx"}), 422)


def test_results_bring_the_row_and_the_verdict_along(client: httpx2.Client, driver: Driver, model_server: ModelServer):
    said = {"evaluation_reasoning": "=Right.", "improvement_suggestions": ["Say more."]}
    model_server.script(generate=["a"], evaluate=[{"score": 0.9, "meets_criteria": True, **said}])
    row = {"instruct": "Q", "reference": "+R", "metadata": {"team": "=docs()"}}
    run = work_off(
        client, driver, started(client, json.dumps(row).encode() + b'\n{"instruct": "B", "human_score": 9}\n')
    )
    names = ("status", "evaluation_reasoning", "improvement_suggestions", "instruct", "reference", "metadata.team")
    table = list(csv.DictReader(io.StringIO(client.get(run["urls"]["results"], params={"format": "csv"}).text)))
    assert [[line[name] for name in names] for line in table] == [
        ["succeeded", "'=Right.", '["Say more."]', "Q", "'+R", "'=docs()"],
        ["invalid", "", "", "B", "", ""],
    ]
    first, bad = map(json.loads, client.get(run["urls"]["results"]).text.splitlines())
    assert (first["evaluation_reasoning"], first["improvement_suggestions"]) == ("=Right.", ["Say more."])
    assert (first["reference"], first["metadata"], bad["instruct"]) == ("+R", {"team": "=docs()"}, "B")
    items = client.get(run["urls"]["items"]).json()["data"]
    assert [{name: each[name] for name in first} for each in items] == [first, bad]


@pytest.mark.parametrize(
    ("name", "plain", "whole"),
    [
        ("質問 ü 😀", "u", "質問 ü 😀"),
        ('a"b\r\nX-Evil: 1', "a_b X-Evil_ 1", "a_b X-Evil_ 1"),
        ("../../etc/passwd", "etc_passwd", "etc_passwd"),
        ("\u202egnp.exe", "gnp.exe", "gnp.exe"),
        ("rows.jsonl", "rows", "rows"),
        ("x" * 500, "x" * 100, "x" * 100),
        ("", "rows", "rows"),
        ("  ", "rows", "rows"),
        ("質問", None, "質問"),
        ("...", None, None),
        ("\u202e\u0007", None, None),
    ],
)
def test_case_e16_file_names(client: httpx2.Client, name: str, plain: str | None, whole: str | None):
    """None: the run's id stands for it."""
    run = started(client, lines(1), name=name)
    response = client.get(run["urls"]["results"], params={"format": "csv"})
    assert response.status_code == 200
    assert "x-evil" not in response.headers
    kind, short, long = response.headers["content-disposition"].split("; ")
    assert (kind, short) == ("attachment", f'filename="{plain or run["id"]} results.csv"')
    assert unquote(long) == f"filename*=UTF-8''{whole or run['id']} results.csv"


def test_a_name_that_is_none_is_refused(client: httpx2.Client):
    for name in ("x" * 501, "nul\x00"):
        assert_problem(start(client, lines(1), name=name), 422)


def test_a_report_tells_all_figures(client: httpx2.Client, driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", "two"], evaluate=[0.4, 0.9])
    run = started(client, lines(2))
    before = client.get(run["urls"]["report"]).json()
    assert (before["counts"]["running"], before["pass_rate"], before["final_score"]) == (2, None, None)
    work_off(client, driver, run)
    report = client.get(run["urls"]["report"]).json()
    assert (report["counts"]["accepted"], report["pass_rate"]["value"]) == (2, 1.0)
    assert report["costs"]["total_usd"] is None
    assert report["costs"]["known_usd"] == "0"
    used = report["uplift"]["revisions"]["calls"]
    assert (used["calls"], used["tokens"] > 0, used["seconds"] > 0) == (4, True, True)
    assert "recommended" in report["iter_max_advice"]["words"]
    assert (report["object"], report["run"]["id"]) == ("run_report", run["id"])


def test_a_report_is_written_in_many_ways(client: httpx2.Client, driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one"], evaluate=[0.9])
    run = work_off(client, driver, started(client, lines(2), name="<b>bold</b>"))
    for name, (media_type, begin) in {
        "html": ("text/html", "<!doctype html>"),
        "markdown": ("text/markdown", "#"),
        "junit": ("application/xml", "<?xml"),
        "text": ("text/plain", ""),
    }.items():
        response = client.get(run["urls"]["report"], params={"format": name})
        assert response.status_code == 200
        assert response.headers["content-type"].startswith(media_type)
        assert response.headers["content-disposition"].startswith("inline; ")
        assert response.text.lower().startswith(begin)
        if name == "html":
            assert "<b>bold" not in response.text
            assert "<script" not in response.text
            assert "style-src 'unsafe-inline'" in response.headers["content-security-policy"]
    assert_problem(client.get(run["urls"]["report"], params={"format": "pdf"}), 422)


def test_runs_are_compared_row_by_row(client: httpx2.Client, driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one"], evaluate=[0.4])
    before = work_off(client, driver, started(client, lines(3), overrides={"iter_max": 1}))
    model_server.script(generate=["two"], evaluate=[0.9])
    after = work_off(client, driver, started(client, lines(3)))
    found = client.get(after["urls"]["compare"], params={"baseline": before["id"]}).json()
    assert (found["n"], found["wins"], found["newly_passing"]) == (3, 3, ["r0", "r1", "r2"])
    assert found["pass_rate"]["value"] == 1.0
    assert found["words"]
    assert (found["baseline"]["id"], found["new"]["id"]) == (before["id"], after["id"])
    query = {"baseline": before["id"], "format": "markdown"}
    assert client.get(after["urls"]["compare"], params=query).headers["content-type"].startswith("text/markdown")
    problem = assert_problem(client.get(after["urls"]["compare"], params={"baseline": after["id"]}), 422, "same_run")
    assert problem["errors"][0]["pointer"] == "query/baseline"
    assert_problem(client.get(after["urls"]["compare"]), 422)
    assert_problem(client.get(after["urls"]["compare"], params={"baseline": NONE}), 404, "not_found")


def test_a_canceled_run_is_resumed_with_what_is_open(client: httpx2.Client, driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = started(client, lines(4), max_in_flight=2)
    driver.run(running(client, run)[0])
    response = client.post(run["urls"]["cancel"])
    assert (response.status_code, response.json()["status"]) == (202, "canceled")
    assert client.post(run["urls"]["cancel"]).status_code == 200
    asked = len(model_server.requests())
    kept = client.get(run["urls"]["items"], params={"status": "succeeded"}).json()["data"]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: client.post(run["urls"]["resume"]), range(2)))
    assert {answer.status_code for answer in answers} == {202}
    ended = work_off(client, driver, run)
    assert ended["counts"]["succeeded"] == 4
    assert len(model_server.requests()) == asked + 3 * 2
    assert client.get(run["urls"]["items"], params={"limit": 1}).json()["data"] == kept
    response = client.post(run["urls"]["resume"], json={"retry": "errors"})
    assert (response.status_code, response.json()["status"]) == (200, "succeeded")
    assert_problem(client.post(run["urls"]["resume"], json={"retry": "all"}), 422)


def test_a_run_whose_budget_is_used_up_goes_on_with_a_larger_one(
    start_api: Callable[..., ApiServer], make_services: Callable[..., Services], model_server: ModelServer
):
    price = ModelPrice(input=1.0, output=10.0)
    prices = {"openai:writer": price, "openai:judge": price}
    driver, client = Driver(make_services(prices=prices)), start_api(prices=prices).client()
    run = work_off(client, driver, started(client, lines(2), max_cost_usd=0.0001))
    assert run["stop_reason"] == "budget_exhausted"
    problem = assert_problem(client.post(run["urls"]["resume"]), 409, "run_budget_exhausted")
    assert "of $0.0001 are spent" in problem["detail"]
    problem = assert_problem(client.post(run["urls"]["resume"], json={"max_cost_usd": 0.0001}), 422)
    assert problem["errors"][0]["pointer"] == "/max_cost_usd"
    response = client.post(run["urls"]["resume"], json={"max_cost_usd": 5})
    assert (response.status_code, response.json()["max_cost_usd"]) == (202, "5")
    assert work_off(client, driver, run)["counts"]["succeeded"] == 2


def test_what_is_wrong_with_all_rows_is_said_at_once(client: httpx2.Client):
    for fields, code in [
        ({"defaults": {**DEFAULTS, "model": "nobody:knows"}}, "unknown_model"),
        ({"defaults": {"iter_mix": 1}}, "extra_forbidden"),
        ({"defaults": {}}, "nothing_to_evaluate_by"),
        ({"overrides": {"answer": "x"}}, "misplaced"),
        ({"max_cost_usd": 1}, "unpriced_model"),
        ({"max_cost_usd": 1e-300}, "greater_than_equal"),
        ({"repeat": 101}, "less_than_equal"),
        ({"max_in_flight": 0}, "greater_than_equal"),
        ({"dataset_id": "ds_\x00"}, "nul_character"),
        ({"strange": 1}, "extra_forbidden"),
    ]:
        problem = assert_problem(start(client, lines(1), **fields), 422)
        assert code in {error["code"] for error in problem["errors"]}, problem
    assert_problem(client.post("/v1/runs", json={"dataset_id": "ds_none"}), 404, "not_found")
    assert_problem(client.post("/v1/runs", content=b"{}", headers={"Content-Type": "text/csv"}), 415)
    assert client.get("/v1/runs").json()["data"] == []


def test_a_key_makes_one_run_however_often_it_comes(client: httpx2.Client):
    headers = {"Idempotency-Key": "nightly"}
    data = lines(2)
    upload(client, data, name="rows.jsonl")
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda _: start(client, data, headers), range(10)))
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [202]
    replays = [answer for answer in answers if answer.status_code == 200]
    assert {answer.headers["idempotent-replayed"] for answer in replays} == {"true"}
    assert_problem(start(client, data, headers, repeat=2), 422, "idempotency_key_reused")
    assert len(client.get("/v1/runs").json()["data"]) == 1
    assert start(client, data).status_code == start(client, data).status_code == 202
    assert len(client.get("/v1/jobs").json()["data"]) == 3 * 2


def test_keys_of_others_are_others(start_api: Callable[..., ApiServer], services: Services):
    client = start_api(require_auth=True).client()
    runs: set[str] = set()
    for name in ("ann", "bob"):
        _, token = keys.create_key(services, name, list(Scope))
        client.headers["Authorization"] = f"Bearer {token}"
        runs.add(start(client, lines(1), {"Idempotency-Key": "k"}).json()["id"])
    assert len(runs) == 2


def test_looking_and_starting_need_their_scopes(start_api: Callable[..., ApiServer], services: Services):
    client = start_api(require_auth=True).client()
    _, token = keys.create_key(services, "reader", [Scope.READ])
    client.headers["Authorization"] = f"Bearer {token}"
    assert client.get("/v1/runs").status_code == client.get("/v1/datasets").status_code == 200
    for path in ("/v1/datasets", "/v1/runs", f"/v1/runs/{NONE}/cancel", f"/v1/runs/{NONE}/resume"):
        assert_problem(client.post(path), 403, "insufficient_scope")


def test_what_does_not_exist_is_404(client: httpx2.Client):
    for run_id in (NONE, "latest", "ä", "x" * 3000):
        for part in ("", "/items", "/report", "/compare?baseline=run_1", "/results", "/events"):
            assert_problem(client.get(f"/v1/runs/{run_id}{part}"), 404, "not_found")
        for part in ("/cancel", "/resume"):
            assert_problem(client.post(f"/v1/runs/{run_id}{part}"), 404, "not_found")


def test_lists_of_runs_are_paged(client: httpx2.Client):
    ids = [started(client, lines(1))["id"] for _ in range(3)]
    first = client.get("/v1/runs", params={"limit": 2}).json()
    rest = client.get("/v1/runs", params={"limit": 2, "after": first["next_cursor"]}).json()
    assert [each["id"] for each in first["data"] + rest["data"]] == ids[::-1]
    for query in ({"after": "garbage"}, {"limit": 0}, {"status": "running"}):
        assert_problem(client.get("/v1/runs", params=query), 422)


def test_a_run_and_then_its_dataset_are_deleted(client: httpx2.Client, driver: Driver, model_server: ModelServer):
    run = started(client, lines(2))
    rows = f"/v1/datasets/{run['dataset_id']}"
    assert_problem(client.delete(run["urls"]["self"]), 409, "run_not_ended")
    client.post(run["urls"]["cancel"])
    assert_problem(client.delete(rows), 409, "dataset_in_use")
    for path in (run["urls"]["self"], rows):
        assert client.delete(path).status_code == 204
        assert_problem(client.delete(path), 404)
    assert client.get("/v1/jobs", params={"run_id": run["id"]}).json()["data"] == []
