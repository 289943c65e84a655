"""`redraft keys`, `db`, `models` and `doctor`."""

import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.services import Services
from redraft.storage.engine import schema
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.shells import Shell


def test_a_new_key_is_printed_once_and_opens_the_api(shell: Shell, home: Services) -> None:
    made = shell.run("keys", "create", "laptop")
    assert made.code == 0
    assert "cannot be shown again" in made.err
    assert "read, write" in made.err
    unused = shell.run("keys", "list")
    assert "never" in unused.out
    caller = keys.authenticate(home, made.out.strip())
    assert caller.scopes == {Scope.READ, Scope.WRITE}
    listed = shell.run("keys", "list")
    for word in (caller.key_id, "laptop", "read,write", "valid"):
        assert word in listed.out
    # The key was created and used within a moment of each other: two ages, and no "never"
    assert re.search(r"\d+ s +\d+ s ago", listed.out)
    assert made.out.strip() not in listed.out


def test_a_key_has_the_scopes_and_the_end_that_it_was_given(shell: Shell, home: Services) -> None:
    made = shell.run(
        "keys", "create", "scraper", "--scope", "admin", "--scope", "read", "--expires", "90d", "--json"
    ).data
    assert made["scopes"] == ["read", "admin"]
    assert keys.authenticate(home, made["token"]).scopes == {Scope.READ, Scope.ADMIN}
    (listed,) = shell.run("keys", "list", "--json").data["data"]
    created, ends = (datetime.fromisoformat(listed[name]) for name in ("created_at", "expires_at"))
    assert timedelta(days=90) - timedelta(seconds=5) < ends - created < timedelta(days=90, seconds=5)
    assert f"until {ends:%Y-%m-%d}" in shell.run("keys", "create", "b", "--expires", "90d").err
    for wrong in (("--scope", "root"), ("--scope", ""), ("--expires", "soon"), ("--expires", "0d"), ("--expires", "")):
        refused = shell.run("keys", "create", "x", *wrong)
        assert refused.code == 2, wrong
        assert wrong[0] in refused.err


def test_a_group_without_a_command_lists(shell: Shell) -> None:
    shell.run("keys", "create", "laptop")
    assert "laptop" in shell.run("keys").out
    assert shell.run("db").out.strip() == schema.head()
    assert "No observations yet" in shell.run("observations").err
    assert shell.run("keys", "create", "laptop").code == 1
    assert shell.run("keys", "revoke", "laptop").code == 0


def test_a_revoked_key_opens_nothing(shell: Shell) -> None:
    made = shell.run("keys", "create", "ci", "--json").data
    assert made["token"].startswith("rd_")
    assert shell.run("keys", "revoke", made["id"][:-3], "--json").data == {"id": made["id"], "revoked": True}
    (listed,) = shell.run("keys", "list", "--json").data["data"]
    assert listed["revoked_at"].endswith("Z")
    assert "revoked" in shell.run("keys", "list").out
    assert shell.run("keys", "revoke", made["id"]).code == 5


def test_keys_need_a_name_and_ids_must_be_clear(shell: Shell) -> None:
    assert "redraft keys create" in shell.run("keys", "list").err
    assert shell.run("keys", "create", " ").code == 2
    for name in ("a", "b"):
        shell.run("keys", "create", name)
    assert shell.run("keys", "revoke", "key_").code == 2
    assert shell.run("keys", "revoke", "").code == 5


def test_a_database_outside_is_upgraded_only_when_told_to(shell: Shell, tmp_path: Path) -> None:
    outside = {"REDRAFT_DATABASE_URL": f"sqlite:///{tmp_path / 'outside.db'}"}
    refused = shell.run("jobs", "list", **outside)
    assert refused.code == 1
    assert "redraft db upgrade" in refused.err
    fresh = shell.run("db", "current", **outside)
    assert (fresh.code, fresh.out) == (1, "")
    assert "redraft db upgrade" in fresh.err
    assert schema.head() in shell.run("db", "upgrade", **outside).err
    assert shell.run("db", "current", **outside).out.strip() == schema.head()
    assert shell.run("db", "upgrade", "--json", **outside).data == {"before": schema.head(), "current": schema.head()}
    assert "already" in shell.run("db", "upgrade", **outside).err
    assert shell.run("jobs", "list", **outside).code == 0


