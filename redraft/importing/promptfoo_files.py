"""Reads the parts of a promptfoo configuration: its prompts and tests, with the files that they name."""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from redraft.importing.outcomes import Findings
from redraft.importing.promptfoo_assertions import assertion_in
from redraft.importing.reading import ROWS_MAX, Folder, csv_rows, json_lines, read_json, read_text, read_yaml
from redraft.importing.texts import NotCarried
from redraft.importing.values import Fields, as_list, as_object, one_or_many

_FILE = "file://"
_BARE_FILE = re.compile(r"[\w./*-]+\.(?:txt|md|json|jsonl|yaml|yml|j2)")
_CODE = (".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".py", ".rb", ".sh", ".go")
_YAML = (".yaml", ".yml")


class Prompt(NamedTuple):
    """A prompt before its variables are filled in: a text, or messages as plain values."""

    label: str
    raw: Any


class Source:
    """The configuration's folder, and the findings of its import."""

    def __init__(self, folder: Folder, findings: Findings) -> None:
        self.folder = folder
        self.findings = findings

    def load(self, name: str) -> Any:
        """Return the content of `file://…`: the values of JSON and YAML, or a text. Raises NotCarried."""
        (path,) = self._paths(name)[:1]
        if path.suffix == ".json":
            return read_json(path)
        return read_yaml(path) if path.suffix in _YAML else read_text(path)

    def _paths(self, name: str) -> list[Path]:
        name = name.removeprefix(_FILE)
        if name.partition(":")[0].endswith(_CODE):
            raise NotCarried(f"{name} is code, which is not carried")
        return self.folder.find(name)

    def prompts(self, given: Any) -> Iterator[Prompt]:
        if isinstance(given, dict):
            # In an old form, the value maps each file to a label
            given = [{"id": name, "label": label} for name, label in as_object(given).items()]
        for number, each in enumerate(one_or_many(given), 1):
            try:
                yield from self._prompts(each, f"prompt-{number}")
            except NotCarried as error:
                self.findings.leave_out(f"prompts, entry {number}", "a prompt", str(error))

    def _prompts(self, entry: Any, name: str) -> Iterator[Prompt]:
        spec = as_object(entry) or {"id": entry}
        text = spec.get("raw", spec.get("id"))
        label = str(spec.get("label") or name)
        for key in sorted(set(spec) - {"raw", "id", "label", "display"}):
            self.findings.leave_out(f"prompt {label}", f"prompt: {key}", "Redraft has no counterpart")
        if not isinstance(text, str) or not text.strip():
            raise NotCarried("it is no text")
        if text.startswith(("exec:", "langfuse://", "portkey://", "helicone://", "http://", "https://")):
            raise NotCarried("it is made by a program or fetched from a server")
        if text.startswith(_FILE) or _BARE_FILE.fullmatch(text):
            yield from self._in_files(text, label)
        else:
            yield Prompt(label, text)

    def _in_files(self, name: str, label: str) -> Iterator[Prompt]:
        paths = self._paths(name)
        found = [raw for path in paths for raw in _raw_prompts(path)]
        for number, raw in enumerate(found, 1):
            yield Prompt(label if len(found) == 1 else f"{label}-{number}", raw)

    def tests(self, given: Any) -> Iterator[tuple[str, Fields]]:
        """Yield each test with its place."""
        for number, each in enumerate(one_or_many(given), 1):
            where = f"tests, entry {number}"
            try:
                if isinstance(each, dict) and "path" not in each:
                    yield where, as_object(each)
                else:
                    yield from self._tests_in(as_object(each).get("path", each))
            except NotCarried as error:
                self.findings.leave_out(where, "tests", str(error))

    def _tests_in(self, name: Any) -> Iterator[tuple[str, Fields]]:
        if not isinstance(name, str) or (":" in name and not name.startswith(_FILE)):
            raise NotCarried("they are made by a program or fetched from a server")
        for path in self._paths(name):
            for number, test in enumerate(_tests_of(path), 1):
                if not isinstance(test, dict):
                    raise NotCarried(f"{path.name} has a test that is no object")
                yield f"{path.name}, test {number}", as_object(test)

    def vars_of(self, given: Fields) -> dict[str, Any]:
        """Return the variables of a test, with the content of their files. Raises NotCarried."""
        return {str(name): self._var(value) for name, value in given.items()}

    def _var(self, value: Any) -> Any:
        if not isinstance(value, str) or not value.startswith(_FILE):
            return value
        paths = self._paths(value)
        return _var_in(paths[0]) if len(paths) == 1 else [_var_in(path) for path in paths]


def expanded(variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the variables once for each combination of the entries of their lists, as promptfoo does."""
    lists = {name: value for name, value in variables.items() if _is_expanded(value)}
    if prod(map(len, lists.values())) > ROWS_MAX:
        raise NotCarried(f"its lists have more than {ROWS_MAX:,} combinations")
    for entries in product(*lists.values()):
        yield {**variables, **dict(zip(lists, entries, strict=True))}


def _is_expanded(value: Any) -> bool:
    # A list of objects is one value for promptfoo, which tests only the first entry
    return bool(entries := as_list(value)) and isinstance(entries[0], str | int | float)


def _var_in(path: Path) -> Any:
    if path.suffix in _YAML:
        return read_yaml(path)
    if path.suffix in (".pdf", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".wav", ".mp3", ".mp4"):
        raise NotCarried(f"{path.name} is no text; attach it in the dataset (docs/attachments.md)")
    return read_text(path).strip()


def _raw_prompts(path: Path) -> list[Any]:
    if path.suffix in _YAML:
        return [read_yaml(path)]
    text = read_text(path)
    if path.suffix == ".jsonl":
        return [value for _, value in json_lines(text, path.name)]
    if path.suffix != ".txt":
        return [text.strip()]
    # In a text file of promptfoo, a line with three hyphens separates two prompts
    parts: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.strip() == "---":
            parts.append([])
        else:
            parts[-1].append(line)
    return [raw for part in parts if (raw := "\n".join(part).strip())]


def _tests_of(path: Path) -> list[Any]:
    match path.suffix:
        case ".csv":
            return [_test_of(row) for row in csv_rows(read_text(path), path.name)]
        case ".jsonl":
            return [value for _, value in json_lines(read_text(path), path.name)]
        case ".json":
            return one_or_many(read_json(path))
        case ".yaml" | ".yml":
            return one_or_many(read_yaml(path))
        case _:
            raise NotCarried(f"{path.name} has no format that is read (YAML, JSON, JSON lines, CSV)")


def _test_of(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the test of a row of a CSV file. Its columns are variables, except for those that begin with `__`."""
    test: dict[str, Any] = {"vars": {name: value for name, value in row.items() if not name.startswith("__")}}
    special = {name[2:]: value for name, value in row.items() if name.startswith("__") and value.strip()}
    cells = [special.pop(name) for name in list(special) if name.startswith("expected")]
    test["assert"] = [assertion_in(cell.strip()) for cell in cells]
    for name in ("description", "providerOutput"):
        if name in special:
            test[name] = special.pop(name)
    test["options"] = {name: special.pop(name) for name in ("prefix", "suffix") if name in special}
    if (threshold := special.pop("threshold", None)) is not None:
        test["threshold"] = _number(threshold)
    if (metric := special.pop("metric", None)) is not None:
        for assertion in test["assert"]:
            assertion["metric"] = metric
    metadata = {name.partition(":")[2]: special.pop(name) for name in list(special) if name.startswith("metadata:")}
    # The remaining special columns are reported as fields without a counterpart
    return {
        **test,
        **({"metadata": metadata} if metadata else {}),
        **{f"__{name}": each for name, each in special.items()},
    }


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
