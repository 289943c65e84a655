"""Many and long sources: taken within limits, else refused by the limit's name."""

import httpx2
import pytest

from tests.api.conftest import REQUEST, assert_problem

LARGE = "ice floats " * 9_100


def test_fifty_sources_of_100_kb_are_taken(client: httpx2.Client):
    body = {**REQUEST, "profile": "grounding", "eval_crit": None, "sources": [{"content": LARGE}] * 50}
    answer = client.post("/v1/generate-answer", json=body)
    assert answer.status_code == 202
    assert len(answer.json()["request"]["sources"]) == 50


@pytest.mark.parametrize(
    ("sources", "pointer", "words"),
    [
        ([{"content": "x" * 200_001}], "/sources/0/content", "at most 200000 characters"),
        ([{"content": "x"}] * 201, "/sources", "at most 200 items"),
    ],
)
def test_what_is_too_much_is_refused_by_its_limit(
    client: httpx2.Client, sources: list[object], pointer: str, words: str
):
    problem = assert_problem(client.post("/v1/generate-answer", json={**REQUEST, "sources": sources}), 422)
    (error,) = problem["errors"]
    assert error["pointer"] == pointer
    assert words in error["detail"]


def test_all_together_are_refused_by_the_bodys_limit(client: httpx2.Client):
    sources = [{"content": LARGE}] * 100
    problem = assert_problem(client.post("/v1/generate-answer", json={**REQUEST, "sources": sources}), 413)
    assert "8,000,000 bytes (REDRAFT_MAX_BODY_BYTES)." in problem["detail"]
