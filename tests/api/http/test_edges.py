"""The edges of HTTP: what is packed, ambiguous or half a request, and the headers that guard every answer."""

import gzip
import json
import re
import socket
import zlib
from collections.abc import Callable

import httpx2
import pytest

from redraft.operations.admin import keys
from redraft.operations.services import Services
from tests.api.conftest import REQUEST, assert_problem
from tests.support.api_server import ApiServer
from tests.support.waiting import patient

BODY = json.dumps(REQUEST).encode()
SUBMIT = "/v1/generate-answer"


def send(api: ApiServer, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of what comes back to raw bytes."""
    with socket.create_connection(("127.0.0.1", api.port), timeout=patient(5)) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return head, body


def test_packed_bodies_are_refused_before_they_are_unpacked(client: httpx2.Client):
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 100_000
    for coding, body in (("gzip", bomb), ("x-gzip", bomb), ("deflate", zlib.compress(BODY)), ("br", BODY), ("", BODY)):
        headers = {"Content-Type": "application/json", "Content-Encoding": coding}
        response = client.post(SUBMIT, content=body, headers=headers)
        assert_problem(response, 415, "unsupported_content_encoding")
        assert response.headers["accept-encoding"] == "identity"
    headers = {"Content-Type": "application/json", "Content-Encoding": "Identity"}
    assert client.post(SUBMIT, content=BODY, headers=headers).status_code == 202
    assert len(client.get("/v1/jobs").json()["data"]) == 1


def test_a_body_in_chunks_needs_no_length_but_a_type(client: httpx2.Client):
    typed = {"Content-Type": "application/json"}
    assert (
        client.post(SUBMIT, content=(BODY[n : n + 7] for n in range(0, len(BODY), 7)), headers=typed).status_code == 202
    )
    assert_problem(client.post(SUBMIT, content=iter([BODY])), 415, "unsupported_media_type")
    assert_problem(client.post(SUBMIT, content=iter([]), headers=typed), 422)


def test_two_hosts_are_none(api: ApiServer):
    for path in (b"/v1/jobs", b"/livez"):
        head, body = send(api, b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        # By the gate, or before it by h11
        assert b"ambiguous_header" in body or b"text/plain" in head


def test_no_host_is_no_name_of_this_machine(api: ApiServer):
    head, body = send(api, b"GET /v1/jobs HTTP/1.0\r\n\r\n")
    assert head.split(b"\r\n")[0].endswith(b"403 Forbidden")
    assert json.loads(body)["code"] == "host_not_allowed"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"<script>alert(1)</script>\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nBad Header\x00: 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/generate-answer HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_by_the_server_in_plain_text(api: ApiServer, request_bytes: bytes):
    head, body = send(api, request_bytes)
    assert head.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 ")), head
    assert b"<script>" not in head + body
    assert api.client().get("/livez").status_code == 200


def test_a_body_that_stops_half_way_stores_nothing(api: ApiServer, client: httpx2.Client):
    length = str(len(BODY) + 10).encode()
    head = b"POST /v1/generate-answer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    send(api, head + b"Content-Length: " + length + b"\r\n\r\n" + BODY)
    assert client.get("/v1/jobs").json()["data"] == []


def test_every_answer_is_guarded(start_api: Callable[..., ApiServer], services: Services, submit_job):
    client = start_api(require_auth=True).client()
    headers = {"Authorization": f"Bearer {keys.create_key(services, 'test')[1]}"}
    job_id = submit_job()
    for method, path in [
        ("GET", "/livez"),
        ("GET", "/readyz"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/static/pages/pages.js"),
        ("GET", "/v1/jobs"),
        ("GET", f"/v1/jobs/{job_id}"),
        ("GET", f"/v1/jobs/{job_id}/calls"),
        ("GET", f"/v1/jobs/{job_id}/events"),
        ("GET", "/v1/nowhere"),
        ("PUT", "/v1/jobs"),
        ("POST", SUBMIT),
        ("DELETE", f"/v1/jobs/{job_id}"),
    ]:
        with client.stream(method, path, headers=headers) as response:
            found = response.headers
        assert found["x-content-type-options"] == "nosniff", path
        # The forms of a page are accepted from its own origin only
        assert found["referrer-policy"] == ("same-origin" if path == "/docs" else "no-referrer")
        assert found["cross-origin-resource-policy"] == "same-origin"
        assert not [name for name in found if name.startswith("access-control-")]
        is_static = path.startswith("/static/")
        assert ("no-store" in found.get("cache-control", "")) == (not is_static), path
        assert is_static or "frame-ancestors 'none'" in found["content-security-policy"]
    assert_problem(client.get("/v1/jobs"), 401)
    assert client.get("/v1/jobs").headers["cache-control"] == "no-store"


def test_only_the_docs_page_may_run_scripts_and_only_its_own(client: httpx2.Client):
    policy = client.get("/docs").headers["content-security-policy"]
    assert re.search(r"script-src 'self'(;|$)", policy)
    assert "script-src" not in client.get("/v1/jobs").headers["content-security-policy"]


def test_head_is_get_without_the_body(client: httpx2.Client, submit_job: Callable[..., str]):
    job = f"/v1/jobs/{submit_job()}"
    for path in ("/livez", "/v1/jobs", job, f"{job}/events", "/docs", "/static/pages/pages.js"):
        asked = client.head(path)
        assert (asked.status_code, asked.content) == (200, b""), path
        got = client.get(path, headers={"Accept": "application/json"})
        assert asked.headers["content-type"] == got.headers["content-type"]
        assert asked.headers.get("etag") == got.headers.get("etag")
    tag = client.head(job).headers["etag"]
    assert client.head(job, headers={"If-None-Match": tag}).status_code == 304
    assert client.head("/v1/nowhere").status_code == 404
    assert client.head(SUBMIT).status_code == 405


def test_other_methods_are_refused_and_nothing_is_sent_back(client: httpx2.Client):
    for method in ("OPTIONS", "TRACE", "PATCH", "PROPFIND"):
        response = client.request(method, "/v1/jobs", headers={"X-Secret": "seen", "Origin": "http://evil.example"})
        assert response.status_code in {403, 405}
        assert "seen" not in response.text + repr(response.headers)
        assert not [name for name in response.headers if name.startswith("access-control-")]
    preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    refused = client.options(SUBMIT, headers=preflight)
    assert_problem(refused, 405)
    assert refused.headers["allow"] == "POST"


def test_what_is_sent_back_is_never_a_page(client: httpx2.Client):
    script = "<script>alert(1)</script>"
    for path in (f"/{script}", f"/v1/jobs/{script}", f"/v1/jobs?{script}=1", f"/v1/jobs?order={script}"):
        response = client.get(path)
        assert response.status_code in {404, 422}
        assert response.headers["content-type"] == "application/problem+json"
        assert "sandbox" in response.headers["content-security-policy"]
