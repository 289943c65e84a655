"""Ids name the kind of resource and sort by the time of their creation."""

import re
import uuid

import pytest

from redraft.domain.jobs.ids import PREFIXES, new_id


@pytest.mark.parametrize("noun", list(PREFIXES))
def test_an_id_is_its_nouns_prefix_and_a_uuid_of_version_7(noun):
    prefix, _, rest = new_id(noun).partition("_")
    assert f"{prefix}_" == PREFIXES[noun]
    assert re.fullmatch(r"[0-9a-f]{32}", rest)
    assert uuid.UUID(rest).version == 7


def test_the_contracts_nouns_have_the_contracts_prefixes():
    expected = {"job": "job_", "iteration": "itr_", "evaluation": "eval_", "call": "call_", "key": "key_"}
    assert PREFIXES | expected == PREFIXES


def test_ids_are_unique_and_sort_by_age():
    ids = [new_id("job") for _ in range(2000)]
    assert len(set(ids)) == 2000
    assert ids == sorted(ids)
