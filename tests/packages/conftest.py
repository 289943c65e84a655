"""The built wheels and sdists, in fresh environments far from the checkout. `make dist` sets DIST to their folder."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.waiting import patient, wait_until

ROOT = Path(__file__).parents[2]
DIST = os.environ.get("DIST")
# Without DIST there is nothing to test
collect_ignore_glob = [] if DIST else ["test_*.py"]
_PINNED = re.compile(r"^([\w.-]+(?:\[[\w,]+\])?==[^\s\\]+(?: ; [^\\\n]*)?)", re.MULTILINE)


@dataclass(frozen=True)
class Environment:
    """A virtual environment, with a home and a working directory of its own that are empty."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, python: str, *packages: Path) -> "Environment":
        made = cls(folder)
        for name in ("home", "work"):
            (folder / name).mkdir(parents=True)
        # Hashes in a constraint would make pip demand hashes of the wheels under test
        pins = folder / "constraints.txt"
        pins.write_text("\n".join(_PINNED.findall((ROOT / "requirements.lock").read_text())))
        _checked([python, "-m", "venv", str(folder / "venv")])
        options = ("--disable-pip-version-check", "--no-input", "--no-compile", "--quiet", "--constraint", str(pins))
        _checked([str(made.program("python")), "-m", "pip", "install", *options, *map(str, packages)])
        return made

    def program(self, name: str) -> Path:
        return self.folder / "venv" / "bin" / name

    def variables(self, **more: str) -> dict[str, str]:
        return {"HOME": str(self.folder / "home"), "PATH": "/usr/bin:/bin", "NO_COLOR": "1", **more}

    def run(self, *command: str, expect: int = 0, **variables: str) -> str:
        """Run a program of the environment, and return what it printed."""
        done = subprocess.run(
            [self.program(command[0]), *command[1:]],
            cwd=self.folder / "work",
            env=self.variables(**variables),
            capture_output=True,
            text=True,
            timeout=patient(120),
            check=False,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    @contextmanager
    def serving(self, **variables: str) -> Iterator[str]:
        """Run `redraft serve` on a free port, and yield its URL."""
        log = self.folder / "serve.log"
        command = [self.program("redraft"), "serve", "--port", "0"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=self.folder / "work", env=self.variables(**variables), stdout=out, stderr=out
            )
        try:
            found = wait_until(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()), within_s=60)
            yield found.group(0)
        finally:
            process.terminate()
            process.wait(timeout=patient(30))


def _checked(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=patient(600), check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def wheel(name: str) -> Path:
    """Return the only wheel of a package in DIST."""
    [found] = Path(DIST or "").absolute().glob(f"{name}-*.whl")
    return found


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Redraft from its wheel, without the client and without the bundled model."""
    return Environment.make(tmp_path_factory.mktemp("redraft") / "env", sys.executable, wheel("redraft"))
