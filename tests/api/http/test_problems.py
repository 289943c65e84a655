import json
from collections.abc import Callable

import httpx2
import pytest

from redraft.operations.jobs import queries
from redraft.operations.services import Services
from redraft.storage.jobs.job_filters import JobFilter
from tests.api.conftest import REQUEST, assert_problem
from tests.support.api_server import ApiServer

CRITERION = {"id": "a", "text": "Is short."}
UNFIT_FIELDS = [
    ({"iter_max": 0}, "/iter_max", "greater_than_equal"),
    ({"iter_max": 11}, "/iter_max", "less_than_equal"),
    ({"iter_max": "3"}, "/iter_max", "int_type"),
    ({"iter_max": True}, "/iter_max", "int_type"),
    ({"iter_max": 10**4000}, "/iter_max", "less_than_equal"),
    ({"score_threshold": "0.8"}, "/score_threshold", "float_type"),
    ({"score_threshold": 1.01}, "/score_threshold", "less_than_equal"),
    ({"temprature": 1}, "/temprature", "extra_forbidden"),
    ({"revision": {"from": "worst"}}, "/revision/from", "literal_error"),
    ({"limits": {"x~/y": 1}}, "/limits/x~0~1y", "extra_forbidden"),
    ({"instruct": "nul \x00"}, "/instruct", "nul_character"),
    ({"instruct": "  \n"}, "/instruct", "blank"),
    ({"instruct": None}, "/instruct", "string_type"),
    ({"eval_crit": None}, "/eval_crit", "nothing_to_evaluate_by"),
    ({"profile": "quality", "rubric": [CRITERION]}, "/rubric", "rubric_misplaced"),
    (
        {"evaluation": {"samples": 10, "panel": ["openai:a"] * 9}, "candidates": 8},
        "/evaluation",
        "too_many_judge_calls",
    ),
    ({"rubric": ["Is short."]}, "/rubric/0", "model_type"),
    ({"profile": "Quality"}, "/profile", "string_pattern_mismatch"),
    ({"rubric": [CRITERION, CRITERION]}, "/rubric/1/id", "id_repeated"),
    ({"rubric": [{**CRITERION, "kind": "check"}]}, "/rubric/0/check", "check_misplaced"),
    (
        {"rubric": [{**CRITERION, "kind": "check", "check": {"kind": "max_word"}}]},
        "/rubric/0/check/kind",
        "unknown_check",
    ),
    ({"rubric": [{**CRITERION, "kind": "check", "check": {}}]}, "/rubric/0/check/kind", "unknown_check"),
    ({"metadata": {"k": "v\x00"}}, "/metadata/k", "nul_character"),
    ({"metadata": {"k\x00": "v"}}, "/metadata/k\x00", "nul_character"),
    ({"metadata": {"k": 1}}, "/metadata/k", "string_type"),
    ({"metadata": {f"k{n}": "v" for n in range(17)}}, "/metadata", "too_long"),
    ({"conversation": [["hi", "there"], ["hi"]]}, "/conversation/1", "too_short"),
    ({"conversation": [["hi", 5]]}, "/conversation/0/1", "string_type"),
    ({"model": 5}, "/model", "string_type"),
    ({"model": ["openai:a", 5]}, "/model/1", "string_type"),
    ({"model": "nobody:knows"}, "/model", "unknown_model"),
    ({"model": ["openai:a", "nobody:knows"]}, "/model/1", "unknown_model"),
    ({"evaluator_model": "nobody:knows"}, "/evaluator_model", "unknown_model"),
    ({"instruct": "\ud800"}, "/instruct", "string_unicode"),
    ({"\ud800": 1}, "", "string_unicode"),
]
BROKEN_BODIES = [
    (b'{"instruct": "x",}', "line 1, column 18"),
    (b'{\n  "instruct": oops\n}', "line 2, column 15"),
    (b"", None),
    (b'{"instruct": "a\x00b"}', "line 1, column 16"),
    (b'{"instruct": "\xff"}', "byte 14"),
    (b'{"score_threshold": NaN}', "NaN"),
    (b'{"score_threshold": -Infinity}', "Infinity"),
    (b'{"iter_max": ' + b"9" * 5000 + b"}", "digits"),
    (b'{"a": 1, "b": {"c": 1, "c": 2}}', "'c' twice in one object"),
    (b'{"score_threshold": 1e999}', "1e999, which is too large"),
    (b"[" * 100_000, "nested"),
    (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "nested"),
    ("{}".encode("utf-16"), "byte 0"),
]
OTHER_VALUES = [b"null", b"[]", b'"text"', b"5", b"1e99", b"true"]


def count_jobs(services: Services) -> int:
    return len(queries.list_jobs(services, JobFilter())[0])


def post_raw(client: httpx2.Client, body: bytes, path: str = "/v1/generate-answer") -> httpx2.Response:
    return client.post(path, content=body, headers={"Content-Type": "application/json"})


def test_every_unfit_field_is_named(client: httpx2.Client, services: Services):
    for fields, pointer, code in UNFIT_FIELDS:
        body = json.dumps({**REQUEST, **fields}).encode()
        problem = assert_problem(post_raw(client, body), 422)
        places = {(error["pointer"], error["code"]) for error in problem["errors"]}
        assert (pointer, code) in places, (fields, problem)
        assert all(error["detail"] for error in problem["errors"])
        assert not problem["retryable"]
    assert count_jobs(services) == 0


def test_what_is_missing_is_named(client: httpx2.Client):
    problem = assert_problem(client.post("/v1/evaluate-answer", json={}), 422)
    found = {(error["pointer"], error["code"]) for error in problem["errors"]}
    assert {("/instruct", "missing"), ("/answer", "missing")} <= found
    problem = assert_problem(client.post("/v1/generate-answer", json={"instruct": "i"}), 422)
    assert problem["errors"][0]["pointer"] == "/eval_crit"


def test_a_body_that_is_no_json_is_told_where_it_breaks(client: httpx2.Client, services: Services):
    for body, words in BROKEN_BODIES:
        response = post_raw(client, body)
        if not body:
            assert assert_problem(response, 422)["errors"][0]["code"] == "missing"
            continue
        problem = assert_problem(response, 400)
        assert words in problem["detail"], problem
    assert count_jobs(services) == 0


def test_json_that_is_no_object_is_refused(client: httpx2.Client):
    for body in OTHER_VALUES:
        assert assert_problem(post_raw(client, body), 422)["errors"][0]["pointer"] == ""


def test_a_thousand_field_errors_are_cut_to_a_hundred(client: httpx2.Client):
    body = {**REQUEST, **{f"field{n}": n for n in range(1000)}, "x" * 10_000: 1}
    problem = assert_problem(client.post("/v1/generate-answer", json=body), 422)
    assert len(problem["errors"]) == 100


def test_only_json_is_read(client: httpx2.Client):
    body = json.dumps(REQUEST).encode()
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"):
        headers = {"Content-Type": media_type} if media_type else {}
        problem = assert_problem(client.post("/v1/generate-answer", content=body, headers=headers), 415)
        assert problem["code"] == "unsupported_media_type"
    for media_type in ("application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json"):
        response = client.post("/v1/generate-answer", content=body, headers={"Content-Type": media_type})
        assert response.status_code == 202


def test_unknown_places_and_methods_are_problems_too(client: httpx2.Client):
    assert_problem(client.get("/nowhere"), 404, "not_found")
    assert_problem(client.get("/v1/jobs/"), 404, "not_found")
    assert_problem(client.get("/static/pages/nothing.js"), 404, "not_found")
    assert_problem(client.get("/static/pages/../../app.py"), 404)
    response = client.put("/v1/jobs/job_1")
    assert_problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "DELETE, GET, HEAD"
    for path in ("/livez", "/static/pages/pages.css"):
        assert client.post(path).headers["allow"] == "GET, HEAD"


def test_what_does_not_exist_is_404(client: httpx2.Client, submit_job: Callable[..., str]):
    job = f"/v1/jobs/{submit_job()}"
    for method, path in [
        ("GET", "/v1/jobs/job_none"),
        ("GET", "/v1/jobs/" + "x" * 5000),
        ("GET", "/v1/jobs/job_none/iterations"),
        ("GET", "/v1/jobs/job_none/calls"),
        ("GET", "/v1/jobs/job_none/events"),
        ("POST", "/v1/jobs/job_none/cancel"),
        ("POST", "/v1/jobs/job_none/continue"),
        ("DELETE", "/v1/jobs/job_none"),
        ("GET", f"{job}/iterations/7"),
        ("GET", f"{job}/calls/call_none"),
    ]:
        assert_problem(client.request(method, path), 404, "not_found")
    for number in ("0", "-1", "x", "9" * 30):
        problem = assert_problem(client.get(f"{job}/iterations/{number}"), 422)
        assert problem["errors"][0]["pointer"] == "path/number"


def test_nul_characters_in_the_address_are_refused(client: httpx2.Client):
    for path in ("/v1/jobs/job%00", "/v1/jobs?model=a%00", "/v1/jobs?metadata.a%00=1", "/%00"):
        assert_problem(client.get(path), 400, "nul_character")


def test_misspelt_query_parameters_are_refused(client: httpx2.Client, services: Services):
    for method, path in [
        ("POST", "/v1/generate-answer?validate_onyl=true"),
        ("GET", "/v1/jobs?state=queued"),
        ("GET", "/v1/jobs?metadata=x"),
        ("GET", "/v1/models?x=1"),
        ("GET", "/livez?x=1"),
    ]:
        name = path.partition("?")[2].partition("=")[0]
        response = client.request(method, path, json=REQUEST if method == "POST" else None)
        problem = assert_problem(response, 422, "unknown_parameter")
        assert problem["errors"][0]["pointer"] == f"query/{name}"
    assert count_jobs(services) == 0


def test_a_crash_tells_nothing_but_its_request_id(
    api: ApiServer, client: httpx2.Client, caplog: pytest.LogCaptureFixture
):
    def crash() -> None:
        raise RuntimeError("the secret inside")

    api.app.add_api_route("/v1/crash", crash)
    response = client.get("/v1/crash", headers={"X-Request-Id": "mine-1"})
    problem = assert_problem(response, 500, "internal_error")
    assert problem["request_id"] == "mine-1"
    assert "mine-1" in problem["detail"]
    assert "secret" not in response.text
    [logged] = [record.msg for record in caplog.records if record.levelname == "ERROR"]
    assert logged["event"] == "request_failed"
    assert logged["request_id"] == "mine-1"
    assert "the secret inside" in logged["exception"]


def test_a_database_that_is_away_is_503_with_a_time_to_come_back(start_api: Callable[..., ApiServer], tmp_path):
    client = start_api(database_url=f"sqlite:///{tmp_path}/no/such/folder/db").client()
    response = client.get("/v1/jobs")
    assert assert_problem(response, 503, "database_unavailable")["retryable"]
    assert response.headers["retry-after"]


def test_a_request_id_is_kept_when_it_is_sane(client: httpx2.Client):
    for offered in (b"abc-1.2_3", b"x" * 128):
        assert client.get("/livez", headers={b"X-Request-Id": offered}).headers["x-request-id"] == offered.decode()
    for offered in (b"", b"a b", b"x" * 129, b"\xfc", b"a\tb", b'a"b'):
        found = client.get("/livez", headers={b"X-Request-Id": offered}).headers["x-request-id"]
        assert found.startswith("req_")