def test_the_own_database_is_made_silently(shell: Shell, tmp_path: Path) -> None:
    own = {"REDRAFT_DATA_DIR": str(tmp_path / "new" / "folder")}
    assert shell.run("db", "current", "--json", **own).data == {"current": None, "head": schema.head()}
    assert shell.run("jobs", "list", "--json", **own).err == ""
    assert shell.run("db", "current", "--json", **own).data["current"] == schema.head()


def test_a_database_that_is_away_is_75(shell: Shell) -> None:
    for command in (["db", "upgrade"], ["jobs", "list"], ["keys", "list"]):
        away = shell.run(*command, REDRAFT_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
        assert away.code == 75
        assert "REDRAFT_DATABASE_URL" in away.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REDRAFT_PORT", "eighty"),
        ("REDRAFT_DATABASE_URL", "mysql://x/y"),
        ("REDRAFT_PRICES", "{"),
        ("REDRAFT_BROKER_URL", "amqp://x"),
        ("REDRAFT_LOG_FORMAT", "sk-secret-value"),
    ],
)
def test_a_wrong_setting_is_2_and_named(shell: Shell, name: str, value: str) -> None:
    done = shell.run("jobs", "list", **{name: value})
    assert done.code == 2
    assert "secret" not in done.err
    assert "Traceback" not in done.err


def test_a_setting_without_the_prefix_is_named_as_it_was_set(shell: Shell) -> None:
    bare = shell.run("jobs", "list", OPENAI_BASE_URL="odd", REDRAFT_OPENAI_BASE_URL=None)
    assert bare.err.splitlines()[1].startswith("  OPENAI_BASE_URL: ")
    prefixed = shell.run("jobs", "list", REDRAFT_OPENAI_BASE_URL="odd")
    assert prefixed.err.splitlines()[1].startswith("  REDRAFT_OPENAI_BASE_URL: ")


