"""Short forms for tests of imports: files in a folder, and what an import made of them."""

import json
from pathlib import Path
from typing import Any

from redraft.datasets.items import Item
from redraft.importing.openai_evals import Options, import_evals
from redraft.importing.outcomes import Imported
from redraft.importing.promptfoo import import_config
from tests.datasets.reading import items_of

SAMPLE = "{{ sample.output_text }}"


def put(folder: Path, files: dict[str, Any]) -> None:
    """Write files: texts and bytes as they are, other values as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8", "surrogatepass")


def promptfoo(folder: Path, config: Any, *, is_hidden: bool = True, **files: Any) -> Imported:
    """Import a configuration, as YAML text or as a value. A file's name has `__` for its dot, `___` for a slash."""
    named = {name.replace("___", "/").replace("__", "."): content for name, content in files.items()}
    put(folder, {"promptfooconfig.yaml": config, **named})
    return import_config(folder / "promptfooconfig.yaml", is_hidden=is_hidden)


def openai(folder: Path, *objects: Any, options: Options | None = None) -> Imported:
    """Import objects, each in a file of its own; a list of objects is a file of JSON lines."""
    paths = []
    for number, each in enumerate(objects):
        is_lines = isinstance(each, list)
        name = f"{number}.jsonl" if is_lines else f"{number}.json"
        put(folder, {name: "".join(json.dumps(row) + "\n" for row in each) if is_lines else each})
        paths.append(folder / name)
    return import_evals(paths, options or Options())


def left_out(imported: Imported) -> list[str]:
    return [f"{each.what}: {each.why}" for each in imported.findings.left_out]


def changed(imported: Imported) -> list[str]:
    return [f"{each.what}: {each.why}" for each in imported.findings.changed]


def items(imported: Imported, dataset: str = "", settings: str = "") -> list[Item]:
    """The items of a run, all of them good, as `redraft eval` would read them."""
    dataset = dataset or next(iter(imported.datasets))
    settings = settings or next(name for rows, name in imported.runs if rows == dataset)
    lines = "".join(json.dumps(row) + "\n" for row in imported.datasets[dataset])
    found = items_of(lines, f"{dataset}.jsonl", defaults=imported.settings[settings])
    assert all(isinstance(each, Item) for each in found), found
    return [each for each in found if isinstance(each, Item)]


def checks(item: Item) -> list[Any]:
    """The checks of an item as plain values, without defaults."""
    return [each.check.model_dump(exclude_defaults=True) for each in item.request.rubric or [] if each.check]


def criteria(imported: Imported, dataset: str = "") -> dict[str, Any]:
    """The rubric of the first row, by id."""
    rows = imported.datasets[dataset or next(iter(imported.datasets))]
    return {each["id"]: each for each in rows[0]["rubric"]}


def verdict(item: Item, answer: str) -> bool:
    """Whether all checks of an item pass for an answer."""
    from redraft.domain.evaluation.rubrics import run_checks

    return all(result.passed for result in run_checks(item.request.rubric or [], answer) if result.required)
