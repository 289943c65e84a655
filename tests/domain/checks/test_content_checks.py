"""Checks of the whole answer: JSON, language, URLs, reading grade, cited sources, one number."""

from typing import Any

import pytest

from redraft.domain.checks.any_check import CheckResult
from tests.domain.checks.test_checks import CITY, check, found


@pytest.mark.parametrize(
    ("spec", "answer", "passed", "message"),
    [
        ({"value": CITY}, '```json\n{"name": "Bern"}\n```', True, "The answer is JSON and fits its schema."),
        (
            {"value": CITY},
            "{}",
            False,
            'The answer does not fit its schema: "name" is a required property (at /)',
        ),
        ({"value": {"type": "array", "maxItems": 1}}, "[1]", True, "The answer is JSON and fits its schema."),
        (
            {"value": {"type": "array"}},
            "one",
            False,
            "The answer is not JSON at line 1, column 1: write one JSON array and nothing else.",
        ),
        ({"value": {}}, "3", True, "The answer is JSON and fits its schema."),
    ],
)
def test_a_schema_may_be_of_any_value(spec: dict[str, Any], answer: str, passed: bool, message: str):  # noqa: FBT001
    assert found({"kind": "json_schema", **spec}, answer) == CheckResult(passed, message)


def test_json_is_the_whole_answer():
    assert check("is_json", '```\n"x"\n```') == CheckResult(True, "The answer is JSON.")
    words = "The answer is not JSON at line 2, column 1: write one JSON value and nothing else."
    assert check("is_json", "{}\nDone.") == CheckResult(False, words)


@pytest.mark.parametrize(
    ("code", "text", "passed", "message"),
    [
        ("de", "Der Umsatz stieg im dritten Quartal um zwölf Prozent.", True, "The language is German (de)."),
        (
            "de",
            "The cat sat on the mat and looked at the dog that lives next door.",
            False,
            "The answer is in English (en): write all of it in German (de).",
        ),
        ("de", "No idea.", True, "The answer has only 6 letters, too few to tell its language."),
        ("de", "ᚠᚢᚦᚨᚱᚲ" * 5, True, "The language may be Japanese (ja), but that is not sure (78%)."),
        ("ja", "駅はどこですか。猫はマットの上に座っています。", True, "The language is Japanese (ja)."),
        ("he", "החתול יושב על השטיח בבית שלנו", True, "The language is Hebrew (he)."),
        ("nb", "Regjeringen la i går fram et nytt forslag til budsjett.", True, "The language is Norwegian (no)."),
        (
            "en",
            "```\nfor each in things: print(each, end='')\n```",
            True,
            "The answer has only 0 letters, too few to tell its language.",
        ),
    ],
)
def test_the_message_names_the_language(code: str, text: str, passed: bool, message: str):  # noqa: FBT001
    assert check("language", text, value=code) == CheckResult(passed, message)


def test_an_unsure_guess_of_the_language_passes():
    result = check("language", "Revenue rose by twelve percent in the third quarter.", value="en")
    assert result.passed
    assert "not sure" in result.message


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("See (https://example.org/a_(b)?c=1).", "https://example.org/a_(b)?c=1"),
        ("HTTP://EXAMPLE.ORG", "HTTP://EXAMPLE.ORG"),
        ("www.example.org, then", "www.example.org"),
        ("mailto:a@b.c", "mailto:a@b.c"),
        ("go to example.com.", "example.com"),
        ("münchen.example.org/x", "münchen.example.org"),
    ],
)
def test_addresses_are_found(text: str, url: str):
    words = f'Found 1 URL, the first is "{url}": remove every URL.'
    assert check("is_url_free", text) == CheckResult(False, words)


@pytest.mark.parametrize("text", ["ASP.NET", "name@example.com", "e.g. main.py", "1.2.3", "a.b", "http is a protocol"])
def test_a_text_that_looks_like_a_url_is_none(text: str):
    assert check("is_url_free", text) == CheckResult(True, "No URL.")


