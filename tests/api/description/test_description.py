import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator

from api.app import create_app
from redraft.settings import Settings
from tests.support.html_pages import HtmlPage, text_of


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Only read: to make it takes longer than to test it."""
    return create_app(Settings(_env_file=None, data_dir=tmp_path_factory.mktemp("app"))).openapi()  # pyright: ignore[reportCallIssue]


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_every_refusal_is_described_as_a_problem(document: dict[str, Any]):
    for name, operation in operations(document).items():
        for code, answer in operation["responses"].items():
            if int(code) >= 400:
                [(media_type, content)] = answer["content"].items()
                assert media_type == "application/problem+json", name
                assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
                assert content["example"]["status"] == int(code)


def test_the_contracts_answers_are_described(document: dict[str, Any]):
    submitting = "200 201 202 400 401 403 409 413 415 422 429 500 503"
    for name, codes in {
        "POST /v1/generate-answer": submitting,
        "POST /v1/evaluate-answer": submitting,
        "POST /v1/refine-question": "200 400 401 403 413 415 422 500 502 503",
        "GET /v1/jobs": "200 401 403 422 500 503",
        "GET /v1/jobs/{job_id}": "200 304 401 403 404 422 500 503",
        "GET /v1/jobs/{job_id}/events": "200 204 401 403 404 422 500 503",
        "POST /v1/jobs/{job_id}/cancel": "200 202 401 403 404 422 500 503",
        "DELETE /v1/jobs/{job_id}": "204 401 403 404 409 422 500 503",
        "GET /readyz": "200 422 500 503",
    }.items():
        described = set(operations(document)[name]["responses"])
        assert set(codes.split()) <= described | {"422"}, name


def parts_of(value: Any, pointer: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """All objects within a JSON value, with where they stand."""
    if isinstance(value, dict):
        yield pointer, value
    for name, each in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield from parts_of(each, f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}")


def test_each_reference_leads_to_what_is_there(document: dict[str, Any]):
    known = {pointer for pointer, _ in parts_of(document)}
    references = [each["$ref"] for _, each in parts_of(document) if isinstance(each.get("$ref"), str)]
    assert len(references) > 100
    assert set(references) <= known


# JSON of providers and users, and JSON Schemas: Redraft does not know what is in them. Events leave out long values,
# also within their objects.
OPEN = {"answer_schema", "vars", "reply_schema", "value", "content", "settings", "EventData"}


def test_no_object_is_left_without_a_type_that_redraft_knows(document: dict[str, Any]):
    free = [
        pointer
        for pointer, each in parts_of(document)
        if each.get("type") == "object" and "properties" not in each and each.get("additionalProperties", True) is True
    ]
    assert [pointer for pointer in free if not OPEN & set(pointer.split("/"))] == []


def test_operations_have_names_of_their_own_that_begin_with_a_verb(document: dict[str, Any]):
    names = [operation["operationId"] for operation in operations(document).values()]
    assert len(set(names)) == len(names)
    assert {"generate_answer", "get_job", "list_jobs", "cancel_job", "create_run", "get_run_report"} <= set(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+){1,3}", name) for name in names), names


def test_no_two_schemas_have_one_name(document: dict[str, Any]):
    assert [name for name in document["components"]["schemas"] if "__" in name or "-" in name] == []


BODY = {"instruct": "a", "eval_crit": "b"}
LINE = {"id": "a", "text": "true of a good answer"}


CASES: list[tuple[dict[str, Any], bool]] = [
    (BODY, True),
    ({**BODY, "iter_max": 2.0}, True),
    ({"instruct": "a", "profile": "quality"}, True),
    ({"instruct": "a", "rubric": [LINE]}, True),
    ({"instruct": "a"}, False),
    ({"instruct": "a", "eval_crit": None, "rubric": None}, False),
    ({"instruct": "a", "profile": "criteria"}, False),
    ({**BODY, "rubric": [LINE], "profile": "quality"}, False),
    ({**BODY, "rubric": [{**LINE, "weight": -1}]}, False),
    ({**BODY, "rubric": [{**LINE, "weight": -1}, {**LINE, "id": "b"}]}, True),
    ({**BODY, "rubric": [{**LINE, "kind": "check"}]}, False),
    ({**BODY, "rubric": [{"id": "a", "kind": "check", "check": {"kind": "max_words", "value": 9}}]}, True),
    ({**BODY, "rubric": [{**LINE, "anchors": {"0": "x"}}]}, False),
    ({**BODY, "rubric": [{**LINE, "kind": "scale", "anchors": {"0": "x"}}]}, True),
    ({**BODY, "rubric": [{"id": "a"}]}, False),
    ({**BODY, "answer_schema": {"type": "object"}, "grounding": {"output_format": "json"}}, False),
    ({**BODY, "answer_schema": {"type": "object"}, "grounding": {"output_format": "plain"}}, True),
    ({**BODY, "iter_max": 2.5}, False),
    ({**BODY, "webhook": {"url": "ftp://a"}}, False),
]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_description_allows_what_the_server_takes(document: dict[str, Any], client: httpx2.Client):
    wanted = {"$ref": "#/components/schemas/GenerateAnswer", "components": document["components"]}
    for body, is_sound in CASES:
        assert Draft202012Validator(wanted).is_valid(body) is is_sound, body
        answer = client.post("/v1/generate-answer?validate_only=true", json=body)
        assert answer.status_code == (200 if is_sound else 422), (body, answer.text)


def test_everything_has_words(document: dict[str, Any]):
    schemas = document["components"]["schemas"]
    assert "HTTPValidationError" not in schemas
    assert all(operation["description"] for operation in operations(document).values())
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    body = operations(document)["POST /v1/generate-answer"]["requestBody"]["content"]["application/json"]
    assert body["examples"]


def test_the_docs_load_nothing_from_elsewhere(client: httpx2.Client):
    page = client.get("/docs")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    loaded = set(re.findall(r'(?:src|href)="([^"#]+)"', page.text))
    assert len(loaded) >= 4
    for path in loaded:
        assert path.startswith("/")
        assert client.get(path).status_code == 200
    assert client.get("/openapi.json").json()["info"]["title"] == "Redraft"


def test_the_docs_describe_all_operations_and_fields(client: httpx2.Client, document: dict[str, Any]):
    page = HtmlPage(client.get("/docs"))
    for name, operation in operations(document).items():
        assert operation["operationId"] in {each.get("id") for each in page.all("div")}, name
    for name, schema in document["components"]["schemas"].items():
        shown = text_of(page.by_id(f"schema-{name}"))
        assert all(field in shown for field in schema.get("properties", ())), name
    targets = {each.get("id") for each in page.all("*") if each.get("id")}
    links = {(each.get("href") or "") for each in page.all("a")}
    assert {link.removeprefix("#") for link in links if link.startswith("#")} <= targets
    submit = text_of(page.by_id("generate_answer"))
    assert "Idempotency-Key" in submit
    assert "Names scattering; no formula; no wrong claim." in submit
    fields = [text_of(each) for each in page.all("tr", page.by_id("schema-GenerateAnswer"))]
    threshold = next(each for each in fields if each.startswith("score_threshold"))
    for words in (
        "number",
        "Minimum score of an accepted answer.",
        "default 0.8; at least 0.0; at most 1.0",
    ):
        assert words in threshold
