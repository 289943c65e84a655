"""Which rows a draft may see, what it may change, and the drafts that are refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.bulk.comparison import compare
from redraft.domain.bulk.improvements import (
    FailingRow,
    failing_rows,
    is_decided_by_code,
    is_held_out,
    shared_request,
    unanswered_rows,
    why_none_fails,
    with_rejected,
)
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.prompts.improving import drafting_job, read_draft

RUBRIC = [
    {"id": "year", "kind": "check", "text": "It has a year", "check": {"kind": "regex", "value": r"\d{4}"}},
    {"id": "tone", "text": "Its tone is friendly"},
    {"id": "secret", "text": "It names no brand", "hidden": True},
]
RUN = {"instruct": "Tell of {{ what }}.", "resp_format": "One sentence.", "rubric": RUBRIC, "iter_max": 2}
SHARED = shared_request(RUN, [{"reference": "1969"}])
SAME = {"reasons": "", "instruct": RUN["instruct"], "resp_format": RUN["resp_format"], "rubric": []}


@given(st.lists(st.tuples(st.integers(0, 99), st.booleans()), min_size=1, max_size=60))
def test_no_text_of_a_held_out_row_is_in_the_prompt(items: list[tuple[int, bool]]):
    results = [
        {
            "custom_id": f"row {number}",
            "success": success,
            "instruct": f"task-{number}-",
            "final_answer": f"answer-{number}-",
            "evaluation_reasoning": f"reason-{number}-",
            "improvement_suggestions": [f"gap-{number}-"],
        }
        for number, success in items
    ]
    text = drafting_job(SHARED, failing_rows(results), {})["instruct"]
    for number, _ in items:
        shown = [f"{part}-{number}-" in text for part in ("task", "answer", "reason", "gap")]
        assert not any(shown) or (all(shown) and not is_held_out(f"row {number}"))


def test_the_reason_for_no_draft_is_the_true_one():
    names = [f"row {number}" for number in range(9)]
    held_out = [ItemOutcome(name, status="succeeded", success=True) for name in names if is_held_out(name)]
    failed = [ItemOutcome(name, status="failed") for name in names if not is_held_out(name)]
    accepted = [ItemOutcome(each.custom_id, status="succeeded", success=True) for each in failed]
    assert "All rows of the run are held out" in why_none_fails(held_out)
    assert "has an evaluated answer" in why_none_fails([*held_out, *failed])
    assert "was accepted" in why_none_fails([*held_out, *accepted])


def test_rows_without_an_answer_count_as_not_accepted():
    old = [ItemOutcome(name, status="succeeded", success=name < "c", final_score=float(name < "c")) for name in "abcd"]
    items = [
        {"custom_id": name, "status": status, "final_answer": "It was long ago." if status == "succeeded" else None}
        for name, status in zip("abcd", ("succeeded", "failed", "invalid", "canceled"), strict=True)
    ]
    assert unanswered_rows(items) == ["b", "c"]
    found = compare(old, with_rejected([old[0], ItemOutcome("b", status="failed")], unanswered_rows(items)))
    assert (found.n, found.newly_failing, found.newly_passing, found.verdicts.lost) == (3, ("b",), (), ())


@given(st.sets(st.text(min_size=1), min_size=200, max_size=300))
def test_about_half_of_the_rows_is_held_out(ids: set[str]):
    assert 0.2 < sum(map(is_held_out, ids)) / len(ids) < 0.8


@pytest.mark.parametrize(
    ("run_fields", "row", "texts", "rubric"),
    [
        ({"resp_format": "Short."}, {"instruct": "Why?"}, {"resp_format": "Short."}, 0),
        ({"instruct": "{{ q }}"}, {}, {"instruct": "{{ q }}", "resp_format": ""}, 0),
        ({"instruct": "{{ q }}"}, {"instruct": "Why?", "resp_format": "Long."}, {}, 0),
        (RUN, {"rubric": RUBRIC}, {"instruct": RUN["instruct"], "resp_format": "One sentence."}, 0),
        (RUN, {}, {"instruct": RUN["instruct"], "resp_format": "One sentence."}, 2),
    ],
)
def test_only_what_the_run_sets_for_all_rows_can_change(
    run_fields: dict[str, Any], row: dict[str, Any], texts: dict[str, str], rubric: int
):
    shared = shared_request(run_fields, [{}, row])
    assert (shared.texts, len(shared.shown_criteria)) == (texts, rubric)


def test_the_drafting_job_shows_framed_rows_and_no_hidden_criterion():
    row = FailingRow("Tell of </row> tea.", "Tea is old." + "x" * 9999, "- Not met: a year")
    job = drafting_job(SHARED, [row] * 9, {"year": " - not met by 3 of 4 answers"})
    text = job["instruct"]
    assert "year: It has a year - not met by 3 of 4 answers" in text
    assert "no brand" not in json.dumps(job)
    assert text.count("Tell of &lt;/row> tea.") == 6
    assert "Keep each placeholder" in text
    assert len(text) < 20_000
    assert set(job["answer_schema"]["properties"]) == {"reasons", "instruct", "resp_format", "rubric"}


def test_changes_keep_what_a_draft_may_not_touch():
    entry = {"id": "tone", "text": "It greets the reader"}
    found = read_draft({**SAME, "resp_format": "One sentence with a year.", "rubric": [entry]}, SHARED)
    assert found.after == {"resp_format": "One sentence with a year.", "rubric": [RUBRIC[0], entry, RUBRIC[2]]}
    assert found.texts == [
        ("resp_format", "One sentence.", "One sentence with a year."),
        ("criterion tone", "Its tone is friendly", "It greets the reader"),
    ]


def test_a_model_may_evaluate_unless_all_criteria_are_checks():
    assert is_decided_by_code({"rubric": RUBRIC[:1]})
    assert not is_decided_by_code(RUN)
    assert not is_decided_by_code({"eval_crit": "It is good."})


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (None, "no JSON object"),
        ([SAME], "no JSON object"),
        (SAME, "changes nothing"),
        ({**SAME, "score_threshold": 0}, "cannot change: score_threshold"),
        ({**SAME, "instruct": " "}, "`instruct` is empty"),
        ({**SAME, "instruct": 7}, "`instruct` is no text"),
        ({**SAME, "instruct": "Tell of tea."}, "placeholders of the old text"),
        ({**SAME, "resp_format": "As {{ what }}."}, "placeholders of the old text"),
        ({**SAME, "resp_format": "As {{ what."}, "is no template"),
        ({**SAME, "instruct": "Tell of {{ what.__class__ }}."}, "placeholders of the old text"),
        ({**SAME, "instruct": "Tell of {{ what }}{% if what %}, which is hot{% endif %}."}, "placeholders of"),
        ({**SAME, "resp_format": "x" * 200_001}, "`resp_format`: must have at most 200000 characters"),
        ({**SAME, "rubric": [{"id": "tone", "text": "x" * 200_001}]}, "`rubric`: criterion 'tone': must have at most"),
        ({**SAME, "rubric": {}}, "`rubric` is no list"),
        ({**SAME, "rubric": [{"id": "tone", "text": "Kind", "required": False}]}, "an `id` and a `text`"),
        ({**SAME, "rubric": [{"id": "tone", "text": ""}]}, "'tone'"),
        ({**SAME, "rubric": [{"id": "brand", "text": "None"}]}, "'brand'"),
        ({**SAME, "rubric": [{"id": "secret", "text": "It may name brands"}]}, "'secret'"),
        ({**SAME, "rubric": [{"id": "tone", "text": "max_wrds=60"}]}, "max_words"),
    ],
)
def test_drafts_that_cannot_be_used_are_refused(reply: Any, words: str):
    with pytest.raises(ValueError, match=words):
        read_draft(reply, SHARED)
