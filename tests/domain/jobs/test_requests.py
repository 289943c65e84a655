"""Requests are validated strictly, and have the documented defaults."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from redraft.domain.jobs.requests import ContinueJob, EvaluateAnswer, GenerateAnswer, dump, ladder
from redraft.domain.text.cleaning import clean_json

LEAST = {"instruct": "Q", "eval_crit": "C"}
SAMPLING = dict.fromkeys(("temperature", "top_p", "max_output_tokens", "reasoning_effort", "seed"))
SHARED = {
    "instruct": "Q",
    "resp_format": "",
    "eval_crit": "C",
    "score_threshold": 0.8,
    "evaluator_model": None,
    "profile": "criteria",
    "rubric": None,
    "evaluation": {
        "samples": 1,
        "panel": [],
        "audit": None,
        "tuning": None,
        "skip": "never",
        "when": "before_done",
        "sample": 1.0,
        "min_answer_chars": 0,
    },
    "sources": [],
    "attachments": [],
    "grounding": None,
    "conversation": [],
    "reference": None,
    "limits": {"deadline_s": 600, "max_cost_usd": None, "max_tokens": None},
    "sampling": SAMPLING,
    "evaluator_sampling": SAMPLING,
    "cache": "off",
    "webhook": None,
    "metadata": {},
    "vars": {},
}
OWN = {
    "iter_max": 3,
    "model": None,
    "system_instructions": None,
    "generator_template": None,
    "candidates": 1,
    "revision": {"strategy": "revise", "from": "best"},
    "stop": {"plateau_patience": 2, "plateau_delta": 0.02},
    "answer_schema": None,
    "stream": False,
}


def read(kind: type[Any] = GenerateAnswer, **values: Any) -> Any:
    """Validate a request from JSON text, as the API does."""
    return kind.model_validate_json(to_json({**LEAST, **values}))


def errors(kind: type[Any] = GenerateAnswer, **values: Any) -> list[tuple[tuple[Any, ...], str]]:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate({**LEAST, **values})
    return [(error["loc"], error["type"]) for error in caught.value.errors()]


def test_the_defaults_are_the_contracts():
    assert dump(read()) == {**SHARED, **OWN}
    assert dump(read(EvaluateAnswer, answer="A")) == {**SHARED, "answer": "A"}


# Case C06
@pytest.mark.parametrize("iter_max", [0, -1, 11, 2.5, 3.0, "3", True, None, [3], math.nan])
def test_iter_max_is_a_whole_number_from_1_to_10(iter_max):
    assert errors(iter_max=iter_max)[0][0] == ("iter_max",)


@pytest.mark.parametrize("iter_max", [1, 10])
def test_the_bounds_of_iter_max_are_legal(iter_max):
    assert read(iter_max=iter_max).iter_max == iter_max


@pytest.mark.parametrize("threshold", [0, 0.0, 1, 1.0, 0.5])
def test_a_threshold_of_0_is_a_value_and_not_unset(threshold):
    assert read(score_threshold=threshold).score_threshold == threshold


@pytest.mark.parametrize("threshold", [-0.01, 1.01, 80, "0.8", True, None, math.nan, math.inf])
def test_a_threshold_is_a_number_from_0_to_1(threshold):
    assert errors(score_threshold=threshold)[0][0] == ("score_threshold",)


def test_a_request_that_was_stored_without_the_newer_parameters_is_read():
    stored = dump(read())
    del stored["evaluator_sampling"]
    stored["sampling"] = {"temperature": 0.5, "max_output_tokens": None}
    assert GenerateAnswer.model_validate(stored) == read(sampling={"temperature": 0.5})


def test_a_temperature_of_0_is_a_value_and_not_unset():
    assert read(sampling={"temperature": 0}).sampling.temperature == 0
    assert dump(read(sampling={"temperature": 0}))["sampling"]["temperature"] == 0


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("instruct", 1),
        ("instruct", None),
        ("instruct", ["Q"]),
        ("instruct", b"Q"),
        ("resp_format", None),
        ("resp_format", 1),
        ("eval_crit", 1),
        # Case B15: blank criteria are none, and something to evaluate by is required
        ("eval_crit", ""),
        ("eval_crit", " \n"),
        ("evaluator_model", ["openai:a"]),
        ("evaluator_model", ""),
        ("evaluator_model", 5),
        ("profile", "Quality!"),
        ("profile", None),
        ("conversation", "hello"),
        ("conversation", {"user": "a"}),
        ("reference", 1),
        ("reference", "  "),
        ("limits", None),
        ("limits", 600),
        ("sampling", []),
        ("metadata", []),
        ("metadata", None),
        ("model", 5),
        ("model", ""),
        ("model", []),
        ("model", ["a"] * 11),
        ("model", {"name": "a"}),
        ("model", "x" * 201),
        ("system_instructions", 1),
        ("candidates", 0),
        ("candidates", 9),
        ("candidates", True),
        ("candidates", "1"),
        ("candidates", 1.0),
        ("revision", "fresh"),
        ("stop", 2),
    ],
)
def test_wrong_types_and_sizes_are_refused_at_their_place(field, wrong):
    assert {loc[0] for loc, _ in errors(**{field: wrong})} == {field}


@pytest.mark.parametrize(
    ("place", "values"),
    [
        (("revision", "strategy"), {"revision": {"strategy": "improve"}}),
        (("revision", "from"), {"revision": {"from": "worst"}}),
        (("revision", "extra"), {"revision": {"extra": 1}}),
        (("stop", "plateau_patience"), {"stop": {"plateau_patience": -1}}),
        (("stop", "plateau_patience"), {"stop": {"plateau_patience": 1.0}}),
        (("stop", "plateau_delta"), {"stop": {"plateau_delta": -0.1}}),
        (("stop", "plateau_delta"), {"stop": {"plateau_delta": 2}}),
        (("limits", "deadline_s"), {"limits": {"deadline_s": 0}}),
        (("limits", "deadline_s"), {"limits": {"deadline_s": math.inf}}),
        (("limits", "deadline_s"), {"limits": {"deadline_s": "600"}}),
        (("limits", "deadlines"), {"limits": {"deadlines": 600}}),
        (("sampling", "temperature"), {"sampling": {"temperature": 3}}),
        (("sampling", "temperature"), {"sampling": {"temperature": True}}),
        (("sampling", "max_output_tokens"), {"sampling": {"max_output_tokens": 0}}),
        (("sampling", "reasoning_effort"), {"sampling": {"reasoning_effort": "some"}}),
        (("sampling", "seed"), {"sampling": {"seed": 1.5}}),
        (("evaluator_sampling", "top_p"), {"evaluator_sampling": {"top_p": 1.1}}),
        (("conversation", 0), {"conversation": [["only one"]]}),
        (("conversation", 0), {"conversation": [["a", "b", "c"]]}),
        (("conversation", 0, 1), {"conversation": [["a", None]]}),
        (("metadata", "k"), {"metadata": {"k": 1}}),
        (("metadata", "k"), {"metadata": {"k": None}}),
        (("metadata", "k"), {"metadata": {"k": "v" * 513}}),
        (("metadata",), {"metadata": {str(n): "v" for n in range(17)}}),
    ],
)
def test_an_error_within_a_field_is_reported_at_its_place(place, values):
    assert errors(**values)[0][0] == place


@pytest.mark.parametrize("key", ["", "k" * 65])
def test_a_metadata_key_has_1_to_64_characters(key):
    assert errors(metadata={key: "v"})


def test_metadata_at_its_bounds_is_legal():
    metadata = {f"{n:064}": "v" * 512 for n in range(16)}
    assert read(metadata=metadata).metadata == metadata


@pytest.mark.parametrize("kind", [GenerateAnswer, EvaluateAnswer])
@pytest.mark.parametrize("name", ["instruction", "threshold", "Instruct", "status", "id", "temperature"])
def test_unknown_fields_are_refused(kind, name):
    rest = {"answer": "A"} if kind is EvaluateAnswer else {}
    assert errors(kind, **{name: "x"}, **rest) == [((name,), "extra_forbidden")]


@pytest.mark.parametrize("name", ["iter_max", "model", "candidates", "revision", "stop"])
def test_an_evaluation_takes_no_field_of_a_generation(name):
    assert errors(EvaluateAnswer, answer="A", **{name: OWN[name]}) == [((name,), "extra_forbidden")]


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u00a0\u2003"])
def test_a_blank_task_is_none(text):
    assert [loc for loc, _ in errors(instruct=text)] == [("instruct",)]
    assert [loc for loc, _ in errors(eval_crit=text)] == [("eval_crit",)]


def test_a_task_has_200000_characters_at_most():
    assert read(instruct="é" * 200_000).instruct == "é" * 200_000
    assert errors(instruct="x" * 200_001) == [(("instruct",), "string_too_long")]


@pytest.mark.parametrize(
    ("place", "values"),
    [
        (("instruct",), {"instruct": "a\x00b"}),
        (("resp_format",), {"resp_format": "\x00"}),
        (("eval_crit",), {"eval_crit": "c\x00"}),
        (("reference",), {"reference": "c\x00"}),
        (("system_instructions",), {"system_instructions": "\x00"}),
        (("conversation", 0, 1), {"conversation": [["a", "b\x00"]]}),
        (("metadata", "k"), {"metadata": {"k": "\x00"}}),
        (("evaluator_model",), {"evaluator_model": "openai:\x00"}),
    ],
)
def test_a_nul_character_is_refused_where_it_stands(place, values):
    assert errors(**values) == [(place, "nul_character")]


def test_a_lone_surrogate_is_no_text():
    with pytest.raises(ValidationError):
        GenerateAnswer.model_validate({**LEAST, "instruct": "half \ud83d"})
    with pytest.raises(ValidationError):
        GenerateAnswer.model_validate_json('{"instruct": "half \\ud83d", "eval_crit": "C"}')


def test_a_metadata_key_is_held_to_the_same_rules_as_a_text():
    assert errors(metadata={"a\x00": "v"})


def test_emoji_and_escaped_pairs_are_text():
    request = GenerateAnswer.model_validate_json('{"instruct": "\\ud83d\\ude00", "eval_crit": "C"}')
    assert request.instruct == "😀"


@pytest.mark.parametrize("kind", [GenerateAnswer, EvaluateAnswer])
def test_something_to_evaluate_by_is_required(kind):
    with pytest.raises(ValidationError, match="eval_crit"):
        kind.model_validate({"instruct": "Q", **({"answer": "A"} if kind is EvaluateAnswer else {})})


@pytest.mark.parametrize("field", ["instruct", "eval_crit"])
def test_required_fields_are_required(field):
    with pytest.raises(ValidationError):
        GenerateAnswer.model_validate({name: value for name, value in LEAST.items() if name != field})


def test_an_answer_to_evaluate_is_required_and_may_be_empty():
    assert errors(EvaluateAnswer) == [(("answer",), "missing")]
    assert read(EvaluateAnswer, answer="").answer == ""
    assert errors(EvaluateAnswer, answer="x" * 1_000_001) == [(("answer",), "string_too_long")]


def test_a_ladder_is_one_model_or_several():
    assert ladder(read(model="openai:a")) == ("openai:a",)
    assert ladder(read(model=["openai:a", "openai:b"])) == ("openai:a", "openai:b")


def test_a_request_cannot_be_changed_after_it_was_read():
    with pytest.raises(ValidationError):
        read().instruct = "other"


@pytest.mark.parametrize("iter_max", [0, -1, 11, 2.5, "3", True])
def test_a_continuations_rounds_have_the_same_bounds(iter_max):
    with pytest.raises(ValidationError):
        ContinueJob.model_validate({"iter_max": iter_max})


@pytest.mark.parametrize(
    "wrong", [{"instruct": "other"}, {"guidance": " "}, {"guidance": "\x00"}, {"score_threshold": 1.5}, {"model": []}]
)
def test_a_continuation_is_strict(wrong):
    with pytest.raises(ValidationError):
        ContinueJob.model_validate(wrong)


def test_a_continuation_may_be_empty():
    assert set(dump(ContinueJob.model_validate({})).values()) == {None}


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(str.strip)
ODD = st.text(st.sampled_from("a \n\t\x01\x08\x1f\x85\u200b"), min_size=1, max_size=3)


def requests_of(texts: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"instruct": texts, "eval_crit": texts},
        optional={
            "resp_format": texts,
            "iter_max": st.integers(1, 10),
            "score_threshold": st.floats(0, 1),
            "model": texts | st.lists(texts, min_size=1, max_size=3),
            "evaluator_model": texts,
            "candidates": st.integers(1, 8),
            "conversation": st.lists(st.tuples(texts, texts).map(list), max_size=2),
            "revision": st.fixed_dictionaries({}, optional={"from": st.sampled_from(["best", "last"])}),
            "metadata": st.dictionaries(texts, texts, max_size=3),
            "sampling": st.fixed_dictionaries({"temperature": st.none() | st.floats(0, 2)}),
            "evaluator_sampling": st.fixed_dictionaries({"top_p": st.none() | st.floats(0, 1)}),
        },
    )


def odd_requests() -> st.SearchStrategy[dict[str, Any]]:
    """Generate requests with one odd text. Requests with two would be refused too often."""
    sources = st.fixed_dictionaries({"content": ODD}, optional={"title": ODD, "metadata": st.dictionaries(ODD, ODD)})
    checks = ODD.map(lambda text: [{"id": "c", "kind": "check", "check": {"kind": "contains", "value": text}}])
    odd = [
        *(st.fixed_dictionaries({name: ODD}) for name in ("instruct", "eval_crit", "reference", "system_instructions")),
        *(st.fixed_dictionaries({name: ODD}) for name in ("model", "evaluator_model", "resp_format")),
        st.fixed_dictionaries({"metadata": st.dictionaries(ODD, ODD, max_size=2)}),
        st.fixed_dictionaries({"sources": st.lists(sources, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"rubric": ODD.map(lambda text: [{"id": "c", "text": text}]) | checks}),
    ]
    return st.one_of(odd).map(lambda change: {"instruct": "Write.", "eval_crit": "Good.", **change})


@settings(deadline=None)
@given(odd_requests())
def test_an_accepted_request_is_unchanged_after_it_was_stored(values):
    try:
        request = GenerateAnswer.model_validate(values)
    except ValidationError:
        return  # told at once: that is fine, too
    stored = from_json(to_json(clean_json(dump(request))))
    assert GenerateAnswer.model_validate(stored) == request


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"instruct": "\x01"}, "blank"),
        ({"eval_crit": " \x1f\x01"}, "blank"),
        ({"reference": "\x01"}, "blank"),
        ({"sources": [{"content": "  \x01"}]}, "blank"),
        ({"rubric": [{"id": "a", "text": "\x01"}]}, "blank"),
        ({"rubric": [{"id": "a", "kind": "check", "check": {"kind": "contains", "value": "\x01"}}]}, "blank"),
        ({"model": "openai:\x01"}, "control_character"),
        ({"metadata": {"a": "1", "a\x01": "2"}}, "control_character"),
    ],
)
def test_a_text_that_storing_would_change_or_empty_is_refused(wrong, code):
    with pytest.raises(ValidationError) as caught:
        GenerateAnswer.model_validate({"instruct": "Write.", "eval_crit": "Good.", **wrong})
    assert code in {each["type"] for each in caught.value.errors()}


def test_a_form_feed_within_a_text_keeps_words_apart():
    request = GenerateAnswer.model_validate({"instruct": "page one\x0cpage two", "eval_crit": "Good."})
    assert request.instruct == "page one page two"


@settings(deadline=None)
@given(requests_of(TEXTS))
def test_the_normal_form_reads_back_as_the_same_request(values):
    request = GenerateAnswer.model_validate(values)
    stored = from_json(to_json(dump(request)))
    assert GenerateAnswer.model_validate(stored) == request
    nested = {"revision", "sampling", "evaluator_sampling"}
    assert {name: dump(request)[name] for name in values.keys() - nested} == {
        name: value for name, value in values.items() if name not in nested
    }
