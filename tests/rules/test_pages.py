"""Examples in the docs are requests, and rubrics, that are accepted as they stand."""

import json
import re

import pytest
from pydantic import TypeAdapter

from redraft.domain.evaluation.rubrics import Rubric
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.text.languages import LANGUAGES
from tests.rules.sources import ROOT

_PAGES = ("criteria.md", "checks.md", "profiles.md", "grounding.md")
_BLOCK = re.compile(r"^```json\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_RUBRIC: TypeAdapter[Rubric] = TypeAdapter(Rubric)


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


def blocks() -> list[tuple[str, str]]:
    found = ((page, block) for page in _PAGES for block in _BLOCK.findall(text_of(page)))
    return [(page, block) for page, block in found if block.startswith("[") or '"instruct"' in block]


@pytest.mark.parametrize(("page", "block"), blocks())
def test_every_request_and_rubric_in_the_docs_is_accepted(page: str, block: str):
    value = json.loads(block)
    if isinstance(value, list):
        assert _RUBRIC.validate_python(value), page
    else:
        assert GenerateAnswer.model_validate(value).instruct, page


def test_there_are_examples():
    assert len(blocks()) >= 9
    assert sum(block.startswith("[") for _, block in blocks()) >= 1


def test_the_docs_list_the_languages_that_can_be_told_apart():
    listed = text_of("checks.md").partition("can be told apart (ISO 639-1):")[2].partition("\n## ")[0]
    assert re.findall(r"`([a-z]{2})`", listed) == sorted(LANGUAGES)
