"""A process with a wrong setting ends with a message that names the setting, and not with a traceback."""

import os
import subprocess
import sys

import pytest

STARTS = {
    "worker": "import worker.app",
    "single step": "from worker.single_step import main; main('generate', 'job', '1')",
    "API": "from api.app import create_app; create_app()",
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_wrong_setting_ends_the_process_with_its_name(start: str) -> None:
    environment = {**os.environ, "REDRAFT_FROZEN_AFTER_S": "soon"}
    ended = subprocess.run([sys.executable, "-c", start], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "A setting has a wrong value.",
        "  REDRAFT_FROZEN_AFTER_S: Input should be a valid number, unable to parse string as a number",
    ]
