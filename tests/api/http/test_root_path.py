"""Redraft under a path of another site, behind a proxy that takes the path off and behind one that does not."""

import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path

import httpx2
import pytest

from api.app import create_app
from redraft.domain.admin.scopes import Scope
from redraft.errors import Invalid
from redraft.operations.admin import keys
from redraft.operations.services import Services
from redraft.settings import Settings
from tests.api.conftest import REQUEST, assert_problem
from tests.support.api_server import ApiServer
from tests.support.proxy import proxied
from tests.support.waiting import patient

ROOT = "/tools/redraft"
_ADDRESSES = re.compile(r'\s(href|src|action|data-live|hx-get|hx-post)="([^"]*)"')
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture(params=[True, False], ids=["stripping", "not stripping"])
def site(request: pytest.FixtureRequest, start_api: Callable[..., ApiServer]) -> Iterator[httpx2.Client]:
    """A client of the proxy."""
    with (
        proxied(start_api(root_path=ROOT).url, ROOT, strips=request.param) as url,
        httpx2.Client(base_url=url, timeout=patient(10)) as made,
    ):
        yield made


def local_addresses(page: httpx2.Response) -> Iterator[tuple[str, str]]:
    for name, address in _ADDRESSES.findall(page.text):
        if not address.startswith(("http:", "https:", "#", "?", "data:")):
            yield name, unescape(address)


# Case T2-35
@pytest.mark.parametrize("site", [False], ids=["not stripping"], indirect=True)
def test_all_addresses_of_pages_lead_beneath_the_path(site: httpx2.Client):
    job = site.post(f"{ROOT}/v1/generate-answer", json=REQUEST).json()
    dataset = site.post(f"{ROOT}/v1/datasets", content=b'{"question": "a"}\n').json()
    site.post(f"{ROOT}/v1/runs", json={"dataset_id": dataset["id"], "defaults": {"eval_crit": "c"}})
    asked = {job["urls"]["web"], f"{ROOT}/", f"{ROOT}/docs"}
    seen: set[str] = set()
    while asked:
        address = asked.pop()
        seen.add(address)
        answer = site.get(address, headers={"Accept": "text/html"})
        assert answer.status_code in {200, 303}, address
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        for name, found in local_addresses(answer):
            assert found.startswith(f"{ROOT}/"), (address, name, found)
            path = re.split("[#?]", found)[0]
            if name in {"href", "src", "hx-get"} and path not in seen:
                asked.add(path)
    assert 20 < len(seen) < 100, seen


def test_the_api_names_addresses_beneath_the_path(site: httpx2.Client):
    submitted = site.post(f"{ROOT}/v1/generate-answer", json=REQUEST)
    job = submitted.json()
    assert submitted.headers["location"] == job["urls"]["self"] == f"{ROOT}/v1/jobs/{job['id']}"
    assert site.get(job["urls"]["self"]).json()["id"] == job["id"]
    [listed] = site.get(f"{ROOT}/v1/jobs").json()["data"]
    assert listed["urls"] == job["urls"]
    problem = assert_problem(site.get(f"{ROOT}/v1/jobs/none"), 404)
    assert problem["instance"] == f"{ROOT}/v1/jobs/none"
    document = site.get(f"{ROOT}/openapi.json").json()
    assert document["servers"] == [{"url": ROOT}]
    assert "/v1/jobs" in document["paths"]
    moved = site.post(f"{ROOT}/jobs/{job['id']}/cancel")
    assert (moved.status_code, moved.headers["location"]) == (303, f"{ROOT}/jobs/{job['id']}?notice=canceled#state")


def test_signing_in_leads_back_beneath_the_path(start_api: Callable[..., ApiServer], services: Services):
    token = keys.create_key(services, "person", [Scope.READ])[1]
    server = start_api(root_path=ROOT, require_auth=True)
    with proxied(server.url, ROOT, strips=True) as url, httpx2.Client(base_url=url, timeout=patient(10)) as browser:
        asked = browser.get(f"{ROOT}/jobs?status=failed", headers={"Accept": "text/html"})
        goal = asked.headers["location"]
        assert goal == f"{ROOT}/sign-in?next=%2Fjobs%3Fstatus%3Dfailed"
        signed_in = browser.post(f"{ROOT}/sign-in", data={"key": token, "next": "/jobs?status=failed"})
        assert signed_in.headers["location"] == f"{ROOT}/jobs?status=failed"
        assert f"Path={ROOT}" in signed_in.headers["set-cookie"]
        renewed = {"HX-Request": "true", "HX-Current-URL": f"{url}{ROOT}/jobs", "Accept": "text/html"}
        stranger = httpx2.get(f"{url}{ROOT}/jobs", headers=renewed, timeout=patient(10))
        assert stranger.headers["hx-redirect"] == f"{ROOT}/sign-in?next=%2Fjobs"
        assert browser.get(signed_in.headers["location"]).status_code == 200


@pytest.mark.parametrize("root", ["redraft", "/redraft/", "//evil", "/a b", "/../x", "/"])
def test_a_path_that_is_none_is_refused(root: str, database_url: str):
    with pytest.raises(ValueError, match="root_path"):
        Settings(_env_file=None, root_path=root)  # pyright: ignore[reportCallIssue]


def test_a_path_that_begins_like_an_address_of_redraft_is_refused(tmp_path: Path, database_url: str):
    settings = Settings(_env_file=None, data_dir=tmp_path, root_path="/jobs/x")  # pyright: ignore[reportCallIssue]
    with pytest.raises(Invalid, match="begins with /jobs"):
        create_app(settings)
