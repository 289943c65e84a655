"""A Python package with entry points, as if it were installed."""

import contextlib
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from redraft.packages import entry_points
from redraft.prompts import profiles


@contextlib.contextmanager
def installed_package(folder: Path, points: str, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The distribution acme 1.0, whose modules are in the folder."""
    info = folder / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(folder)
    cached = (entry_points.extensions, profiles.packaged_profiles)
    for each in cached:
        each.cache_clear()
    yield
    for each in cached:
        each.cache_clear()
    # The package of another test may have modules of the same names
    for path in folder.iterdir():
        sys.modules.pop(path.stem, None)
