"""Replies with a result per criterion: each criterion exactly once, and no guessed value."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redraft.domain.evaluation.json_extraction import Unusable
from redraft.domain.evaluation.rubric_verdict_parsing import read_rubric_reply
from redraft.domain.evaluation.rubrics import Criterion
from redraft.domain.evaluation.verdict_parsing import Verdict
from tests.domain.evaluation.replies import ANY_TEXT, STOPS

SHORT = Criterion(id="short", text="It is short.")
CLEAR = Criterion(id="clear.v2", text="It is clear.", kind="scale")
RUDE = Criterion(id="rude", text="It is rude.", weight=-2)
RUBRIC = (SHORT, CLEAR, RUDE)

MET = {"evidence": "Two lines.", "gap": "", "met": True}
LEVEL = {"evidence": "One odd word.", "gap": "Replace it.", "level": 3}
NOT_RUDE = {"evidence": "", "gap": "none", "met": False}
KEYED: dict[str, Any] = {"short": MET, "clear.v2": LEVEL, "rude": NOT_RUDE}


def read(told: object, criteria: tuple[Criterion, ...] = RUBRIC) -> Verdict:
    verdict = read_rubric_reply(criteria, told if isinstance(told, str) else json.dumps(told))
    assert isinstance(verdict, Verdict), verdict
    return verdict


def refused(told: object, criteria: tuple[Criterion, ...] = RUBRIC) -> Unusable:
    verdict = read_rubric_reply(criteria, told if isinstance(told, str) else json.dumps(told))
    assert isinstance(verdict, Unusable), verdict
    assert verdict.message
    return verdict


def test_each_criterion_has_its_value_evidence_and_gap_in_the_order_of_the_rubric():
    verdict = read({"criteria": dict(reversed(KEYED.items()))})
    assert [each.id for each in verdict.criteria] == ["short", "clear.v2", "rude"]
    assert [each.score for each in verdict.criteria] == [1.0, 0.6, 0.0]
    assert [each.passed for each in verdict.criteria] == [True, False, True]
    assert [each.gap for each in verdict.criteria] == ["", "Replace it.", ""]
    assert verdict.criteria[0].evidence == "Two lines."


def test_the_score_is_left_to_code():
    verdict = read({"criteria": KEYED})
    assert (verdict.score, verdict.meets_criteria, verdict.evaluation_reasoning) == (None, None, "")
    assert verdict.improvement_suggestions == ()


LISTED = [{"id": name, **entry} for name, entry in KEYED.items()]


@pytest.mark.parametrize(
    "told",
    [
        {"criteria": LISTED},
        LISTED,
        KEYED,
        {"Criteria": KEYED},
        f"```json\n{json.dumps(LISTED)}\n```",
        f"Here it is:\n```json\n{json.dumps({'criteria': KEYED})}\n```",
        f'<think>{{"criteria": {{}}}}</think>{json.dumps({"criteria": KEYED})}',
        json.dumps({"criteria": KEYED})[:-1] + ",}",
        repr({"criteria": KEYED}),
    ],
)
def test_a_list_or_bare_entries_or_wrappings_are_understood(told: object):
    assert read(told).criteria == read({"criteria": KEYED}).criteria


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"criteria": {"short": MET, "rude": MET}}, "leaves out clear.v2"),
        ({"criteria": {}}, "leaves out short, clear.v2, rude"),
        ({"criteria": []}, "leaves out short, clear.v2, rude"),
        ({"criteria": {**KEYED, "polite": MET}}, "names unknown polite"),
        ({"criteria": {**KEYED, "": MET}}, 'names unknown ""'),
        ({"criteria": {**KEYED, "SHORT": MET}}, "names unknown SHORT"),
        ({"criteria": [*LISTED, LISTED[0]]}, "repeats short"),
        ({"criteria": [*LISTED[1:], {"id": "x", **MET}]}, "leaves out short; it names unknown x"),
        ({"criteria": "all met"}, "an object with one entry each"),
        ({"criteria": True}, "an object with one entry each"),
        ({"criteria": [MET, *LISTED]}, "names unknown an object"),
        ({"criteria": {**KEYED, "short": {"evidence": "e"}}}, '"met" of the criterion "short"'),
        ({"criteria": {**KEYED, "clear.v2": MET}}, '"level" of the criterion "clear.v2"'),
    ],
)
def test_ids_must_be_exactly_those_that_were_asked_for(told: object, words: str):
    unusable = refused(told)
    assert unusable.kind == "incomplete"
    assert words in unusable.message


def test_a_repeated_id_is_refused_even_in_a_repaired_reply():
    entry = json.dumps(MET)
    other = json.dumps({**MET, "met": False})
    twice = f'{{"criteria": {{"short": {entry}, "short": {other}}}}}'
    assert refused(twice, (SHORT,)).kind == "incomplete"
    assert refused(twice.replace('"', "'").replace("true", "True").replace("false", "False"), (SHORT,)).kind in {
        "incomplete",
        "ambiguous",
    }


def test_two_verdicts_in_one_entry_are_refused():
    assert refused('{"criteria": {"short": {"met": true, "met": false}}}', (SHORT,)).kind == "ambiguous"
    assert refused('{"criteria": {"short": {"met": true, "Met": false}}}', (SHORT,)).kind == "ambiguous"
    assert refused("{'criteria': {'short': {'met': true, 'met': false}}}", (SHORT,)).kind == "ambiguous"


def test_two_sets_of_criteria_are_refused():
    first, second = ({"criteria": {"short": {**MET, "met": met}}} for met in (True, False))
    assert refused(f"{json.dumps(first)}\n{json.dumps(second)}", (SHORT,)).kind == "ambiguous"
    both = f'{{"criteria": {json.dumps(first["criteria"])}, "Criteria": {json.dumps(second["criteria"])}}}'
    assert refused(both, (SHORT,)).kind == "ambiguous"


@pytest.mark.parametrize(("told", "value"), [(True, 1.0), ("true", 1.0), ("Yes", 1.0), (False, 0.0), ("no", 0.0)])
def test_met_is_true_or_false_in_a_few_words(told: object, value: float):
    (result,) = read({"criteria": {"short": {**MET, "met": told}}}, (SHORT,)).criteria
    assert result.score == value


@pytest.mark.parametrize("told", [1, 0, 0.5, "mostly", "", [True], {"met": True}, "true and false"])
def test_met_is_never_guessed(told: object):
    assert refused({"criteria": {"short": {**MET, "met": told}}}, (SHORT,)).kind == "invalid_score"


@pytest.mark.parametrize(
    ("told", "value"), [(0, 0.0), (5, 1.0), (4, 0.8), (4.0, 0.8), ("4", 0.8), ("4/5", 0.8), (" 4 out of 5 ", 0.8)]
)
def test_a_level_is_a_whole_number_up_to_five(told: object, value: float):
    (result,) = read({"criteria": {"clear.v2": {**LEVEL, "level": told}}}, (CLEAR,)).criteria
    assert result.score == pytest.approx(value)


@pytest.mark.parametrize("told", [-1, 6, 3.5, True, "high", "4/10", "8/10", "80%", "", [4], 10**30, 1e400, "4 5"])
def test_a_level_is_never_clamped_or_guessed(told: object):
    assert refused({"criteria": {"clear.v2": {**LEVEL, "level": told}}}, (CLEAR,)).kind == "invalid_score"


def test_an_entry_is_an_object():
    assert refused({"criteria": {"short": True}}, (SHORT,)).kind == "invalid_score"


def test_a_reply_that_ran_out_of_room_is_no_verdict():
    text = json.dumps({"criteria": KEYED})[:-8]
    cut = read_rubric_reply(RUBRIC, text, finish_reason="length")
    assert isinstance(cut, Unusable)
    assert cut.kind == "truncated"
    assert isinstance(read_rubric_reply(RUBRIC, text), Unusable)


@settings(deadline=None, max_examples=300)
@given(ANY_TEXT, STOPS)
def test_no_text_raises(text: str, finish_reason: str | None):
    verdict = read_rubric_reply(RUBRIC, text, finish_reason=finish_reason)
    assert isinstance(verdict, Unusable)
    verdict.message.encode()


ENTRIES = st.fixed_dictionaries(
    {
        "evidence": st.text(st.characters(exclude_categories=["Cs", "Cc"])),
        "gap": st.text(st.characters(exclude_categories=["Cs", "Cc"])),
        "met": st.booleans(),
    }
)


@settings(deadline=None)
@given(
    st.dictionaries(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,9}", fullmatch=True), ENTRIES, min_size=1, max_size=8)
)
def test_a_valid_reply_comes_through_untouched(entries: dict[str, Any]):
    rubric = tuple(Criterion(id=name, text="t") for name in entries)
    verdict = read({"criteria": entries}, rubric)
    assert [each.id for each in verdict.criteria] == list(entries)
    assert [each.score for each in verdict.criteria] == [float(entry["met"]) for entry in entries.values()]
    assert [each.evidence for each in verdict.criteria] == [entry["evidence"] for entry in entries.values()]
