"""The short form of `make chaos`: a load, some faults of all kinds, and no violation afterwards."""

import pytest

from tests.chaos.stage import Kind
from tests.chaos.storm import Size, run_storm


@pytest.mark.parametrize(("kind", "seed"), [("postgresql", 11), pytest.param("sqlite", 12, marks=pytest.mark.long)])
def test_a_storm_leaves_nothing_wrong(kind: Kind, seed: int):
    report = run_storm(kind, seed, Size(jobs=20, workers=2, faults=6))
    assert report.violations == []
    assert sum(report.faults.values()) == 6
    assert report.stop_reasons.total() == 20
