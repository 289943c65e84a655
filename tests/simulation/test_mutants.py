"""The simulation finds what the product would lack without each of its mechanisms."""

import tempfile
import time
from pathlib import Path

import pytest

from tests.simulation.__main__ import memory
from tests.simulation.mutants import MUTANTS
from tests.simulation.schedule import Laboratory

# Of CPU: other tests run at the same time
_WITHIN_S = 60.0


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found_within_a_minute(name: str):
    began, seed, found = time.process_time(), 0, list[str]()
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=memory()) as folder:
        laboratory = Laboratory(Path(folder), MUTANTS[name])
        while not found and time.process_time() - began < _WITHIN_S:
            seed += 1
            found = laboratory.simulate(seed).problems
        laboratory.close()
    assert found, f"{seed} schedules"
