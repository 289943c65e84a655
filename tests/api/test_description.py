import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from api.app import create_app
from redraft.settings import Settings


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    return create_app(Settings(_env_file=None, data_dir=tmp_path)).openapi()  # pyright: ignore[reportCallIssue]


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


def test_references_lead_somewhere_and_everything_has_words(document: dict[str, Any]):
    schemas = document["components"]["schemas"]
    for name in re.findall(r"#/components/schemas/([\w-]+)", str(document)):
        assert name in schemas
    assert "HTTPValidationError" not in schemas
    assert all(operation["description"] for operation in operations(document).values())
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    body = operations(document)["POST /v1/generate-answer"]["requestBody"]["content"]["application/json"]
    assert body["examples"]


def test_the_docs_load_nothing_from_elsewhere(client: httpx2.Client):
    page = client.get("/docs")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "script-src 'self';" in page.headers["content-security-policy"]
    assert "<script>" not in page.text
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(loaded) >= 4
    for path in loaded:
        assert path.startswith("/")
        assert client.get(path).status_code == 200
    assert client.get("/openapi.json").json()["info"]["title"] == "Redraft"


def test_the_vendored_viewer_names_its_licence(client: httpx2.Client):
    for name in ("LICENSE.swagger-ui.txt", "NOTICE.swagger-ui.txt", "README.md"):
        assert client.get(f"/static/docs/{name}").status_code == 200
