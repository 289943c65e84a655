"""Claim checks: a quote counts only if its source contains it, regardless of the label."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.evaluation.claims import CLAIMS_MAX, ClaimCheck, QuotedSources, merge_checks
from redraft.domain.evaluation.json_extraction import Unusable
from redraft.domain.evaluation.verdict_parsing import read_claims_reply

SOURCES = ["Water boils at 100\u00a0°C at sea level.", "Ice “melts” at 0 °C. It takes heat."]


def read_claims(text: str, sources: QuotedSources, **rest: Any) -> ClaimCheck | Unusable:
    verdict = read_claims_reply(sources, text, unclaimed=1.0, **rest)
    if isinstance(verdict, Unusable):
        return verdict
    assert verdict.check is not None
    return verdict.check


def claim(text: str = "C", source: Any = 1, quote: str = "boils at 100 °C", **rest: Any) -> dict[str, Any]:
    return {"claim": text, "source": source, "quote": quote, "label": "supported", **rest}


def read(*claims: Any, sources: list[str] = SOURCES, **rest: Any) -> ClaimCheck:
    found = read_claims(json.dumps({"claims": list(claims), **rest}), QuotedSources(sources))
    assert isinstance(found, ClaimCheck)
    return found


def unusable(text: str, **rest: Any) -> Unusable:
    found = read_claims(text, QuotedSources(SOURCES), **rest)
    assert isinstance(found, Unusable)
    return found


def test_a_quote_in_the_source_supports_a_claim_and_has_a_position():
    found = read(claim(), claim("D", 2, '"melts" at 0 °C'), grounded=True, confidence="80%")
    assert [each.supported for each in found.claims] == [True, True]
    assert (found.score, found.grounded, found.confidence, found.problems) == (1.0, True, 0.8, ())
    first, second = found.claims
    assert SOURCES[0][first.start : first.end] == "boils at 100\u00a0°C"
    assert SOURCES[1][second.start : second.end] == "melts” at 0 °C"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (claim(quote="boils at 90 °C everywhere"), "Source 1 does not hold the quote."),
        (claim(source=2), "Source 2 does not hold the quote."),
        (claim(source=9), "Source 9 does not hold the quote."),
        (claim(source=None), "No source was named for the quote."),
        (claim(quote=""), "No quote was given that supports it."),
        (claim(quote="water"), "Source 1 does not hold the quote."),
    ],
)
def test_a_claim_without_a_quote_in_the_source_is_unsupported_despite_its_label(entry: dict[str, Any], problem: str):
    found = read(entry, grounded=True)
    (each,) = found.claims
    assert (each.supported, each.label, each.problem, found.score) == (False, "not_found", problem, 0.0)
    assert found.problems == (
        f'The claim "C" is not supported. {problem} Cite a source that says so, or soften or delete the statement.',
    )


def test_contradicted_and_not_found_are_kept_apart():
    found = read(claim(label="contradicted"), claim("D", None, "", label="not_found"))
    assert [(each.label, each.supported) for each in found.claims] == [("contradicted", False), ("not_found", False)]
    assert "Source 1 says otherwise. Correct it." in found.problems[0]


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ({"label": None, "supported": True}, "supported"),
        ({"label": None, "supported": False}, "not_found"),
        ({"label": "Not found"}, "not_found"),
        ({"label": "SUPPORTED", "supported": False}, "not_found"),
        ({"label": "partially supported"}, "not_found"),
        ({"label": None}, None),
    ],
)
def test_labels_in_other_words(said: dict[str, Any], label: str | None):
    text = json.dumps({"claims": [claim(**said)]})
    found = read_claims(text, QuotedSources(SOURCES))
    if label is None:
        assert isinstance(found, Unusable)
        assert found.kind == "incomplete"
    else:
        assert isinstance(found, ClaimCheck)
        assert found.claims[0].label == label


def test_a_claim_listed_as_ungrounded_is_unsupported_and_is_kept():
    found = read(claim("Water boils."), ungrounded_claims=["water  boils.", "Gold is heavy.", "none"])
    assert [(each.claim, each.supported) for each in found.claims] == [
        ("water  boils.", False),
        ("Gold is heavy.", False),
    ]


@pytest.mark.parametrize("source", ["1", "Source 1", "[1]", 1.0, [1, 2]])
def test_a_source_is_named_in_many_ways(source: Any):
    assert read(claim(source=source)).claims[0].supported


def test_the_only_source_need_not_be_named():
    assert read(claim(source=None), sources=SOURCES[:1]).claims[0].supported


def test_who_calls_a_claim_both_has_not_supported_it():
    for entries in ([claim(), claim("C.", label="not_found")], [claim(label="not_found"), claim()]):
        assert [each.supported for each in read(*entries).claims] == [False]
    twice = '{"claims": [{"claim": "C", "source": 1, "quote": "q", "label": "not_found", "label": "supported"}]}'
    assert unusable(twice).kind == "ambiguous"


def test_a_quote_may_stand_in_the_title_or_metadata_of_the_source():
    sources = QuotedSources(["It rose."], ["Title: Annual report of Acme"])
    found = read_claims(json.dumps({"claims": [claim(quote="Annual report of Acme")]}), sources)
    assert isinstance(found, ClaimCheck)
    assert [(each.supported, each.start) for each in found.claims] == [(True, None)]


def test_a_claim_needs_a_majority_of_several_evaluators():
    yes, no = read(claim(), grounded=True, confidence=0.5), read(claim(label="not_found"), claim("D"), grounded=False)
    merged = merge_checks([yes, no, yes])
    assert [(each.claim, each.supported) for each in merged.claims] == [("C", True), ("D", True)]
    assert (merged.grounded, merged.confidence) == (True, 0.5)
    assert [each.supported for each in merge_checks([yes, no]).claims] == [False, True]


def test_an_answer_without_claims_has_no_score():
    assert (read().score, read().problems) == (None, ())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "no_verdict"),
        ('{"score": 1}', "incomplete"),
        ('{"claims": "none"}', "incomplete"),
        ('{"claims": [1]}', "incomplete"),
        ('{"claims": [{"label": "supported"}]}', "incomplete"),
        ('{"claims": [], "claims": [{"claim": "C", "label": "supported"}]}', "ambiguous"),
        (json.dumps({"claims": [claim()] * (CLAIMS_MAX + 1)}), "incomplete"),
    ],
)
def test_a_reply_of_no_use_says_why(text: str, kind: str):
    assert unusable(text).kind == kind


def test_a_reply_that_was_cut_is_none():
    assert unusable('{"claims": [{"claim": "C", "sour', finish_reason="length").kind == "truncated"


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_no_claim_is_supported_without_a_quote_in_its_source(value: Any):
    entry = {"claim": "C", "source": value, "quote": value, "label": value, "supported": True}
    found = read_claims(json.dumps({"claims": [entry], "grounded": value}), QuotedSources(SOURCES))
    if isinstance(found, ClaimCheck):
        assert all(each.start is not None for each in found.claims if each.supported)


@given(st.text())
def test_no_text_raises(text: str):
    read_claims(text, QuotedSources(SOURCES))
