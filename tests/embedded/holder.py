"""`python -m tests.embedded.holder`: holds the stack of the settings in the environment until it is killed."""

import signal

from redraft import embedded
from redraft.settings import Settings

with embedded.stack(Settings()):
    print("open", flush=True)  # noqa: T201
    signal.pause()
