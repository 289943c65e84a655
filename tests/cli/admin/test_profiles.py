"""`redraft profiles`."""

from pathlib import Path

from tests.prompts.test_profiles import write
from tests.support.shells import Shell


def test_profiles_are_listed_with_ones_own(shell: Shell, tmp_path: Path) -> None:
    write(tmp_path / "own" / "kind")
    folder = str(tmp_path / "own")
    listed = shell.run("profiles", REDRAFT_PROFILES_DIR=folder)
    assert listed.code == 0
    for word in ("criteria", "evidence", "built in", "kind", "own", "Kindness"):
        assert word in listed.out
    data = shell.run("profiles", "list", "--json", REDRAFT_PROFILES_DIR=folder).data["data"]
    assert [each["name"] for each in data] == ["comprehensive", "criteria", "evidence", "grounding", "quality", "kind"]
    assert [each["built_in"] for each in data] == [True] * 5 + [False]
    assert len(data[-1]["files"]["user.j2"]) == 64


def test_a_profile_is_shown_with_its_templates(shell: Shell) -> None:
    shown = shell.run("profiles", "show", "evidence").out
    for word in (
        "evidence",
        "dimensions: reasonableness, evidence",
        "--- system.j2",
        "{{ frame_start }}",
        "inputs: instruct",
    ):
        assert word in shown
    data = shell.run("profiles", "show", "criteria", "--json").data
    assert data["mapping"]["score"] == "score"
    assert "{% for criterion in criteria %}" in data["templates"]["rubric_user"]
    unknown = shell.run("profiles", "show", "kind")
    assert unknown.code == 5
    assert "no profile 'kind'" in unknown.err
    assert "comprehensive, criteria, evidence, grounding, quality" in unknown.err


def test_own_profiles_are_checked_before_they_are_used(shell: Shell, tmp_path: Path) -> None:
    write(tmp_path / "own" / "kind")
    good = shell.run("profiles", "check", str(tmp_path / "own"))
    assert good.code == 0
    assert "1 profile can be used" in good.err
    assert "kind" in good.out
    assert shell.run("profiles", "check", str(tmp_path / "own" / "kind"), "--json").data["data"][0]["name"] == "kind"
    write(tmp_path / "own" / "kind", user__j2="{{ anwser }}")
    bad = shell.run("profiles", "check", str(tmp_path / "own"))
    assert bad.code == 2
    assert "kind/user.j2: uses the unknown variable 'anwser'" in bad.err
    nowhere = shell.run("profiles", "check", str(tmp_path / "nope"))
    assert nowhere.code == 2
    assert "Invalid value for DIR" in nowhere.err
    assert "REDRAFT_PROFILES_DIR" not in nowhere.err


def test_no_command_starts_with_a_profile_that_cannot_be_used(shell: Shell, tmp_path: Path) -> None:
    write(tmp_path / "own" / "kind", reply__json="[]")
    refused = shell.run("models", REDRAFT_PROFILES_DIR=str(tmp_path / "own"))
    assert refused.code == 2
    assert "kind/reply.json" in refused.err
