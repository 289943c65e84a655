"""Names are words of the field: one meaning each, and modules of one name in the same room of each layer."""

import ast
import re
from collections import defaultdict
from pathlib import PurePosixPath

from tests.rules.sources import PACKAGES, modules, nodes

EVERYWHERE = {
    *("memo", "doorbell", "rescuer", "reckon", "reckoned", "hurry", "bite", "askings", "unrung", "unheard", "feeder"),
    *("sights", "inhand"),
}
"""Words that have a word of the field in their place, whatever they would mean."""

IN_CORE = {
    *("ring", "rings", "rung", "ringing", "bell", "hear", "hears", "heard", "tell", "tells", "telling", "teller"),
    *("told", "settle", "settles", "settled", "asking", "visit", "visits", "gate", "gates", "hand", "boundary"),
    *("move", "moves", "judge", "judges", "judging", "judgement", "rescue", "feed", "feeding", "keeping", "look"),
    *("looks", "writer", "writers"),
}
"""Words that have another meaning elsewhere, as `gate` of a run; in the core they have none."""
CORE = (
    *("redraft/operations/steps/", "redraft/operations/calls/", "redraft/operations/results/", "worker/"),
    *("redraft/storage/jobs/", "redraft/queue.py", "redraft/rate_limiter.py", "redraft/circuit_breaker.py"),
)

PUBLIC = {"rung_at", "ring_count", "ring_again_s", "judges"}
"""Columns, settings and fields of the API, which keep their names."""

IN_SEVERAL_ROOMS = {
    *("app", "catalog", "columns", "deliveries", "diffs", "errors", "fields", "files", "formats", "jobs"),
    *("lines", "markdown", "models", "observations", "outcomes", "parquet", "profiles", "provider"),
    *("rate_limits", "rating_queue", "ratings", "references", "refining", "replies", "rubrics", "runs"),
    *("schemas", "serving", "settings", "streams", "sweeper", "tables", "templates", "text", "tunings", "verdicts"),
}
"""Stems with one meaning that rooms of different nouns need; none is added without a reason."""


def parts_of(name: str) -> set[str]:
    return {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)}


def names_of(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.arg():
            return [node.arg]
        case ast.Name(ctx=ast.Store()):
            return [node.id]
        case ast.Attribute(ctx=ast.Store()):
            return [node.attr]
        case _:
            return []


def test_names_are_split_into_their_words():
    assert parts_of("_StepInHand2") == {"step", "in", "hand2"}
    assert parts_of("RUNG_AT") == {"rung", "at"}
    assert parts_of("HTTPGate") == {"http", "gate"}


def test_no_name_is_a_word_that_the_field_has_another_one_for():
    found = {
        f"{path}: {name}"
        for path, node in nodes(*PACKAGES)
        for name in [*names_of(node), *([PurePosixPath(path).stem] if isinstance(node, ast.Module) else [])]
        if name not in PUBLIC and parts_of(name) & (EVERYWHERE | (IN_CORE if path.startswith(CORE) else set()))
    }
    assert not found, sorted(found)


def test_modules_of_one_name_stand_in_the_same_room_of_each_layer():
    rooms: defaultdict[str, set[str]] = defaultdict(set)
    for path in modules(*PACKAGES):
        module = PurePosixPath(path)
        if module.stem not in {"__init__", "__main__"}:
            rooms[module.stem].add(module.parent.name)
    strewn = {stem: sorted(found) for stem, found in rooms.items() if len(found) > 1}
    assert set(strewn) <= IN_SEVERAL_ROOMS, {stem: strewn[stem] for stem in set(strewn) - IN_SEVERAL_ROOMS}
