"""Redraft: writes answers iteratively. What is true without HTTP, Celery or a terminal."""

import atexit
import gc
from importlib.metadata import version

# What is imported stays: to look for garbage after each 700 new objects, as Python does, took a fifth of every start.
gc.set_threshold(50_000, 20, 100)
# Nor is it taken apart when a process ends: that took it half a second.
atexit.register(gc.freeze)

__version__ = version("redraft")
