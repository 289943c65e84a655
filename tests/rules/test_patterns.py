"""No regular expression of our own can be kept busy by a text: the time grows as the text does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.rules.sources import ROOT
from tests.support.processes import clean_environment
from tests.support.waiting import patient


def slow(tmp_path: Path, *patterns: str) -> list[Any]:
    environment = {**clean_environment(), "REDRAFT_DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "tests.rules.patterns", *patterns]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True, timeout=patient(100)
    )
    assert int(done.stderr.split()[-2]) >= max(len(patterns), 7)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_no_pattern_of_our_own_is_tried_again_and_again(tmp_path: Path):
    assert slow(tmp_path) == []


BUSY = (
    r"(a+)+$",
    r"(?:a|aa)+$",
    r"(\w+\s?)*!",
    r"(a|b|ab)*c",
    r"(.*)(.*)(.*)x",
    r"^(\d+)*$",
    r"x\s*y?\s*z?\s*!",
    r"\s+$",
    r"<[^>]*>",
    r"\d+%",
    r"\w+-\w",
)
CALM = (r"(?<!a)a+b", r"(?<!\s)\s++$", r"<[^<>]*>", r"[^\W_]{1,40}-", r'"(?:[^"\\]++|\\.)*+"')


def test_a_pattern_that_tries_again_and_again_is_found_and_no_other(tmp_path: Path):
    assert [each["pattern"] for each in slow(tmp_path, *BUSY, *CALM)] == list(BUSY)
