"""Seeded schedules of whole deployments in one thread: many short ones, and those that once found a fault."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.__main__ import memory
from tests.simulation.schedule import Laboratory

# A change of the simulation gives each seed another schedule: then these are only some more
_ONCE_FOUND_A_FAULT = (287,)
_COUNT = 40
_LONG_S = 120.0


@pytest.fixture
def laboratory() -> Iterator[Laboratory]:
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=memory()) as folder:
        made = Laboratory(Path(folder))
        yield made
        made.close()


def _violations(laboratory: Laboratory, seed: int) -> list[str]:
    return [f"python -m tests.simulation --seed {seed}: {words}" for words in laboratory.simulate(seed).problems]


def test_no_schedule_breaks_an_invariant(laboratory: Laboratory):
    seeds = (*_ONCE_FOUND_A_FAULT, *range(1, _COUNT + 1))
    assert [words for seed in seeds for words in _violations(laboratory, seed)] == []


def test_a_seed_repeats_its_schedule(laboratory: Laboratory):
    first = laboratory.simulate(90)
    laboratory.simulate(91)
    again = laboratory.simulate(90)
    assert first.trace == again.trace
    assert first.seconds == again.seconds


@pytest.mark.long
def test_no_schedule_of_two_minutes_breaks_an_invariant(laboratory: Laboratory):
    end, seed, found = time.monotonic() + _LONG_S, time.time_ns(), list[str]()
    while time.monotonic() < end and not found:
        seed += 1
        found = _violations(laboratory, seed)
    assert found == []
