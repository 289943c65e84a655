"""Who may see the pages, and what a key that only reads may do there."""

import re
from collections.abc import Callable

import httpx2
import pytest
from playwright.sync_api import expect

from api.authentication import COOKIE
from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.services import Services
from redraft.storage.admin import api_keys
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.html_pages import HtmlPage, text_of

BROWSER = {"Accept": "text/html"}


@pytest.fixture
def guarded(start_api: Callable[..., ApiServer]) -> ApiServer:
    return start_api(require_auth=True)


@pytest.fixture
def key(services: Services) -> str:
    return keys.create_key(services, "mine", Scope)[1]


def test_who_is_not_signed_in_signs_in_with_a_key_and_comes_back(
    guarded: ApiServer, visit: Callable[..., Visitor], key: str
):
    visitor = visit(base_url=guarded.url)
    page = visitor.go("/nowhere?a=1")
    expect(page).to_have_url(guarded.url + "/sign-in?next=%2Fnowhere%3Fa%3D1")
    page.get_by_label("API key").fill("rd_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not a valid API key")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(guarded.url + "/nowhere?a=1")
    [cookie] = visitor.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    assert key not in cookie["value"]
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("main")).to_contain_text("You are signed out.")
    expect(visitor.go("/nowhere")).to_have_url(re.compile(r"/sign-in\?next="))


def test_a_live_page_whose_sign_in_is_over_asks_to_sign_in_again(
    guarded: ApiServer, visit: Callable[..., Visitor], services: Services, key: str, submit_job: Callable[..., str]
):
    submit_job()
    visitor = visit(base_url=guarded.url)
    page = visitor.go("/jobs?limit=10")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/jobs?limit=10")
    keys.revoke_key(services, keys.list_keys(services)[0]["id"])
    submit_job()
    page.wait_for_url("**/sign-in?next=%2Fjobs%3Flimit%3D10")


def test_a_page_whose_stream_is_refused_looks_again_by_itself(
    guarded: ApiServer, visit: Callable[..., Visitor], services: Services, key: str, submit_job: Callable[..., str]
):
    submit_job()
    visitor = visit(base_url=guarded.url)
    page = visitor.go("/jobs?limit=10")
    page.route("**/news", lambda route: route.fulfill(status=401))
    page.get_by_label("API key").fill(key)
    with page.expect_request("**/news"):
        page.get_by_role("button", name="Sign in").click()
    keys.revoke_key(services, keys.list_keys(services)[0]["id"])
    page.wait_for_url("**/sign-in?next=%2Fjobs%3Flimit%3D10")


def sign_in(api: ApiServer, key: str) -> httpx2.Client:
    client = api.client(headers=BROWSER)
    response = client.post("/sign-in", data={"key": key, "next": "/"}, headers={"Origin": api.url})
    assert (response.status_code, response.headers["location"]) == (303, "/")
    return client


def test_a_cookie_opens_the_api_to_our_own_pages_only(guarded: ApiServer, key: str):
    client = sign_in(guarded, key)
    assert client.get("/v1/jobs").status_code == 200
    for foreign in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.test"}):
        assert client.post("/v1/generate-answer", json={}, headers=foreign).status_code == 403
        assert client.post("/sign-out", headers=foreign).status_code == 403
    assert client.post("/v1/generate-answer", json={}, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 422


def test_who_may_only_read_signs_in_and_out(guarded: ApiServer, services: Services):
    client = sign_in(guarded, keys.create_key(services, "reader", [Scope.READ])[1])
    assert client.get("/v1/jobs").status_code == 200
    told = [text_of(each) for each in HtmlPage(client.get("/jobs")).of_class("signed-in")]
    told += [text_of(each) for each in HtmlPage(client.get("/settings/keys")).of_class("signed-in")]
    assert told == ["Key reader may read"] * 2
    assert client.post("/sign-out").headers["location"] == "/sign-in?notice=signed_out"
    assert client.get("/v1/jobs").status_code == 401


def test_a_key_that_sees_nothing_opens_no_pages(guarded: ApiServer, services: Services):
    _, token = keys.create_key(services, "sender", [Scope.WRITE])
    response = guarded.client(headers=BROWSER).post("/sign-in", data={"key": token})
    assert (response.status_code, "set-cookie" in response.headers) == (403, False)
    assert "need a key with the scope &#39;read&#39;" in response.text


def test_a_sign_in_ends_with_its_key(guarded: ApiServer, services: Services, key: str):
    client = sign_in(guarded, key)
    keys.revoke_key(services, keys.list_keys(services)[0]["id"])
    assert client.get("/v1/jobs").status_code == 401


def test_a_sign_in_ends_after_its_time(guarded: ApiServer, services: Services, key: str):
    [known] = keys.list_keys(services)
    with services.database.write() as connection:
        api_keys.add_sign_in(connection, keys.hash_of("fresh"), known["id"], lifetime_s=60)
        api_keys.add_sign_in(connection, keys.hash_of("stale"), known["id"], lifetime_s=-1)
    statuses = [
        guarded.client(headers={"Cookie": f"{COOKIE}={token}"}).get("/v1/jobs").status_code
        for token in ("fresh", "stale", "made-up")
    ]
    assert statuses == [200, 401, 401]


@pytest.mark.parametrize("goal", ["//evil.test", "/\\evil.test", "https://evil.test", "javascript:alert(1)", "/a b"])
def test_nobody_is_sent_elsewhere_after_signing_in(guarded: ApiServer, key: str, goal: str):
    response = guarded.client(headers=BROWSER).post("/sign-in", data={"key": key, "next": goal})
    assert response.headers["location"] == "/"


def test_wrong_keys_are_held_up_here_too(guarded: ApiServer):
    client = guarded.client(headers=BROWSER)
    statuses = [client.post("/sign-in", data={"key": f"rd_{n}"}).status_code for n in range(25)]
    assert (statuses[0], statuses[-1]) == (403, 429)


def test_errors_are_pages_for_browsers_and_problems_for_programs(api: ApiServer):
    page = api.client(headers=BROWSER).get("/nowhere", headers={"X-Request-Id": "mine-1"})
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "mine-1" in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert api.client(headers=BROWSER).get("/v1/jobs/job_x").headers["content-type"] == "application/problem+json"
    assert api.client().get("/nowhere").headers["content-type"] == "application/problem+json"


def test_a_session_that_has_ended_is_explained_and_leads_back_to_the_form(
    start_api: Callable[..., ApiServer], services: Services
):
    api = start_api(require_auth=True)
    client = api.client(headers={"Accept": "text/html"})
    client.cookies.set(COOKIE, "ended")
    referer = {"Referer": f"{api.url}/new?from=job_1"}
    response = client.post("/new", data={"instruct": "Why?"}, headers=referer)
    assert response.headers["location"] == "/sign-in?next=%2Fnew%3Ffrom%3Djob_1"
    assert "Your session has ended." in client.get(response.headers["location"]).text
    elsewhere = client.post("/new", data={"instruct": "Why?"}, headers={"Referer": "https://example.com/new"})
    assert elsewhere.headers["location"] == "/sign-in?next=%2F"
    assert "Your session has ended." not in api.client(headers={"Accept": "text/html"}).get("/sign-in").text
