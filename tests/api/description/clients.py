"""Programs that read the API's description, from a virtual environment of their own: `make api-tools`.

What they need (an older typer, an older jsonschema-rs) does not go together with what Redraft needs.
"""

import os
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "build" / "api-tools" / "bin"


def run_tool(name: str, *arguments: str | Path, cwd: Path) -> str:
    """What a program of that environment says; the test fails if it ends with an error."""
    # They call each other by name.
    environment = {**os.environ, "PATH": f"{FOLDER}{os.pathsep}{os.environ['PATH']}"}
    command = [tool(name), *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def tool(name: str) -> Path:
    """A program of that environment; without it the test is skipped, or fails where it has to be there."""
    path = FOLDER / name
    if not path.exists():
        if os.environ.get("TESTS_NEED_API_TOOLS"):
            pytest.fail(f"{path} is missing: make api-tools")
        pytest.skip("needs make api-tools")
    return path
