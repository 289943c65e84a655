"""Examples in the docs are requests that are accepted as they stand."""

import json
import re

import pytest

from redraft.domain.requests import GenerateAnswer
from tests.rules.sources import ROOT

_PAGES = ("criteria.md", "checks.md")
_BLOCK = re.compile(r"^```json\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks() -> list[tuple[str, str]]:
    return [
        (page, block)
        for page in _PAGES
        for block in _BLOCK.findall((ROOT / "docs" / page).read_text("utf-8"))
        if '"instruct"' in block
    ]


@pytest.mark.parametrize(("page", "block"), blocks())
def test_every_request_in_the_docs_is_accepted(page: str, block: str):
    assert GenerateAnswer.model_validate(json.loads(block)).instruct, page


def test_there_are_examples():
    assert len(blocks()) >= 5
