"""The short form of `make chaos`: a load, some faults of all kinds, and no violation afterwards."""

import re

import pytest

from tests.chaos.mutants import Mutant
from tests.chaos.stage import Kind
from tests.chaos.storms.storm import Size, run_storm

# What the storm says of a product that lacks the mechanism
FOUND: dict[Mutant, str] = {
    "no_fencing": "is not the reply that the ledger holds|after its reply had been committed|step_no fell",
    "notify_before_commit": "was rung for before it was committed",
    "recorded_replies_off": "was called for again",
    "cancel_keeps_token": "had ended, and was changed|was canceled, and a call was opened",
}


@pytest.mark.parametrize(("kind", "seed"), [("postgresql", 11), pytest.param("sqlite", 12, marks=pytest.mark.long)])
def test_a_storm_leaves_nothing_wrong(kind: Kind, seed: int):
    report = run_storm(kind, seed, Size(jobs=20, workers=2, faults=6))
    assert report.violations == []
    assert sum(report.faults.values()) == 6
    assert report.stop_reasons.total() == 20 + 3


@pytest.mark.long
@pytest.mark.parametrize("mutant", FOUND)
def test_a_storm_finds_what_the_product_lacks(mutant: Mutant):
    report = run_storm("postgresql", 13, Size(jobs=30, workers=2, faults=4, canceled=0.3), mutant=mutant)
    assert any(re.search(FOUND[mutant], words) for words in report.violations), report.violations
