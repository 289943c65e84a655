"""`GET /v1/profiles`: all that makes a profile, for whoever wants to know how an answer is judged."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import httpx2

from redraft.prompts.profiles import BUILT_IN
from tests.prompts.test_profiles import FILES, write
from tests.support.api_server import ApiServer


def test_the_built_in_profiles_are_told_whole(client: httpx2.Client):
    data = client.get("/v1/profiles").json()["data"]
    assert [each["name"] for each in data] == ["comprehensive", "criteria", "evidence", "grounding", "quality"]
    by_name = {each["name"]: each for each in data}
    criteria = by_name["criteria"]
    assert criteria["built_in"] is True
    assert criteria["needs"] == ["eval_crit"]
    assert criteria["templates"]["user"] == (BUILT_IN["criteria"] / "user.j2").read_text("utf-8")
    assert "criterion" in criteria["templates"]["rubric_user"]
    assert "score" in criteria["reply_schema"]["properties"]
    assert by_name["quality"]["templates"]["rubric_user"] is None
    assert by_name["comprehensive"]["mapping"] == {
        "pass_flag": "comprehensive",
        "reasoning": "reason",
        "meets_criteria": "comprehensive",
    }
    assert (by_name["comprehensive"]["media"], by_name["comprehensive"]["sees"]) == (
        False,
        ["instruct", "conversation"],
    )
    assert by_name["evidence"]["source_chars"] == 500


def test_an_own_profile_is_told_with_the_hash_of_each_file(start_api: Callable[..., ApiServer], tmp_path: Path):
    write(tmp_path / "own" / "kind")
    data = start_api(profiles_dir=tmp_path / "own").client().get("/v1/profiles").json()["data"]
    (kind,) = [each for each in data if not each["built_in"]]
    assert (kind["name"], kind["title"]) == ("kind", "Kindness")
    assert len(kind["version"]) == 12
    assert kind["files"] == {name: hashlib.sha256(text.encode()).hexdigest() for name, text in FILES.items()}
