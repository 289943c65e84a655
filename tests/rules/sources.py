"""The project's own sources, parsed once."""

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("redraft", "api", "worker")


@cache
def modules(*folders: str) -> dict[str, ast.Module]:
    """Syntax trees by path from the project's root."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    with _without_collections():
        return {path.relative_to(ROOT).as_posix(): _tree(path) for path in found}


@cache  # of each file, since the rules look at different folders
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes(*folders: str) -> list[tuple[str, ast.AST]]:
    """Every node of every module, with its module's path."""
    with _without_collections():
        return [(path, node) for path, tree in modules(*folders).items() for node in ast.walk(tree)]


@contextmanager
def _without_collections() -> Iterator[None]:
    """All of it stays: looking for what does not would take three times as long as parsing, and go on in all tests."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def dotted(node: ast.AST) -> str:
    """`a.b.c` for a name or a chain of attributes, '' for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else node.attr
    return ""


def imported(node: ast.AST) -> list[str]:
    """The modules and names that an import statement brings in."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []
