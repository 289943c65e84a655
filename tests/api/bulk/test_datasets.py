"""Datasets over HTTP: sound files, hostile ones, and what a check tells before anything is stored."""

import base64
import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from redraft.datasets.reports import Cost
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.bulk import datasets
from redraft.operations.bulk.dataset_checks import cost_max
from redraft.operations.services import Services
from redraft.settings import ModelPrice
from tests.api.conftest import assert_problem
from tests.operations.driving import Driver
from tests.support.api_server import ApiServer
from tests.support.waiting import patient, wait_until

ROWS = b'{"id": "a", "question": "Why?"}\n{"id": "b", "question": "How?", "mood": "good"}\n'
PRICES = {f"openai:{name}": ModelPrice(input=2, output=8) for name in ("writer", "judge")}
SHAPE = ["id", "object", "name", "version", "format", "rows", "bad_rows", "columns", "created_at", "urls"]


def upload(client: httpx2.Client, data: bytes, media_type: str = "", **query: Any) -> httpx2.Response:
    headers = {"Content-Type": media_type} if media_type else {}
    return client.post("/v1/datasets", content=data, params=query, headers=headers)


def check(client: httpx2.Client, data: bytes, **query: Any) -> dict[str, Any]:
    response = upload(client, data, validate_only=True, **query)
    assert response.status_code == 200, response.text
    return response.json()


def count(client: httpx2.Client) -> int:
    return len(client.get("/v1/datasets").json()["data"])


def test_rows_are_stored_once(client: httpx2.Client):
    first = upload(client, ROWS, name="rows.jsonl")
    assert first.status_code == 201
    dataset = first.json()
    assert list(dataset) == SHAPE
    assert (dataset["name"], dataset["format"], dataset["rows"], dataset["bad_rows"]) == ("rows.jsonl", "jsonl", 2, 0)
    assert dataset["columns"]["used"] == {"custom_id": "id", "instruct": "question"}
    assert dataset["columns"]["unused"] == {"mood": 1}
    assert client.get(first.headers["location"]).json() == dataset
    again = upload(client, ROWS.replace(b"\n", b"\r\n\r\n"), name="other.jsonl")
    assert (again.status_code, again.json()) == (200, dataset)
    assert client.get("/v1/datasets").json() == {"data": [dataset], "next_cursor": None}


@pytest.mark.parametrize(
    ("data", "media_type", "query", "found"),
    [
        (ROWS, "application/x-ndjson", {}, "jsonl"),
        (ROWS, "application/json", {}, "jsonl"),
        (b'[{"question": "Why?"}, {"question": "How?"}]', "application/json; charset=utf-8", {}, "json"),
        (b"question\nWhy?\nHow?\n", "text/csv", {}, "csv"),
        (b"question;id\nWhy?;1\nHow?;2\n", "application/vnd.ms-excel", {"name": "x.csv"}, "csv"),
        (b"question\tid\nWhy?\t1\nHow?\t2\n", "application/x-www-form-urlencoded", {"name": "x.tsv"}, "tsv"),
        (b"question\tid\nWhy?\t1\nHow?\t2\n", "text/csv", {"format": "tsv"}, "tsv"),
        (b"question\nWhy?\nHow?\n", "", {}, "csv"),
    ],
)
def test_the_format_is_told_by_whoever_knows_it(
    client: httpx2.Client, data: bytes, media_type: str, query: dict[str, str], found: str
):
    dataset = upload(client, data, media_type, **query).json()
    assert (dataset["format"], dataset["rows"], dataset["bad_rows"]) == (found, 2, 0)
    assert dataset["name"] == query.get("name", "dataset")


def test_columns_are_mapped(client: httpx2.Client):
    data = b"frage,crit\nWarum?,Wahr.\n"
    dataset = upload(client, data, "text/csv", map=["instruct=frage", "eval_crit=crit"]).json()
    [item] = client.get(dataset["urls"]["items"]).json()["data"]
    assert item["fields"] == {"instruct": "Warum?", "eval_crit": "Wahr."}


@pytest.mark.parametrize(
    "chosen", [["instruct"], ["=x"], ["instruct="], ["nonsense=id"], ["instruct=id", "instruct=question"], ["model=no"]]
)
def test_a_mapping_that_makes_no_sense_is_refused(client: httpx2.Client, chosen: list[str]):
    problem = assert_problem(upload(client, b"id,question\n1,Why?\n", "text/csv", map=chosen), 422, "invalid_mapping")
    assert problem["errors"][0]["pointer"] == "query/map"
    assert count(client) == 0


def test_items_are_paged_in_order_with_their_field_errors(client: httpx2.Client):
    data = b"".join(b'{"id": "r%d", "question": "Q"}\n' % n for n in range(5)) + b"nonsense\n"
    dataset = upload(client, data).json()
    assert (dataset["rows"], dataset["bad_rows"]) == (6, 1)
    seen: list[dict[str, Any]] = []
    after: dict[str, int] = {}
    while True:
        page = client.get(dataset["urls"]["items"], params={"limit": 4, **after}).json()
        seen += page["data"]
        if page["next_cursor"] is None:
            break
        after = {"after": page["next_cursor"]}
    assert [(item["position"], item["line"]) for item in seen] == [(n, n + 1) for n in range(6)]
    assert seen[5]["fields"] is None
    assert seen[5]["errors"][0]["code"] == "invalid_row"
    for query in ({"after": "x"}, {"after": -2}, {"after": 2**31}, {"limit": 0}, {"limit": 101}):
        assert_problem(client.get(dataset["urls"]["items"], params=query), 422)


def test_lists_are_paged(client: httpx2.Client):
    ids = [upload(client, b"question\n%d?\n" % n).json()["id"] for n in range(3)]
    first = client.get("/v1/datasets", params={"limit": 2}).json()
    rest = client.get("/v1/datasets", params={"limit": 2, "after": first["next_cursor"]}).json()
    assert [each["id"] for each in first["data"] + rest["data"]] == ids[::-1]
    assert rest["next_cursor"] is None
    for cursor in ("", "garbage", "ä", base64.urlsafe_b64encode(b"never|ds_1").decode()):
        problem = assert_problem(client.get("/v1/datasets", params={"after": cursor}), 422, "invalid_cursor")
        assert problem["errors"][0]["pointer"] == "query/after"


@pytest.mark.parametrize(
    ("data", "name", "code"),
    [
        (b"", "", "no_rows"),
        (b"\n \n\n", "x.jsonl", "no_rows"),
        (b"\x00\xff\xfe\x01" * 500, "x.jsonl", "unknown_encoding"),
        (bytes(range(128, 256)) * 50, "x.jsonl", "no_good_rows"),
        (b"PK\x03\x04rest", "rows.xlsx", "unknown_format"),
        (b"\x1f\x8bpacked", "rows.csv", "unknown_format"),
        (b"a,a\n1,2\n", "x.csv", "duplicate_column"),
        (b"[1, 2", "x.json", None),
        (b'{"question": "\x93\x8c\x8b\x9e"}\n', "sjis.jsonl", "no_good_rows"),
    ],
)
def test_files_that_are_none_are_refused_and_leave_nothing(
    client: httpx2.Client, services: Services, data: bytes, name: str, code: str | None
):
    assert_problem(upload(client, data, name=name), 422, code)
    assert count(client) == 0
    with pytest.raises(Exception, match="no dataset"):
        datasets.get_dataset(services, "ds_none")


def test_case_e06_csv_of_spreadsheets(client: httpx2.Client):
    data = '\ufeffid;question\r\n1;"Line one\nline; two ""q"""\r\n2;Café?\r\n'.encode()
    items = client.get(upload(client, data, name="rows.csv").json()["urls"]["items"]).json()["data"]
    assert [(item["custom_id"], item["fields"]["instruct"]) for item in items] == [
        ("1", 'Line one\nline; two "q"'),
        ("2", "Café?"),
    ]
    big = upload(client, b'id,question\n1,"' + b"x" * 200_000 + b'"\n', name="big.csv").json()
    assert (big["rows"], big["bad_rows"]) == (1, 0)
    ragged = upload(client, b'id,question\n1,a\n2\n3,b,c\n\n4,"open', name="ragged.csv").json()
    assert (ragged["rows"], ragged["bad_rows"]) == (4, 3)
    items = client.get(ragged["urls"]["items"]).json()["data"]
    assert [(item["line"], bool(item["errors"])) for item in items] == [(2, False), (3, True), (4, True), (6, True)]


def test_case_e07_lines_of_all_kinds(client: httpx2.Client):
    data = b'\xef\xbb\xbf{"question": "a"}\r\n\r\n{"question": "b"}\r\n   \n{"question": "c"}'
    items = client.get(upload(client, data, name="a.jsonl").json()["urls"]["items"]).json()["data"]
    assert [item["line"] for item in items] == [1, 3, 5]
    wide = upload(client, '{"question": "ü"}\n'.encode("utf-16"), name="utf16.jsonl").json()
    assert client.get(wide["urls"]["items"]).json()["data"][0]["fields"] == {"instruct": "ü"}
    problem = assert_problem(upload(client, b'{"question": "\x93\x8c\x8b\x9e"}\n', name="sjis.jsonl"), 422)
    assert "Line 1" in problem["detail"]
    assert "UTF-8" in problem["detail"]
    report = check(client, b'{"question": "a", "weight": NaN}\n[1]\n"x"\n{"q": 1}\n', name="nan.jsonl")
    assert [row["line"] for row in report["errors"]] == [1, 2, 3, 4]


def test_case_e11_ids_that_are_there_twice_are_told_by_line(client: httpx2.Client):
    data = (
        b'{"id": "x", "question": "a"}\n{"id": "x", "question": "b"}\n{"id": 1, "question": "c"}\n{"question": "e"}\n'
    )
    dataset = upload(client, data).json()
    items = client.get(dataset["urls"]["items"]).json()["data"]
    assert [item["custom_id"] for item in items][:3] == ["x", "x", "1"]
    assert items[1]["errors"][0]["code"] == "duplicate_custom_id"
    assert "line 1" in items[1]["errors"][0]["detail"]


def test_only_files_are_taken(client: httpx2.Client):
    for media_type in ("multipart/form-data; boundary=x", "image/png", "application/zip", "text/html"):
        response = upload(client, ROWS, media_type)
        problem = assert_problem(response, 415, "unsupported_media_type")
        assert "text/csv" in response.headers["accept"]
        assert "as the body" in problem["detail"]
    packed = {"Content-Encoding": "gzip"}
    assert_problem(client.post("/v1/datasets", content=ROWS, headers=packed), 415, "unsupported_content_encoding")
    for query in ({"format": "xlsx"}, {"nmae": "x"}, {"validate_only": "perhaps"}, {"name": "n" * 201}):
        assert_problem(upload(client, ROWS, **query), 422)
    assert count(client) == 0


def test_the_limit_on_files_is_exact_and_its_own(start_api: Callable[..., ApiServer]):
    client = start_api(max_body_bytes=1024, dataset_max_bytes=3000).client()
    fitting = ROWS.ljust(3000)
    assert upload(client, fitting).status_code == 201

    def pieces() -> Iterator[bytes]:
        yield fitting
        yield b" "

    for content in (fitting + b" ", pieces()):
        problem = assert_problem(client.post("/v1/datasets", content=content), 413, "body_too_large")
        assert "3,000 bytes" in problem["detail"]
        assert "REDRAFT_DATASET_MAX_BYTES" in problem["detail"]
    assert_problem(client.post("/v1/runs", json={"dataset_id": "d" * 2000}), 413, "body_too_large")


def test_an_upload_that_breaks_off_stores_nothing(
    api: ApiServer, client: httpx2.Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    before = {path.name for path in tmp_path.iterdir()}
    with socket.create_connection(("127.0.0.1", api.port), timeout=patient(5)) as connection:
        connection.sendall(b"POST /v1/datasets HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n" + ROWS)
        wait_until(lambda: api.open_requests == 1, what="the upload's beginning")
    wait_until(lambda: api.open_requests == 0, what="its end")
    assert count(client) == 0
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    assert {path.name for path in tmp_path.iterdir()} <= {*before, "redraft.db-shm", "redraft.db-wal"}


def test_a_file_that_cannot_be_kept_is_503(start_api: Callable[..., ApiServer], tmp_path: Path):
    folder = tmp_path / "data"
    client = start_api(data_dir=folder).client()
    shutil.rmtree(folder)
    folder.write_text("no folder any more")
    assert_problem(upload(client, ROWS), 503, "storage_failed")


def test_paths_of_attachments_are_refused(client: httpx2.Client):
    row = json.dumps({"instruct": "Go.", "eval_crit": "x", "attachments": ["a.png"]}).encode()
    problem = assert_problem(upload(client, row), 422, "no_good_rows")
    assert "a path is read only on the command line" in problem["detail"]


def test_what_does_not_exist_is_404(client: httpx2.Client):
    for path in ("/v1/datasets/ds_none", "/v1/datasets/ds_none/items", f"/v1/datasets/{'x' * 5000}"):
        assert_problem(client.get(path), 404, "not_found")


def test_a_check_tells_what_a_run_would_make_of_a_file(client: httpx2.Client):
    data = ROWS + b'{"id": "a", "question": "Again?"}\n{"id": "c", "question": ""}\nnonsense\n'
    report = check(client, data, name="x.jsonl", defaults=json.dumps({"eval_crit": "True.", "iter_max": 2}))
    assert (report["rows"], report["good"], report["bad"], report["duplicates"]) == (5, 2, 3, 1)
    assert report["kinds"] == {"generate_answer": 2}
    assert report["mapping"] == {"custom_id": "id", "instruct": "question"}
    assert [(each["name"], each["rows"]) for each in report["unused"]] == [("mood", 1)]
    assert [sample["custom_id"] for sample in report["samples"]] == ["a", "b"]
    assert [row["line"] for row in report["errors"]] == [3, 4, 5]
    # Two rows, each written twice, each answer judged and perhaps asked about once more
    assert (report["calls_max"], report["cost_max_usd"]) == (2 * 2 * 3, None)
    assert count(client) == 0


def test_a_check_without_criteria_says_that_they_are_missing(client: httpx2.Client):
    report = check(client, ROWS)
    assert (report["good"], report["calls_max"]) == (0, 0)
    assert report["errors"][0]["errors"][0]["code"] == "nothing_to_evaluate_by"


def test_layers_of_a_check_that_make_no_sense_are_refused(client: httpx2.Client):
    for value, code in [("{", "invalid_json"), ("[]", "dict_type"), ('{"iter_max": 99}', None), ('{"x": 1}', None)]:
        problem = assert_problem(upload(client, ROWS, validate_only=True, defaults=value), 422, code)
        assert problem["errors"][0]["pointer"].startswith("query/defaults"), problem
    for query in ({"defaults": "{}"}, {"delivery": "batch"}):
        assert_problem(upload(client, ROWS, **query), 422, "misplaced")


def test_a_check_for_batches_refuses_models_without_them(client: httpx2.Client):
    refused = upload(client, ROWS, validate_only=True, delivery="batch", defaults='{"eval_crit": "True."}')
    problem = assert_problem(refused, 422, "batch_unsupported")
    assert problem["errors"][0]["pointer"] == "query/delivery"


def test_the_bound_of_the_cost_holds(make_services: Callable[..., Services], model_server: Any):
    model_server.script(generate=["x" * 3000, "y" * 3000, "z" * 3000], evaluate=["no verdict", 0.1, 0.2, 0.3])
    services = make_services(prices=PRICES)
    request = GenerateAnswer.model_validate({"instruct": "Why? " * 300, "eval_crit": "True. " * 100, "iter_max": 3})
    bound = cost_max(services, request).usd
    assert bound is not None
    driver = Driver(services)
    job = driver.run_new(**request.model_dump(by_alias=True, exclude_unset=True))
    assert job.usage.cost_usd is not None
    for call in driver.calls(job.id):
        assert call.input_tokens is not None
    assert 0 < float(job.usage.cost_usd) < float(bound)
    assert cost_max(make_services(prices={}), request) == Cost(None, ("openai:writer", "openai:judge"))
    assert cost_max(services, request.model_copy(update={"model": "nobody:knows"})) == Cost(None)


def test_a_check_knows_the_cost_where_prices_are_known(start_api: Callable[..., ApiServer]):
    client = start_api(prices=PRICES).client()
    report = check(client, ROWS, defaults='{"eval_crit": "True.", "sampling": {"max_output_tokens": 100}}')
    assert 0.01 < float(report["cost_max_usd"]) < 2
    more = check(client, ROWS, defaults='{"eval_crit": "True.", "iter_max": 6}')
    assert float(more["cost_max_usd"]) > 2 * float(report["cost_max_usd"])
