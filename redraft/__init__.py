"""Redraft: writes answers iteratively. What is true without HTTP, Celery or a terminal."""

import gc
from importlib.metadata import version

# What is imported stays: to look for garbage after each 700 new objects, as Python does, took a fifth of every start.
gc.set_threshold(50_000, 20, 100)

__version__ = version("redraft")
