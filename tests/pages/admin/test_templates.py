"""The pages of generator templates: saving, previewing on a past job, versions and their differences."""

from collections.abc import Callable

import httpx2
import pytest

from redraft.operations.admin.generator_templates import save_template
from redraft.operations.jobs.lifecycle import cancel
from redraft.operations.services import Services
from redraft.prompts.template_files import STANDARD, built_in_templates
from tests.support.api_server import ApiServer

OWN = {"Sec-Fetch-Site": "same-origin", "Accept": "text/html"}
STARTER = built_in_templates()[STANDARD].texts
FORM = {"name": "brief", "system": STARTER["system.j2"] + "Be brief.", "user": STARTER["user.j2"]}


@pytest.fixture
def browser_client(api: ApiServer) -> httpx2.Client:
    return api.client(headers=OWN)


def test_a_version_is_previewed_saved_and_compared(
    browser_client: httpx2.Client, services: Services, submit_job: Callable[..., str]
):
    job_id = submit_job(instruct="WHY <b>")
    shown = browser_client.post("/settings/templates", data={**FORM, "job": job_id, "do": "preview"})
    assert shown.status_code == 200
    assert "WHY &lt;b&gt;" in shown.text
    assert "Be brief." in shown.text
    sent = browser_client.post("/settings/templates", data={**FORM, "do": "save"}, follow_redirects=False)
    assert sent.headers["location"].startswith("/settings/templates/brief")
    first = browser_client.get("/settings/templates/brief").text
    assert "Be brief." in first
    save_template(services, "brief", {"system.j2": STARTER["system.j2"] + "Be long.", "user.j2": FORM["user"]})
    page = browser_client.get("/settings/templates/brief").text
    (link,) = {part.split('"')[0] for part in page.split('href="')[1:] if "from=" in part.split('"')[0]}
    changes = browser_client.get(link.replace("&amp;", "&")).text
    assert "<del>brief</del>" in changes
    assert "<ins>long</ins>" in changes
    assert 'value="brief"' in browser_client.get("/new").text


def test_an_invalid_template_is_shown_again_with_its_error(browser_client: httpx2.Client):
    sent = browser_client.post("/settings/templates", data={**FORM, "user": "MINE", "do": "save"})
    assert sent.status_code == 422
    assert "must show {{ instruct }} exactly once" in sent.text
    assert "MINE" in sent.text


def test_a_template_is_deleted_after_a_question(
    browser_client: httpx2.Client, services: Services, submit_job: Callable[..., str]
):
    save_template(services, "brief", {"system.j2": FORM["system"], "user.j2": FORM["user"]})
    job_id = submit_job(generator_template="brief")
    assert "/settings/templates/brief/delete" in browser_client.get("/settings/templates/brief").text
    assert "Delete the template brief?" in browser_client.get("/settings/templates/brief/delete").text
    refused = browser_client.post("/settings/templates/brief/delete")
    assert (refused.status_code, f"in use by {job_id}" in refused.text) == (409, True)
    cancel(services, job_id)
    done = browser_client.post("/settings/templates/brief/delete", follow_redirects=False)
    assert done.headers["location"] == "/settings/templates?notice=template_deleted"
    assert browser_client.get("/settings/templates/brief").status_code == 404
