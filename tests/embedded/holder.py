"""`python -m tests.embedded.holder`: holds the stack of the settings in the environment until it is killed."""

import sys

from redraft import embedded
from redraft.settings import Settings

with embedded.stack(Settings()):
    sys.stdout.write("open\n")
    sys.stdout.flush()
    sys.stdin.read()
