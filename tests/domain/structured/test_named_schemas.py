"""Structured answers with a name: their schemas, and the prose that citations are read from."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.grounding.citations import read_citations
from redraft.domain.jobs.requests import Source
from redraft.domain.structured.answers import Mismatch, Parsed, check_schema, read_answer
from redraft.domain.structured.named_schemas import (
    Structure,
    StructureName,
    confidence_of,
    prose_of,
    structure_schema,
)
from redraft.providers.shared.schemas import strict_schema

NAMES: list[Structure] = ["json", *get_args(StructureName)]
FULL = {"answer": "A.", "confidence": 0.25, "sources_used": [2, 1], "key_facts": ["F [1]."], "limitations": ["L."]}
POINT = {"point": "Both float", "sources": [1, 2]}
COMPARED = {"similarities": [POINT], "differences": [], "contradictions": [], "conclusion": "So."}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sources", [0, 1, 200])
def test_each_schema_is_valid_for_strict_structured_output(name: Structure, sources: int):
    schema = structure_schema(name, sources)
    check_schema(schema, "/answer_schema")
    assert strict_schema(schema)["additionalProperties"] is False


def test_their_members_are_the_contracts():
    members = {name: list(structure_schema(name, 3)["properties"]) for name in NAMES}
    assert members == {
        "json": ["answer", "sources"],
        "answer_with_sources": ["answer", "confidence", "sources_used", "key_facts", "limitations"],
        "comparison": ["similarities", "differences", "contradictions", "conclusion"],
    }


@pytest.mark.parametrize("numbers", [[0], [4], [-1], [1.5], ["1"]])
def test_a_number_of_no_source_does_not_fit(numbers: list[Any]):
    assert isinstance(
        read_answer(json.dumps({"answer": "A", "sources": numbers}), structure_schema("json", 3)), Mismatch
    )


def test_lists_of_sources_become_markers():
    assert prose_of("json", '{"answer": "A.", "sources": [2]}', 3) == "A.\n\nSources:\n[Source 2]"
    assert prose_of("json", '{"answer": "A [1].", "sources": []}', 3) == "A [1]."
    assert prose_of("answer_with_sources", json.dumps(FULL), 3) == (
        "A.\n\n- F [1].\n\nSources:\n[Source 2]\n[Source 1]"
    )
    assert prose_of("comparison", json.dumps(COMPARED), 3) == "- Both float [Source 1, 2]\n\nSo."
    assert prose_of("json", "no JSON", 3) is None


@pytest.mark.parametrize("limitations", [None, "Only two years.", ["One.", "Two."], []])
def test_limitations_are_text_null_or_a_list(limitations: Any):
    answer = json.dumps({**FULL, "limitations": limitations})
    assert isinstance(read_answer(answer, structure_schema("answer_with_sources", 3)), Parsed)
    without = {name: value for name, value in FULL.items() if name != "limitations"}
    assert isinstance(read_answer(json.dumps(without), structure_schema("answer_with_sources", 3)), Parsed)


def test_points_of_a_comparison_may_be_plain_texts_with_markers():
    answer = json.dumps({**COMPARED, "differences": ["Only one sinks [Source 3].", POINT]})
    assert prose_of("comparison", answer, 3) == (
        "- Both float [Source 1, 2]\n- Only one sinks [Source 3].\n- Both float [Source 1, 2]\n\nSo."
    )


def test_only_one_structure_has_a_confidence():
    assert confidence_of("answer_with_sources", json.dumps(FULL), 3) == 0.25
    assert confidence_of("answer_with_sources", "no JSON", 3) is None
    assert confidence_of("json", '{"answer": "A.", "sources": [2]}', 3) is None


@given(st.lists(st.integers(1, 9), max_size=9))
def test_all_numbers_in_the_list_are_cited(numbers: list[int]):
    answer = json.dumps({"answer": "It floats.", "sources": numbers})
    assert isinstance(read_answer(answer, structure_schema("json", 9)), Parsed)
    prose = prose_of("json", answer, 9)
    assert prose is not None
    cited = read_citations(prose, [Source(content="x")] * 9)
    assert {index + 1 for index in cited.sources_used} == set(numbers)
