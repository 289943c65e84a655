"""The example in docs/profiles.md works as it stands there."""

import re
from pathlib import Path

import pytest

from redraft.domain.evaluation.verdict_parsing import Verdict
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.prompts.evaluation import evaluation_prompt, read_verdict
from redraft.prompts.profile_files import About, FieldMap
from redraft.prompts.profiles import Profile, check_profiles, load_profiles

PAGE = (Path(__file__).parents[2] / "docs" / "profiles.md").read_text("utf-8")


@pytest.fixture
def brief(tmp_path: Path) -> Profile:
    files = re.findall(r"^`(brief/[\w.]+)`\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(files) == 4
    for name, text in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert [each.name for each in check_profiles(tmp_path)] == ["brief"]
    return load_profiles(tmp_path).get("brief")


def test_the_example_judges(brief: Profile):
    request = GenerateAnswer.model_validate(
        {"instruct": "Who was it?", "profile": "brief", "sources": [{"content": "é" * 2001}]}
    )
    assert brief.missing(request) == []
    assert brief.missing(request.model_copy(update={"sources": []})) == ["sources"]
    prompt = evaluation_prompt(brief, request, "It was {{ 7*7 }}.")
    assert "é" * 2000 + "…" in prompt.messages[0].content
    assert "It was {{ 7*7 }}." in prompt.messages[0].content
    reply = '{"findings": "Long.", "cuts": ["Cut the first line."], "sureness": 0.9, "brevity_score": "4/10"}'
    assert read_verdict(brief, request, "It was {{ 7*7 }}.", reply) == Verdict(
        0.4, None, "Long.", ("Cut the first line.",), repaired=False, confidence=0.9
    )


def test_every_built_in_profile_and_every_key_is_on_the_page():
    names = [each.name for each in load_profiles(None).all()]
    keys = [*About.model_fields, *FieldMap.model_fields]
    assert [name for name in names + keys if f"`{name}`" not in PAGE and f"[{name}]" not in PAGE] == []
