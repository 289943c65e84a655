"""The settings: models that can be tried, profiles, keys, webhooks, the configuration; and no secret in any of them."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import expect
from pydantic import SecretStr

from redraft.domain.admin.scopes import Scope
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.admin import keys
from redraft.operations.admin.configuration import settings_in_effect
from redraft.operations.admin.deliveries import Deliverer
from redraft.operations.jobs import submit
from redraft.operations.services import Services
from redraft.prompts.profiles import BUILT_IN
from redraft.settings import ModelPrice, Settings
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.pages.admin.test_overview import CUT
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.browsers import width_of
from tests.support.html_pages import HtmlPage, Reader, text_of
from tests.support.receiver import LOOPBACK, SECRET, Answer, Receiver
from tests.support.shells import drain

PAGES = [
    "/settings",
    "/settings/profiles",
    "/settings/profiles/criteria",
    "/settings/profiles/quality?with=criteria",
    "/settings/webhooks",
    "/settings/keys",
    "/settings/configuration",
]
BROWSER = {"Accept": "text/html"}
OWN = {"Sec-Fetch-Site": "same-origin"}


def sign_in(visitor: Visitor, token: str) -> None:
    visitor.go("/sign-in")
    visitor.page.get_by_label("API key").fill(token)
    visitor.page.get_by_role("button", name="Sign in").click()
    expect(visitor.page).to_have_url(f"{visitor.base_url}/")


@pytest.fixture
def priced(start_api: Callable[..., ApiServer]) -> ApiServer:
    return start_api(prices={"openai:writer": ModelPrice(input=0.25, output=2)})


def test_a_model_is_tried_with_one_call(priced: ApiServer, visit: Callable[..., Visitor], model_server: ModelServer):
    visitor = visit(base_url=priced.url)
    page = visitor.go("/settings")
    row = page.get_by_role("row", name=re.compile("openai:writer"))
    said = ["✓ configured", "$0.25", "$2.00"]
    expect(row.locator("td:nth-of-type(-n+3)")).to_have_text(said, use_inner_text=True)
    expect(row).to_contain_text("default: generator")
    expect(page.get_by_role("row", name=re.compile("openai:judge"))).to_contain_text("default: evaluator")
    row.get_by_role("button", name="Test").click()
    result = page.locator("#result")
    answered = re.compile(r"^✓ openai:writer answered in [\d.]+ m?s, for (<?\$[\d.]+)\.$")
    expect(result).to_have_text(answered, use_inner_text=True)
    opened = priced.client(headers=BROWSER).get(page.url.removeprefix(priced.url))
    assert (opened.status_code, opened.headers["Location"]) == (303, "/settings")
    model_server.script(generate=[Reply(status=401, raw={"error": {"message": "no such key sk-test"}})])
    row.get_by_role("button", name="Test").click()
    expect(result).to_have_role("alert")
    expect(result).to_contain_text("✗ openai:writer did not answer", use_inner_text=True)
    expect(result).to_contain_text("provider_auth · HTTP 401", use_inner_text=True)
    visitor.check_accessible()


def test_any_model_can_be_tried_and_a_wrong_name_is_explained_at_its_field(reader: Reader):
    page = reader.go("/settings")
    form = page.form_of(page.field("Test another model"))
    page = reader.press("Test", {"Test another model": "openai:other"}, inside=form)
    assert "✓ openai:other answered" in text_of(page.by_id("result"))
    assert "an unknown price" in text_of(page.by_id("result"))
    form = page.form_of(page.field("Test another model"))
    page = reader.press("Test", {"Test another model": "odd"}, inside=form)
    field = page.field("Test another model")
    assert field.get("aria-invalid") == "true"
    assert field.get("aria-describedby") == "model-hint model-error"
    assert "odd" in text_of(page.by_id("model-error"))


def test_a_provider_without_a_key_cannot_be_tried(start_api: Callable[..., ApiServer]):
    api = start_api(anthropic_api_key=None, anthropic_base_url=None)
    text = api.client(headers=BROWSER).get("/settings").text
    row = next(each for each in re.findall(r"(?s)<tr>.+?</tr>", text) if "anthropic:" in each)
    assert "no key set" in row
    assert "<button disabled>" in row


def test_profiles_are_read_and_compared(reader: Reader):
    page = reader.go("/settings/profiles")
    assert len(page.all("tr")) == 6
    page = reader.click("quality")
    assert "quality_score" in text_of(page.by_id("schema"))
    assert page.texts("h1") == ["Settings"]
    assert page.texts("li", page.of_class("mapping")[0])[0] == "score ← quality_score"
    assert "Versions in evaluations" not in page.text
    page = reader.press("Show the difference", {"Compare with": "criteria"})
    assert page.path == "/settings/profiles/quality?with=criteria"
    assert "quality_score" in " ".join(page.texts("ins"))
    assert "meets_criteria" in " ".join(page.texts("del"))
    assert reader.go("/settings/profiles/none").status == 404


def own_profile(folder: Path, line: str) -> Path:
    """A folder with a profile of one's own: the built-in `quality`, saying one thing more."""
    shutil.copytree(BUILT_IN["quality"], folder / "strict", dirs_exist_ok=True)
    with (folder / "strict" / "system.j2").open("a") as file:
        file.write(line)
    return folder


