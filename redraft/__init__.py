"""Redraft writes answers iteratively. This package has everything but the entry points."""

import atexit
import gc
from importlib.metadata import version

# Imported objects live as long as the process. With Python's default, a collection after each 700 new objects,
# collections took a fifth of every start
gc.set_threshold(50_000, 20, 100)
# The collection at the end of a process took half a second; frozen objects are left out
atexit.register(gc.freeze)

__version__ = version("redraft")
