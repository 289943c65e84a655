"""Drafts of jobs by a model: the tolerated deviations, and the corrections that are requested."""

import json
from typing import Any

import pytest

from redraft.domain.evaluation.json_extraction import Unusable
from redraft.domain.jobs.drafts import Draft, read_draft
from redraft.domain.jobs.requests import GenerateAnswer
from tests.model_server.scripts import DRAFT


def line(**fields: Any) -> dict[str, Any]:
    return {"id": "names-it", "text": "Names it.", "kind": "binary", "required": False, **fields}


def check(kind: str, value: Any = "", **fields: Any) -> dict[str, Any]:
    return line(id=kind, kind="check", check=kind, value=value, **fields)


def reply(*rubric: Any, **changes: Any) -> str:
    return json.dumps({**DRAFT, "rubric": list(rubric), **changes})


def drafted(*rubric: Any, **changes: Any) -> Draft:
    found = read_draft(reply(*rubric, **changes))
    assert isinstance(found, Draft), found
    return found


def complaint(*rubric: Any, **changes: Any) -> str:
    found = read_draft(reply(*rubric, **changes))
    assert isinstance(found, Unusable), found
    return found.message


def test_a_draft_is_a_request_as_it_is():
    draft = read_draft(json.dumps(DRAFT))
    assert isinstance(draft, Draft)
    assert draft.reasoning == DRAFT["reasoning"]
    request = GenerateAnswer.model_validate_json(
        json.dumps(draft.model_dump(mode="json", exclude={"reasoning"}, exclude_none=True))
    )
    assert request.instruct == DRAFT["instruct"]
    assert request.rubric == draft.rubric
    first, second = draft.rubric
    assert (first.id, first.kind, first.required, first.check) == ("names-a-city", "binary", True, None)
    assert second.check is not None
    assert second.check.model_dump() == {"kind": "max_words", "value": 20}


def test_checks_are_read_from_a_kind_and_a_value():
    values = {"max_words": "60", "lines": "2..4", "contains": "Bern", "language": "de", "is_json": "", "bullets": 3}
    draft = drafted(line(), *(check(kind, value) for kind, value in values.items()))
    found = [each.check.model_dump(exclude_none=True) for each in draft.rubric if each.check]
    assert found == [
        {"kind": "max_words", "value": 60},
        {"kind": "lines", "min": 2, "max": 4},
        {"kind": "contains", "value": "Bern", "ignore_case": False},
        {"kind": "language", "value": "de"},
        {"kind": "is_json"},
        {"kind": "bullets", "value": 3},
    ]


def test_a_scale_keeps_what_its_ends_mean():
    [scale] = drafted(line(kind="scale", level_0="Rude.", level_5="Warm.")).rubric
    assert scale.anchors == {"0": "Rude.", "5": "Warm."}
    assert drafted(line(kind="scale")).rubric[0].anchors is None


def test_ids_are_made_short_and_unique():
    draft = drafted(line(id="Names the City!"), line(id="names the city"), line(id="é"), line(id=""), line(id="x" * 99))
    assert [each.id for each in draft.rubric] == [
        "names-the-city", "names-the-city-2", "criterion", "criterion-4", "x" * 40,
    ]  # fmt: skip


def test_texts_are_cleaned_and_empty_criteria_in_words_are_none():
    draft = drafted(line(), instruct="  Na\x00me it. ", eval_crit=" ", resp_format=None)
    assert (draft.instruct, draft.eval_crit, draft.resp_format) == ("Name it.", None, "")


@pytest.mark.parametrize(
    ("rubric", "words"),
    [
        ([], "`rubric` must be a list of criteria"),
        (["short"], "criterion 1: it must be an object"),
        ([check("max_words", "60")], "holds only checks"),
        ([line(), check("max_words", "many")], "criterion 2: check max_words with this `value`: needs a whole number"),
        ([line(), check("max_words")], "check max_words with this `value`: needs a value"),
        ([line(), check("language", "klingon")], "is no language that can be recognised"),
        ([line(), check("regex", "x")], "names in `check` one of max_words"),
        ([line(), line(kind="check")], "names in `check` one of"),
        ([line(text=" ")], "criterion 1: needs a text"),
        ([line(kind="odd")], "criterion 1, `kind`: must be 'binary', 'scale' or 'check'"),
        ([line(required="yes")], "criterion 1, `required`"),
        ([line(text=7)], "`text` must be text"),
        ([line() for _ in range(51)], "`rubric`: must have at most 50 items"),
    ],
)
def test_an_error_in_a_rubric_is_reported_with_its_place(rubric: list[Any], words: str):
    assert words in complaint(*rubric)


def test_a_draft_needs_a_task():
    assert complaint(line(), instruct="") == "`instruct`: must hold more than white space."


@pytest.mark.parametrize("text", ["", "Bern.", "{}", '{"rubric": []}', "[]", '{"instruct": "a", "rubric": ['])
def test_a_reply_without_the_object_is_reported(text: str):
    found = read_draft(text)
    assert isinstance(found, Unusable)


def test_a_draft_in_a_fence_after_thoughts_is_found():
    assert isinstance(read_draft(f"<think>hm {{}}</think>\n```json\n{json.dumps(DRAFT)}\n```"), Draft)


def test_half_a_draft_is_none():
    found = read_draft(json.dumps(DRAFT)[:-40], finish_reason="length")
    assert isinstance(found, Unusable)
    assert found.kind == "truncated"