def test_what_a_profile_said_before_is_kept_and_compared(
    start_api: Callable[..., ApiServer], make_services: Callable[..., Services], tmp_path: Path
):
    folder = tmp_path / "profiles"
    for line in ("Be kind.\n", "Be <b>strict</b>.\n"):
        services = make_services(profiles_dir=own_profile(folder, line))
        for _ in range(3):
            submit.submit(services, GenerateAnswer(instruct="Why?", profile="strict"))
            drain(services)
    reader = Reader.of(start_api(profiles_dir=folder))
    page = reader.go("/settings/profiles/strict")
    [section] = [each for each in page.all("section") if "Versions in evaluations" in page.texts("h2", each)]
    rows = page.all("li", section)
    assert ["in use" in text_of(row) for row in rows] == [True, False]
    page = reader.click("", rows[-1])
    assert page.texts("ins") == ["<b>strict</b>"]
    assert page.texts("del") == ["kind"]
    assert reader.go("/settings/profiles/strict?from=0123456789ab").status == 404


def test_a_key_is_made_shown_once_and_opens_the_pages_until_it_is_revoked(
    start_api: Callable[..., ApiServer], services: Services, visit: Callable[..., Visitor]
):
    api = start_api(require_auth=True)
    visitor = visit(base_url=api.url)
    sign_in(visitor, keys.create_key(services, "admin", Scope)[1])
    page = visitor.go("/settings/keys")
    page.get_by_label("admin: keys and configuration").check()
    page.get_by_label("Purpose").fill("the <i>new</i> one")
    page.get_by_label("Expires").select_option("7")
    page.get_by_role("button", name="Create the key").click()
    expect(page.locator("main")).to_contain_text("the <i>new</i> one")
    page.wait_for_load_state()
    token = page.inner_text("#token")
    assert token.startswith("rd_")
    assert token not in page.url
    visitor.check_accessible()
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("This key already exists")
    expect(page.locator("#token")).to_have_count(0)
    assert [key["name"] for key in keys.list_keys(services)] == ["admin", "the <i>new</i> one"]
    assert token not in visitor.go("/settings/keys").content()
    other = visit(base_url=api.url)
    sign_in(other, token)
    expect(other.go("/settings/keys").get_by_role("row", name=re.compile("new.+yours"))).to_have_count(1)
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("link", name="Revoke … the <i>new</i> one").click()
    expect(page.locator("main")).to_contain_text("will be refused")
    page.get_by_role("button", name="Revoke the key").click()
    expect(page.get_by_role("status").first).to_have_text("The key is revoked.")
    expect(other.go("/")).to_have_url(re.compile("/sign-in"))


def test_a_key_that_is_not_described_is_not_made(reader: Reader, services: Services):
    page = reader.go("/settings/keys")
    assert "No key is needed here" in page.text
    scopes = {label: False for label in page.texts("label") if label.startswith(("read", "write"))}
    page = reader.press("Create the key", {**scopes, "Purpose": " "})
    assert len(page.all("a", page.one("*[@role='alert']"))) == 2
    assert page.field("Purpose").get("aria-describedby") == "name-error"
    assert keys.list_keys(services) == []


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(Answer(410)) as started:
        yield started


