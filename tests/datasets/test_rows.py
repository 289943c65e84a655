"""Rows: their ids, what makes two the same, texts that no database takes."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.datasets.digests import FirstLines, canonical
from redraft.datasets.rows import is_hash_id
from tests.datasets.reading import bad_row_of, reader_of, row_of, rows_of, told, version_of

JSONL = '{"id": "1", "question": "é", "score_threshold": 1, "vars": {"a": "b"}, "note": "n"}\n'


def test_a_row_without_an_id_gets_one_of_its_hash():
    row = row_of('{"question": "a"}')
    assert row.custom_id == f"row_{row.digest[:24]}"
    assert row.digest == hashlib.sha256(b'{"instruct":"a"}').hexdigest()


@pytest.mark.parametrize(
    ("value", "custom_id"), [('"a b"', "a b"), ("7", "7"), ('"07"', "07"), ('" x "', "x"), ('"é"', "é")]
)
def test_ids_are_kept_as_text(value: str, custom_id: str):
    assert row_of(f'{{"id": {value}, "question": "a"}}').custom_id == custom_id


@pytest.mark.parametrize("value", ["true", "1.5", "[]", '"' + "x" * 257 + '"'])
def test_what_is_no_id_is_an_error(value: str):
    assert bad_row_of(f'{{"id": {value}, "question": "a"}}').errors[0].code == "invalid_custom_id"


def test_a_blank_id_is_none():
    assert row_of('{"id": " ", "question": "a"}').custom_id.startswith("row_")
    assert is_hash_id(row_of('{"question": "a"}').custom_id)
    assert not is_hash_id("row_12")


def test_a_row_that_repeats_another_is_told():
    rows = rows_of('{"question": "a"}\n\n{"prompt": "a"}\n{"id": "b", "question": "a"}\n')
    assert told(rows) == [(3, "The row repeats line 1 in every column: to run it again, give it a custom_id.")]


@pytest.mark.parametrize(
    ("value", "code"), [("1.1", "invalid_human_score"), ('"1"', "invalid_human_score"), ("true", "invalid_human_score")]
)
def test_a_human_score_is_a_share(value: str, code: str):
    assert bad_row_of(f'{{"question": "a", "human_score": {value}}}').errors[0].code == code


def test_what_people_said_is_read():
    row = row_of('{"question": "a", "human_score": 0.5, "human_pass": false}')
    assert (row.human_score, row.human_pass) == (0.5, False)
    assert bad_row_of('{"question": "a", "human_pass": 1}').errors[0].pointer == "/human_pass"
    row = row_of("question,Human Score,human_pass\na,1,no\n", "a.csv")
    assert (row.human_score, row.human_pass) == (1.0, False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"question": "a\\u0000"}', "Column 'question' holds a NUL character; remove it."),
        ('{"question": "a", "note": {"b": ["\\ud800"]}}', "Column 'note' holds half a surrogate pair; it is no text."),
        ('{"question": "a", "x\\u0000": 1}', "Column 'x\\x00' holds a NUL character; remove it."),
    ],
)
def test_texts_that_no_database_takes_are_errors(text: str, words: str):
    assert bad_row_of(text).errors[0].detail == words


def test_a_backslash_before_u0000_is_text():
    assert row_of('{"question": "\\\\u0000"}').fields == {"instruct": "\\u0000"}


def test_the_version_does_not_depend_on_how_rows_are_written():
    same = version_of(JSONL)
    assert same == version_of(f"\n{JSONL.strip()}\r\n\r\n".encode("utf-16"), "a.jsonl")
    assert same == version_of(json.dumps([dict(reversed(json.loads(JSONL).items()))], indent=3), "a.json")
    assert same == version_of('"note";Question;vars.a;score_threshold;id\nn;é;b;1.0;1\n', "a.csv")
    assert same == version_of(
        "custom_id\tq\tvars.a\tscore_threshold\tnote\n1\té\tb\t1\tn\n", "a.tsv", mapping={"instruct": "q"}
    )


@pytest.mark.parametrize(
    "other",
    [
        JSONL.replace("é", "e"),
        JSONL.replace('"note": "n"', '"note": "m"'),
        JSONL.replace('"id": "1", ', ""),
        JSONL + JSONL,
        JSONL + '{"question": "b"}',
        JSONL + "{broken",
    ],
)
def test_the_version_changes_with_what_rows_say(other: str):
    assert version_of(other) != version_of(JSONL)


def test_the_version_changes_with_the_order_and_with_broken_rows():
    assert version_of('{"id": 1}\n{"id": 2}') != version_of('{"id": 2}\n{"id": 1}')
    assert version_of("{a") != version_of("{b")


def test_canonical_json_is_the_one_documented():
    assert canonical({"b": 1.0, "a": {"d": [0.5, "é\n"], "c": None}}) == '{"a":{"c":null,"d":[0.5,"é\\n"]},"b":1}'


def test_bad_rows_have_the_id_if_it_is_known():
    rows = rows_of('{"id": "a", "human_score": 3}\n{"id": ')
    assert [row.custom_id for row in rows] == ["a", None]


def test_counts_are_kept():
    reader = reader_of('{"id": 1}\n{"id": 1, "question": " "}\n{"x": 1, "reference": null}\n{')
    list(reader)
    assert (reader.seen, reader.duplicates) == (4, 1)
    assert reader.columns.blank == {"instruct": 1, "reference": 1}
    assert reader.columns.unused == {"x": 1}


def test_ever_new_columns_do_not_fill_the_memory():
    reader = reader_of("".join(f'{{"question": "{n}", "x{n}": 1, "vars.y{n}": 1}}\n' for n in range(1500)))
    list(reader)
    assert len(reader.columns.unused) == 1000
    assert len(reader.columns.used) == 1000


@given(st.lists(st.text(max_size=2), max_size=3000))
def test_first_lines_are_those_of_a_dict(names: list[str]):
    table, known = FirstLines(), dict[str, int]()
    for line, name in enumerate(names, 1):
        assert table.add(name, line) == known.get(name)
        known.setdefault(name, line)


def test_first_lines_grow():
    table = FirstLines()
    assert all(table.add(str(number), number) is None for number in range(1, 5000))
    assert all(table.add(str(number), 0) == number for number in range(1, 5000))
