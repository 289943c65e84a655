"""Generator templates over HTTP: saved by administrators, read by all, previewed on a past job."""

from collections.abc import Callable

import httpx2

from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.services import Services
from tests.api.conftest import REQUEST, assert_problem
from tests.support.api_server import ApiServer

PATH = "/v1/generator-templates"
TEXTS = {
    "system": "For {{ audience }}. {{ grounding_rules }} {{ system_instructions }}",
    "user": "{{ instruct }} {{ resp_format }} {{ sources }} {{ criteria }} {{ schema }}",
}


def test_a_template_is_saved_listed_used_and_previewed(client: httpx2.Client, submit_job: Callable[..., str]):
    saved = client.put(f"{PATH}/brief", json=TEXTS).json()
    assert (saved["origin"], saved["variables"], saved["reference"]) == (
        "saved",
        ["audience"],
        f"brief@{saved['version']}",
    )
    listed = client.get(PATH).json()["data"]
    assert listed[0] == saved
    assert {each["name"]: each["origin"] for each in listed[1:]} == {"short": "built-in", "standard": "built-in"}
    asked = {**REQUEST, "instruct": "Say {{ word }}.", "vars": {"word": "hi", "audience": "Ada"}}
    job = client.post("/v1/generate-answer", json={**asked, "generator_template": "brief"}).json()
    assert (job["request"]["instruct"], job["request"]["vars"]) == ("Say hi.", {"audience": "Ada"})
    assert job["request"]["generator_template"] == saved["reference"]
    shown = client.post(f"{PATH}/brief/preview", json={"job_id": job["id"]}).json()
    assert shown["system"].startswith("For Ada.")
    assert shown["messages"][0]["content"].startswith("Say hi.")
    other = {"job_id": submit_job(), "texts": {**TEXTS, "system": TEXTS["system"].replace("For", "To")}}
    assert_problem(client.post(f"{PATH}/brief/preview", json=other), 422, "undefined_variable")
    shown = client.post(f"{PATH}/brief/preview", json={**other, "vars": {"audience": "Bo"}}).json()
    assert shown["system"].startswith("To Bo.")
    details = client.get(f"{PATH}/brief", params={"version": saved["version"]}).json()
    assert ([each["version"] for each in details["versions"]], details["used_by"]) == ([saved["version"]], [])


def test_what_is_wrong_is_told(client: httpx2.Client):
    assert_problem(client.put(f"{PATH}/brief", json={**TEXTS, "user": "{{ instruct }}"}), 422, "invalid_template")
    assert_problem(client.put(f"{PATH}/Brief", json=TEXTS), 422, "invalid_template")
    assert_problem(client.get(f"{PATH}/none"), 404, "not_found")
    unused = {**REQUEST, "vars": {"word": 1}}
    problem = assert_problem(client.post("/v1/generate-answer", json=unused), 422)
    assert [(each["pointer"], each["code"]) for each in problem["errors"]] == [("/vars/word", "unused_variable")]
    assert_problem(client.post("/v1/generate-answer", json={**REQUEST, "vars": {"a b": 1}}), 422)
    problem = assert_problem(client.post("/v1/generate-answer", json={**REQUEST, "vars": {"self": 1}}), 422)
    assert [(each["pointer"], each["code"]) for each in problem["errors"]] == [("/vars/self", "reserved_name")]


def test_only_administrators_change_templates(start_api: Callable[..., ApiServer], services: Services):
    client = start_api(require_auth=True).client()
    tokens = {scope: keys.create_key(services, scope, [Scope.READ, Scope(scope)])[1] for scope in ("write", "admin")}
    answers = {
        scope: client.put(f"{PATH}/brief", json=TEXTS, headers={"Authorization": f"Bearer {token}"}).status_code
        for scope, token in tokens.items()
    }
    assert answers == {"write": 403, "admin": 200}
    listed = client.get(PATH, headers={"Authorization": f"Bearer {tokens['write']}"})
    assert [each["name"] for each in listed.json()["data"]] == ["brief", "short", "standard"]


def test_a_template_is_deleted(client: httpx2.Client):
    client.put(f"{PATH}/brief", json=TEXTS)
    asked = {**REQUEST, "vars": {"audience": "Ada"}, "generator_template": "brief"}
    job = client.post("/v1/generate-answer", json=asked).json()
    assert_problem(client.delete(f"{PATH}/brief"), 409, "template_in_use")
    client.post(f"/v1/jobs/{job['id']}/cancel")
    assert client.delete(f"{PATH}/brief").status_code == 204
    assert_problem(client.delete(f"{PATH}/brief"), 404, "not_found")
    assert [each["name"] for each in client.get(PATH).json()["data"]] == ["short", "standard"]
    assert_problem(client.post("/v1/generate-answer", json=asked), 422, "unknown_template")