def test_failed_webhooks_are_found_and_sent_again(
    start_api: Callable[..., ApiServer],
    make_services: Callable[..., Services],
    visit: Callable[..., Visitor],
    receiver: Receiver,
):
    changes: dict[str, Any] = {"webhook_secret": SecretStr(SECRET), "webhook_allow_private": LOOPBACK}
    api, sender = start_api(**changes), make_services(**changes)
    webhook = {"url": receiver.url, "events": ["job.queued"]}
    for instruct in ("one", "two"):
        body = {"instruct": instruct, "eval_crit": "any", "webhook": webhook}
        assert api.client().post("/v1/generate-answer", json=body).status_code == 202
    deliverer = Deliverer(sender)
    deliverer.send_due()
    assert deliverer.finish(10)
    visitor = visit(base_url=api.url, viewport={"width": 390, "height": 800})
    page = visitor.go("/settings/webhooks")
    expect(page.locator("tbody tr")).to_have_count(2)
    assert width_of(page) <= 390
    assert page.evaluate(CUT) == []
    page.get_by_role("link", name="failed only").click()
    row = page.locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("it accepts no further events")
    expect(row).to_contain_text(f"127.0.0.1:{receiver.port}")
    assert "t0p" not in page.content()
    row.get_by_role("button", name="Resend").click()
    expect(page.get_by_role("status").first).to_contain_text("The delivery is sent again now")
    expect(page.get_by_role("heading", name="No failed deliveries")).to_have_count(1)
    deliverer.send_due()
    assert deliverer.finish(10)
    assert len(receiver.hits) == 3


def test_a_key_that_reads_sees_no_buttons_and_changes_nothing(start_api: Callable[..., ApiServer], services: Services):
    api = start_api(require_auth=True)
    client = api.client(headers={**BROWSER, **OWN})
    signed_in = client.post("/sign-in", data={"key": keys.create_key(services, "reader", [Scope.READ])[1]})
    page = HtmlPage(client.get("/settings"))
    assert page.all("main//button") == []
    assert [name for name in page.texts("a") if name in {"API keys", "Configuration"}] == []
    refused: list[httpx2.Response] = [
        client.post("/settings/keys", data={"name": "x", "scope": "read", "days": ""}),
        client.post("/settings/webhooks/resend", data={"owner_id": "job_x", "delivery_id": "whd_x"}),
        client.post("/settings/models/test", data={"model": "openai:writer"}),
        client.get("/settings/keys"),
        client.get("/settings/configuration"),
    ]
    assert [response.status_code for response in refused] == [403] * 5
    assert all("needs an API key with the scope" in response.text for response in refused)
    assert all("keys create NAME --scope read --scope admin" in refused[each].text for each in (0, 3, 4))
    assert "keys create NAME --scope read --scope write" in refused[1].text
    assert all('<a href="/settings">To the settings</a>' in response.text for response in refused)
    told = api.client(headers=OWN, cookies=signed_in.cookies).get("/v1/keys").json()["detail"]
    assert "keys create NAME --scope admin" in told
    assert len(keys.list_keys(services)) == 1


def test_the_configuration_tells_origins_and_no_page_tells_a_secret(start_api: Callable[..., ApiServer]):
    secrets = {
        "openai_api_key": SecretStr("sk-0123456789abcdef"),
        "anthropic_api_key": SecretStr("sk-ant-0123456789"),
        "webhook_secret": SecretStr(SECRET),
    }
    client = start_api(**secrets, port=9001).client(headers=BROWSER)
    for path in PAGES:
        text = client.get(path).text
        for secret in ("0123456789", "abcdef", SECRET, SECRET.removeprefix("whsec_")):
            assert secret not in text, path
    text = client.get("/settings/configuration").text
    text = text.replace("<wbr>", "")
    rows = [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)).strip() for row in re.findall(r"(?s)<tr>.+?</tr>", text)]
    found = {row.split()[0]: row for row in rows}
    assert found["OPENAI_API_KEY"].startswith("OPENAI_API_KEY Key for openai:… models. set command line")
    assert found["REDRAFT_PORT"].startswith("REDRAFT_PORT Port that the API listens on")
    assert found["REDRAFT_PORT"].endswith("9001 command line")
    assert found["REDRAFT_HOST"].endswith("127.0.0.1 default")
    changed = client.get("/settings/configuration?show=changed").text.replace("<wbr>", "")
    assert "REDRAFT_PORT" in changed
    assert "REDRAFT_HOST" not in changed


def test_a_setting_with_two_names_is_named_as_it_was_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    Path(".env").write_text("ANTHROPIC_API_KEY=sk-ant-0123456789\n")
    monkeypatch.setenv("REDRAFT_OPENAI_API_KEY", "sk-0123456789abcdef")
    found = {each.name: each.origin for each in settings_in_effect(Settings())}
    assert found["REDRAFT_OPENAI_API_KEY"] == "environment"
    assert found["ANTHROPIC_API_KEY"] == ".env"
    assert found["OPENAI_BASE_URL"] == "default"


def test_the_settings_fit_a_phone(visit: Callable[..., Visitor], services: Services):
    keys.create_key(services, "n" * 150)
    visitor = visit(viewport={"width": 390, "height": 800})
    for path in PAGES:
        page = visitor.go(path)
        assert visitor.status == 200
        assert width_of(page) <= 390, path
        assert page.evaluate(CUT) == [], path
