"""`redraft templates`, and `redraft ask` with a template and variables."""

from pathlib import Path

from tests.operations.jobs.test_variables import TEXTS
from tests.support.shells import Shell


def test_a_template_is_checked_saved_shown_and_used(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "brief"
    folder.mkdir()
    for file, text in TEXTS.items():
        (folder / file).write_text(text, "utf-8")
    assert "can be used" in shell.run("templates", "check", str(folder)).err
    saved = shell.run("templates", "save", "brief", str(folder), "--json").data
    listed = shell.run("templates", "--json").data["data"]
    assert [each["reference"] for each in listed if each["origin"] == "saved"] == [saved["reference"]]
    assert "You write for {{ audience }}." in shell.run("templates", "show", "brief").out
    options = ("--var", "topic=rain", "--var", "audience=Ada", "--generator-template", "brief", "--detach", "--json")
    asked = shell.run("ask", "Explain {{ topic }}.", "--crit", "True.", *options)
    assert asked.code == 0, asked.err
    request = shell.run("jobs", "show", "latest", "--json").data["request"]
    assert (request["instruct"], request["generator_template"]) == ("Explain rain.", saved["reference"])
    unused = shell.run("ask", "Explain rain.", "--crit", "True.", "--var", "topic=rain")
    assert unused.code == 2
    assert "no text uses {{ topic }}" in unused.err
    assert "in use by job_" in shell.run("templates", "delete", "brief").err
    shell.run("jobs", "cancel", "latest")
    assert shell.run("templates", "delete", "brief").code == 0
    assert [each["name"] for each in shell.run("templates", "--json").data["data"]] == ["short", "standard"]
    (folder / "user.j2").write_text("{{ instruct }}", "utf-8")
    assert "exactly once" in shell.run("templates", "check", str(folder)).err
