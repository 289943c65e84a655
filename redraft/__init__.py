"""Redraft writes answers iteratively. The entry points `api` and `worker` are packages of their own."""

import atexit
import gc
from importlib.metadata import version

# Imported objects live as long as the process, so collections find nothing to free. With Python's default, one after
# each 700 new objects, they took a fifth of every start
gc.set_threshold(50_000, 20, 100)
# Python collects garbage once more when a process ends, which took half a second. It skips frozen objects
atexit.register(gc.freeze)

__version__ = version("redraft")