def test_a_data_folder_that_cannot_be_made_is_told(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = shell.run("jobs", "list", REDRAFT_DATA_DIR=str(tmp_path / "file" / "data"))
    assert done.code == 75
    assert "REDRAFT_DATA_DIR" in done.err


def test_models_are_listed_with_what_is_missing(shell: Shell) -> None:
    for command in (["models"], ["models", "list"]):
        listed = shell.run(*command).out
        assert "openai:writer" in listed
        assert "ANTHROPIC_API_KEY" in listed
    models = shell.run("models", "--json").data["data"]
    assert [each["id"] for each in models if each["default"]] == ["openai:writer"]


def test_a_model_that_answers_is_fine(shell: Shell, model_server: ModelServer) -> None:
    done = shell.run("models", "check")
    assert done.code == 0
    assert "openai:writer answered in" in done.err
    model_server.script(generate=[Reply(text="re", finish="length")])
    assert shell.run("models", "check", "openai:other", "--json").data["ok"] is True


def test_a_model_that_does_not_answer_says_why(shell: Shell, model_server: ModelServer) -> None:
    model_server.script(generate=[Reply(status=401, raw={"error": {"message": "bad key"}})])
    refused = shell.run("models", "check", "--json")
    assert (refused.code, refused.data["error"]["code"]) == (4, "provider_auth")
    assert "redraft doctor" in refused.err
    away = shell.run("models", "check", REDRAFT_OPENAI_BASE_URL="http://127.0.0.1:1/v1")
    assert "Base URL: http://127.0.0.1:1/v1\n" in away.err
    assert away.err.count("OPENAI_BASE_URL") == 1
    assert "jobs continue" not in away.err
    assert away.code == 75
    assert shell.run("models", "check", "anthropic:claude").code == 4
    odd = shell.run("models", "check", "odd")
    assert odd.code == 2
    assert "Error: MODEL (/model): 'odd'" in odd.err


def test_doctor_shows_what_is_set_and_hides_what_is_secret(shell: Shell, tmp_path: Path) -> None:
    Path("redraft.toml").write_text('port = 9001\n[prices."openai:writer"]\ninput = 1\noutput = 2\n')
    Path(".env").write_text("REDRAFT_HOST=localhost\n")
    url = "redis://user:hunter2@127.0.0.1:1/0"
    done = shell.run("doctor", "--json", REDRAFT_BROKER_URL=url)
    settings = {each["name"]: (each["value"], each["origin"]) for each in done.data["settings"]}
    assert settings["REDRAFT_PORT"] == ("9001", "redraft.toml")
    assert settings["REDRAFT_HOST"] == ("localhost", ".env")
    assert settings["REDRAFT_MODEL"] == ("openai:writer", "environment")
    assert settings["REDRAFT_SWEEP_S"][1] == "environment"
    assert settings["REDRAFT_LEASE_S"] == ("30.0", "default")
    assert settings["REDRAFT_OPENAI_API_KEY"] == ("sk-…cdef", "environment")
    for secret in ("hunter2", "0123456789"):
        assert secret not in done.out
        assert secret not in shell.run("doctor", REDRAFT_BROKER_URL=url).out


def test_doctor_is_content_beside_a_worker(office: Shell) -> None:
    done = office.run("doctor")
    assert done.code == 0
    assert "✗" not in done.out
    for words in ("Python 3", "schema", "1 alive", "answers", "GB free"):
        assert words in done.out


def test_doctor_of_an_embedded_installation_is_content_without_anything_running(shell: Shell) -> None:
    done = shell.run("doctor", "--json", REDRAFT_BROKER_URL="")
    assert (done.code, done.data["ok"]) == (0, True)
    states = {each["name"]: each["state"] for each in done.data["checks"]}
    assert (states["broker"], states["workers"]) == ("note", "note")


def test_doctor_notes_a_data_folder_that_others_can_look_into(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "open folder"
    folder.mkdir()
    folder.chmod(0o755)
    for mode, is_told in ((0o755, True), (0o700, False)):
        folder.chmod(mode)
        done = shell.run("doctor", "--json", REDRAFT_BROKER_URL="", REDRAFT_DATA_DIR=str(folder))
        advice = [each["advice"] for each in done.data["checks"] if each["name"] == "data folder"]
        assert advice == ([f"chmod -R go-rwx '{folder}'"] if is_told else [])


@pytest.mark.parametrize(
    ("settings", "part", "words"),
    [
        ({"REDRAFT_BROKER_URL": "redis://127.0.0.1:1/0"}, "broker", "REDRAFT_BROKER_URL"),
        ({"REDRAFT_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x"}, "database", "REDRAFT_DATABASE_URL"),
        ({"REDRAFT_DATABASE_URL": "sqlite:///{folder}/empty.db"}, "database", "redraft db upgrade"),
        ({"REDRAFT_DATABASE_URL": "sqlite:///{folder}/broken.db"}, "database", "not a database"),
        ({"REDRAFT_MODEL": "anthropic:claude"}, "model", "ANTHROPIC_API_KEY"),
        ({"REDRAFT_MODEL": "odd"}, "model", "odd"),
        ({}, "workers", "redraft worker"),
        ({"REDRAFT_DATA_DIR": "{folder}/broken.db/x"}, "services", "REDRAFT_DATA_DIR"),
    ],
)
def test_doctor_finds_what_is_broken(
    shell: Shell, tmp_path: Path, settings: dict[str, str], part: str, words: str
) -> None:
    (tmp_path / "broken.db").write_text("this is no database" * 100)
    named = {name: value.format(folder=tmp_path) for name, value in settings.items()}
    done = shell.run("doctor", "--json", **named)
    assert done.code == 1
    (finding,) = [each for each in done.data["checks"] if each["name"] == part]
    assert finding["state"] == "broken"
    assert words in finding["detail"] + finding["advice"]


def test_doctor_tells_of_endpoints(shell: Shell) -> None:
    free = {"format": "openai", "base_url": "http://127.0.0.1:1/v1"}
    locked = {**free, "format": "anthropic", "api_key_env": "JUDGES_KEY", "prices": {"j": {"input": 1, "output": 2}}}
    done = shell.run("doctor", "--json", REDRAFT_ENDPOINTS=json.dumps({"writers": free, "judges": locked}))
    found = {each["name"]: (each["state"], each["detail"], each["advice"]) for each in done.data["checks"]}
    assert found["writers"] == (
        "ok",
        "writers:* configured, not tested: redraft models check writers:MODEL",
        "Served at http://127.0.0.1:1/v1. Write writers:model with any model name of the server.",
    )
    assert found["judges"] == ("note", "judges:j", "Set JUDGES_KEY to use it.")
    lines = shell.run("doctor", REDRAFT_ENDPOINTS=json.dumps({"writers": free, "judges": locked})).out.splitlines()
    table = [line.split(maxsplit=2) for line in lines if line.startswith(("setting ", "REDRAFT_ENDPOINTS"))]
    assert [line[:2] for line in table] == [
        ["setting", "from"],
        ["REDRAFT_ENDPOINTS.writers", "environment"],
        ["REDRAFT_ENDPOINTS.judges", "environment"],
    ]
    assert json.loads(table[2][2])["api_key_env"] == "JUDGES_KEY"


def test_an_error_of_a_setting_names_its_place(shell: Shell) -> None:
    entry = {"format": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key": "SECRET"}
    of_variable = shell.run("doctor", REDRAFT_ENDPOINTS=json.dumps({"e1": entry}))
    assert "REDRAFT_ENDPOINTS.e1.api_key: There is no such field: did you mean 'api_key_env'" in of_variable.err
    no_json = shell.run("doctor", REDRAFT_ENDPOINTS='{"e1": SECRET')
    assert "REDRAFT_ENDPOINTS is no valid JSON: Expecting value" in no_json.err
    Path("redraft.toml").write_text('[http_checks.z]\nurl = "http://127.0.0.1:1/"\nsecret = "SECRET"\n')
    of_file = shell.run("doctor")
    assert "redraft.toml: http_checks.z.secret: There is no such field: did you mean 'secret_env'" in of_file.err
    assert "SECRET" not in of_variable.err + no_json.err + of_file.err
    assert {of_variable.code, no_json.code, of_file.code} == {2}


def test_doctor_tells_of_settings_that_are_none(shell: Shell) -> None:
    done = shell.run("doctor", REDRAFT_MODLE="openai:writer", REDRAFT_QQQQ="1")
    assert "REDRAFT_MODLE is not a setting" in done.out
    assert "Did you mean REDRAFT_MODEL?" in done.out
    assert "REDRAFT_QQQQ is not a setting" in done.out
    assert "REDRAFT_MODEL is not a setting" not in done.out
    Path(".env").write_text(
        "REDRAFT_LEESE_S=3\nREDRAFT_LEASE_S=30\nREDRAFT_PUBLISH=1\nREDRAFT_SERVER=http://127.0.0.1:1\n"
    )
    done = shell.run("doctor", REDRAFT_API_KEY="rd_x")
    assert "REDRAFT_LEESE_S in .env is not a setting" in done.out
    assert "REDRAFT_SERVER in .env is not a setting" in done.out
    assert "Did you mean the environment variable REDRAFT_SERVER?" in done.out
    assert done.out.count("is not a setting") == 2
