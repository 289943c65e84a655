"""Redraft writes answers iteratively. This package has everything but the entry points."""

import atexit
import gc
from importlib.metadata import version

# Imported objects stay: Python's default, a collection after each 700 new objects, took a fifth of every start
gc.set_threshold(50_000, 20, 100)
# The last collection of a process took half a second
atexit.register(gc.freeze)

__version__ = version("redraft")
