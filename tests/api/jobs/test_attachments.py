"""Attachments over HTTP: accepted with a request, and served so that no browser runs them."""

from collections.abc import Callable

import httpx2
import pytest

from redraft.domain.jobs.attachments import PDF as PDF_TYPE
from tests.api.conftest import REQUEST, assert_problem
from tests.media import GIF, PDF, PNG, attachment
from tests.support.api_server import ApiServer


@pytest.mark.parametrize(
    ("content", "media_type", "kind", "title", "name"),
    [
        (PNG, "image/png", "inline", "<b>", "b"),
        (PNG, "image/png", "inline", None, None),
        (PDF, PDF_TYPE, "attachment", 'Q"1;\r\nSet-Cookie: x.PDF', "Q_1; Set-Cookie_ x"),
    ],
)
def test_a_file_is_served_with_its_type_and_its_title(
    client: httpx2.Client, content: bytes, media_type: str, kind: str, title: str | None, name: str | None
):
    files = [attachment(content, media_type, title=title)]
    sent = client.post("/v1/generate-answer", json={**REQUEST, "attachments": files})
    assert sent.status_code == 202
    [shown] = sent.json()["request"]["attachments"]
    assert client.get("/v1/jobs").json()["data"][0]["request"]["attachments"] == [shown]

    response = client.get(shown["url"])
    assert response.content == content
    assert response.headers["content-type"] == media_type
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in response.headers["content-security-policy"]
    suffix = media_type.partition("/")[2]
    assert response.headers["content-disposition"].startswith(
        f'{kind}; filename="{name or shown["digest"][:12]}.{suffix}";'
    )


def test_a_file_that_a_job_does_not_have_is_not_found(client: httpx2.Client):
    job = client.post("/v1/generate-answer", json={**REQUEST, "attachments": [attachment(PNG)]}).json()
    other = client.post("/v1/generate-answer", json=REQUEST).json()
    url = job["request"]["attachments"][0]["url"].replace(job["id"], other["id"])
    assert_problem(client.get(url), 404)


def test_the_idempotency_key_covers_the_files(client: httpx2.Client):
    def send(content: bytes, media_type: str) -> httpx2.Response:
        body = {**REQUEST, "attachments": [attachment(content, media_type)]}
        return client.post("/v1/generate-answer", json=body, headers={"Idempotency-Key": "files"})

    assert send(PNG, "image/png").status_code == 202
    assert send(PNG, "image/png").status_code == 200
    assert_problem(send(GIF, "image/gif"), 422, "idempotency_key_reused")


def test_an_estimate_shows_a_file_without_its_data(client: httpx2.Client):
    body = {**REQUEST, "attachments": [attachment(PNG)]}
    [shown] = client.post("/v1/generate-answer?validate_only=true", json=body).json()["request"]["attachments"]
    assert (shown["size"], "data" in shown) == (len(PNG), False)


def test_the_wrong_type_names_its_field(client: httpx2.Client):
    body = {**REQUEST, "attachments": [attachment(PNG), attachment(GIF)]}
    problem = assert_problem(client.post("/v1/generate-answer", json=body), 422)
    [error] = problem["errors"]
    assert (error["pointer"], error["code"]) == ("/attachments/1/media_type", "media_type_mismatch")


def test_the_path_of_a_file_is_below_the_root_path(start_api: Callable[..., ApiServer]):
    client = start_api(root_path="/redraft").client()
    job = client.post("/v1/generate-answer", json={**REQUEST, "attachments": [attachment(PNG)]}).json()
    url = job["request"]["attachments"][0]["url"]
    assert url.startswith(f"/redraft/v1/jobs/{job['id']}/attachments/")
    assert f'src="{url}"' in client.get(f"/jobs/{job['id']}/request", headers={"Accept": "text/html"}).text
    assert client.get(url).content == PNG
