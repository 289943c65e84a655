"""The limit of open files, in a process of its own: a hard limit cannot be raised again."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
soft, hard, concurrency = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
from worker.open_files import allow_descriptors
allow_descriptors(concurrency)
print("limit", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "concurrency", "limit", "warnings"),
    [(300, 4000, 600, 2656, 0), (300, 1000, 600, 1000, 0), (300, 800, 600, 800, 1), (900, 900, 8, 900, 0)],
)
def test_the_soft_limit_is_raised_as_far_as_needed_and_allowed(
    soft: int, hard: int, concurrency: int, limit: int, warnings: int
):
    command = [sys.executable, "-c", PROGRAM, *map(str, (soft, hard, concurrency))]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"limit {limit}" in ended.stdout
    assert (ended.stdout + ended.stderr).count("too_few_open_files") == warnings