def test_the_grade_follows_flesch_and_kincaid():
    assert check("max_grade", "The cat sat on the mat.", value=2) == CheckResult(True, "Grade -1.4, at most 2.")
    hard = "The implementation of internationalisation necessitates considerable deliberation."
    told = check("max_grade", hard, value=8.5)
    assert not told.passed
    assert told.message.startswith("The reading grade is ")
    assert "at most 8.5 is allowed (7.0 words per sentence" in told.message
    assert check("max_grade", "…", value=0) == CheckResult(True, "No words, so no grade.")


@pytest.mark.parametrize(
    ("text", "sources", "passed", "message"),
    [
        ("a [Source 1] b [Sources 2-3]", 3, True, "All 3 sources are cited."),
        ("a [1, Source 3] b [2]", 3, True, "All 3 sources are cited."),
        ("a [source 1]", 1, True, "[1] is cited."),
        ("no marks", 0, True, "There are no sources to cite."),
        ("a [1\u20132]", 3, False, "Source 3 is not cited: use and cite each of them, as in [Source 3]."),
        ("a [2] [0-1] [9]", 4, False, "Sources 3, 4 are not cited: use and cite each of them, as in [Source 3]."),
        ("a [1-999999]", 2, False, "Source 2 is not cited: use and cite each of them, as in [Source 2]."),
        ("a [0] [x 1] [Foo 1]", 1, False, "Source 1 is not cited: use and cite each of them, as in [Source 1]."),
    ],
)
def test_sources_are_cited_by_markers(text: str, sources: int, passed: bool, message: str):  # noqa: FBT001
    assert found({"kind": "cites_all_sources"}, text, sources) == CheckResult(passed, message)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("It is 42.", 42),
        ("-3 degrees", -3),
        ("\u22123 degrees", -3),
        ("GPT-4 needs 5kg of H2O", 5),
        ("version 1.2.3 costs 7%", 7),
        ("1,234.5 m", 1234.5),
        ("1.234,5 m", 1234.5),
        ("1\u202f234,5 m", 1234.5),
        ("1'234'567", 1234567),
        ("1,234,567", 1234567),
        ("12,5", 12.5),
        ("0,125", 0.125),
        ("3.142", 3.142),
        (".5", 0.5),
        ("2e3", 2000),
        ("\u0663\u066b\u0665", 3.5),
        ("['7']", 7),
    ],
)
def test_the_only_number_is_read_as_people_write_it(text: str, value: float):
    assert check("numeric_between", text, min=value, max=value).passed


@pytest.mark.parametrize(
    ("text", "bounds", "message"),
    [
        ("none", {"min": 1}, "Found no number: write exactly one number, at least 1."),
        ("1 or 2", {"max": 3}, 'Found 2 numbers ("1", "2"): write exactly one number, at most 3.'),
        ("7", {"min": 1, "max": 5.5}, 'The number "7" is not from 1 to 5.5: write such a number.'),
        (
            "1,234",
            {"max": 2},
            (
                'The number "1,234" can be read as 1234 or 1.234: '
                "write it without thousands separators, and with a point for decimals."
            ),
        ),
        ("1,2.3,4", {"min": 1}, "Found no number: write exactly one number, at least 1."),
        ("2024-05-01", {"max": 2}, 'Found 3 numbers ("2024", "05", "01"): write exactly one number, at most 2.'),
    ],
)
def test_the_message_lists_other_numbers(text: str, bounds: dict[str, float], message: str):
    assert check("numeric_between", text, **bounds) == CheckResult(False, message)


def test_the_message_lists_only_the_first_of_many_numbers():
    told = check("numeric_between", "1 " * 5000, min=1)
    assert told.message.startswith('Found more than 100 numbers ("1", "1", "1", "1", "1", …)')


def test_a_number_may_be_cited():
    assert found({"kind": "numeric_between", "min": 42, "max": 42}, "42 [Source 1]", sources=1).passed
    assert not found({"kind": "numeric_between", "min": 42, "max": 42}, "42 [Source 2]", sources=1).passed
