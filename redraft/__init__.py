"""Redraft: writes answers iteratively. What is true without HTTP, Celery or a terminal."""

from importlib.metadata import version

__version__ = version("redraft")
