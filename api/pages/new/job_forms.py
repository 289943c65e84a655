"""Converts the form for a new job to a request, and a request to the form."""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import getitem
from typing import Any, cast

from api.pages.new.form_errors import FormError
from api.pages.new.job_form_fields import FIELDS, GROUPS, LABELS, SHOWN_DEFAULTS, read_object, write_json
from api.pages.new.rubric_rows import RowError, criterion_of, row_of
from api.pages.parts.forms import Form, read_count
from api.pages.parts.multipart import FormPart
from redraft.domain.jobs.attachments import MEDIA_TYPES, media_type_of
from redraft.domain.jobs.requests import GenerateAnswer, GroundingOptions, dump
from redraft.domain.jobs.rubric_lines import read_rubric, write_rubric
from redraft.errors import Invalid
from redraft.operations.jobs.attachments import StoredFile
from redraft.operations.jobs.variables import as_sent

_TITLE_CHARS = 200
# Several inputs have these names: one for each model
_SEVERAL = frozenset(("model", "panel"))


@lru_cache(maxsize=1)
def _defaults() -> dict[str, Any]:
    return dump(GenerateAnswer(instruct="-", eval_crit="-")) | {"instruct": None, "eval_crit": None}


@dataclass(frozen=True, slots=True)
class KeptFile:
    """An attachment of an earlier job. `stored` is None if it was deleted, `reference` is its value in the form."""

    reference: str
    stored: StoredFile | None


@dataclass
class JobForm:
    """The texts of all form fields, the rows of each group of `GROUPS`, and files.

    `kept` are the attachments that the form takes from an earlier job. With `is_text`, the rubric is the text of the
    field `rubric`, and not rows.
    """

    texts: dict[str, str]
    rows: dict[str, list[dict[str, str]]] = field(default_factory=lambda: {group: [] for group in GROUPS})
    files: list[FormPart] = field(default_factory=list[FormPart])
    kept: Sequence[KeptFile] = ()
    is_text: bool = False

    @classmethod
    def sent(cls, form: Form) -> "JobForm":
        """Read the form that a browser sent. Empty rows are dropped."""
        texts = {name: _joined(name, form.texts(name)) for name in LABELS}
        rows = {group: _rows_sent(form, group) for group in GROUPS}
        _move(rows, form.text("do"))
        rows = {group: [row for row in each if not _is_empty(row)] for group, each in rows.items()}
        return cls(texts, rows, form.files("attachments"), is_text=not rows["criterion"] and bool(form.texts("rubric")))

    @classmethod
    def of_request(cls, request: Mapping[str, Any]) -> "JobForm":
        """Fill in the form with the request of any job. Values without a form field become the JSON in `more`."""
        left = minimal(request)
        texts = dict.fromkeys(LABELS, "")
        for each in FIELDS:
            value = _take(left, each.path)
            if value is None and each.name in SHOWN_DEFAULTS:
                value = reduce(getitem, each.path, _defaults())
            texts[each.name] = "" if value is None else each.write(value)
        rows = {
            "criterion": [row_of(each) for each in left.pop("rubric", None) or ()],
            "source": [_source_texts(source) for source in left.pop("sources", ())],
            "turn": [{"user": user, "assistant": assistant} for user, assistant in left.pop("conversation", ())],
        }
        for name in ("answer", "job_id", "iterations", "attachments"):
            left.pop(name, None)
        rest = {name: value for name, value in left.items() if value not in ({}, None)}
        texts["more"] = write_json(rest) if rest else ""
        return cls(texts, rows)

    @property
    def has_rubric(self) -> bool:
        return bool(self.texts["rubric"].strip() if self.is_text else self.rows["criterion"])

    def fill(self, rubric: Sequence[Mapping[str, Any]] | None = None, **fields: Any) -> None:
        """Write values of a request into the form. A field keeps its text if its value is None."""
        for each in FIELDS:
            if fields.get(each.name) is not None:
                self.texts[each.name] = each.write(fields[each.name])
        if rubric is not None:
            self.rows["criterion"], self.is_text = [row_of(each) for each in rubric], False

    def body(self) -> tuple[dict[str, Any], list[FormError]]:
        """Return the request body of the API, and errors for fields that cannot be parsed."""
        errors: list[FormError] = []
        body: dict[str, Any] = self._more(errors)
        for each in FIELDS:
            if not self.texts[each.name].strip():
                continue
            if _has(body, each.path):
                errors.append(_given_twice(each.path, each.label))
            try:
                _put(body, each.path, each.read(self.texts[each.name]))
            except ValueError as error:
                errors.append(FormError(each.name, str(error)))
        lists = {
            "rubric": self.rubric(errors),
            "sources": [_source(number, row, errors) for number, row in enumerate(self.rows["source"], 1)],
            "conversation": [[row["user"], row["assistant"]] for row in self.rows["turn"]],
            "attachments": [
                *(_kept(each, errors) for each in self.kept),
                *(_attachment(each, errors) for each in self.files),
            ],
        }
        given = {name: value for name, value in lists.items() if value}
        errors += [_given_twice((name,), LABELS[name]) for name in given if name in body]
        return body | given, errors

    def rubric(self, errors: list[FormError]) -> list[Any]:
        """Return the criteria as plain values. The errors of rows and lines go into `errors`."""
        if self.is_text:
            try:
                return read_rubric(self.texts["rubric"]) or []
            except ValueError as error:
                errors.append(FormError("rubric", str(error)))
                return [_placeholder(1)]
        found: list[dict[str, Any]] = []
        for number, row in enumerate(self.rows["criterion"], 1):
            try:
                found.append(criterion_of(row, [each["id"] for each in found]))
            except RowError as error:
                errors.append(FormError(f"criterion_{error.part}_{number}", error.words))
                found.append(_placeholder(number))
        return found

    def placed(self, errors: Iterable[FormError]) -> list[FormError]:
        """Assign the errors of criteria to the field of the text, if the rubric is a text."""
        return [_in_text(error) if self.is_text else error for error in errors]

    def show_rubric(self, *, as_text: bool) -> list[FormError]:
        """Convert the rubric to text, or to rows. If it has errors, do not convert it, and return the errors."""
        errors: list[FormError] = []
        rubric = self.rubric(errors)
        if errors or as_text == self.is_text:
            return errors
        self.is_text = as_text
        self.texts["rubric"] = write_rubric(rubric) if as_text and rubric else ""
        self.rows["criterion"] = [] if as_text else [row_of(each) for each in rubric]
        return []

    def _more(self, errors: list[FormError]) -> dict[str, Any]:
        try:
            return read_object(self.texts["more"])
        except ValueError as error:
            errors.append(FormError("more", str(error)))
            return {}


def _source(number: int, row: Mapping[str, str], errors: list[FormError]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        found = read_object(row["more"])
    except ValueError:
        errors.append(FormError(f"source_more_{number}", "this is not a JSON object"))
    title = {"title": row["title"].strip()} if row["title"].strip() else {}
    return {**found, **title, "content": row["content"]}


def _kept(file: KeptFile, errors: list[FormError]) -> dict[str, Any]:
    if file.stored is None:
        errors.append(
            FormError("attachments", "a file of the earlier job was deleted; remove it, or choose the file again")
        )
        return {}
    data = b64encode(file.stored.data).decode()
    return {"media_type": file.stored.media_type, "data": data, "title": file.stored.title}


def _attachment(file: FormPart, errors: list[FormError]) -> dict[str, Any]:
    name = file.file_name or "file"
    media_type = media_type_of(file.content)
    if media_type is None:
        errors.append(FormError("attachments", f"{name[:_TITLE_CHARS]} is none of the types {', '.join(MEDIA_TYPES)}"))
    return {"media_type": media_type, "data": b64encode(file.content).decode(), "title": name[:_TITLE_CHARS]}


def _source_texts(source: Mapping[str, Any]) -> dict[str, str]:
    more = {
        name: value for name, value in source.items() if name not in {"title", "content"} and value not in (None, {})
    }
    return {
        "title": source.get("title") or "",
        "content": source.get("content", ""),
        "more": json.dumps(more, ensure_ascii=False) if more else "",
    }


def minimal(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored request without its default values, as a user would send it."""
    grounding = {"grounding": dump(GroundingOptions())} if request.get("sources") else {}
    return _without(_defaults() | grounding, as_sent(request))


def _without(defaults: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        default: Any = defaults.get(name)
        # If the default is an empty object (metadata), there are no nested defaults
        if isinstance(value, dict) and isinstance(default, dict) and default:
            value = _without(cast("dict[str, Any]", default), cast("dict[str, Any]", value)) or None  # noqa: PLW2901
        if value is not None and value != default:
            found[name] = value
    return found


def _rows_sent(form: Form, group: str) -> list[dict[str, str]]:
    parts = GROUPS[group][1]
    columns = [form.texts(f"{group}_{part}") for part in parts]
    length = max(map(len, columns))
    for part, column in zip(parts, columns, strict=True):
        # A part may be missing in all rows, but not in some rows, because the other values would move to wrong rows
        if len(column) not in {0, length}:
            words = f"{group}_{part} was sent {len(column)} times for {length} rows. Send it for each row, or for none."
            raise Invalid(words)
    filled = [column or [""] * length for column in columns]
    return [dict(zip(parts, row, strict=True)) for row in zip(*filled, strict=True)]


def _move(rows: Mapping[str, list[dict[str, str]]], action: str) -> None:
    """Remove a row, or exchange it with the row above or below. An action is `remove_criterion_2`, for example."""
    verb, _, place = action.partition("_")
    group, _, number = place.rpartition("_")
    if verb not in {"remove", "up", "down"} or group not in rows:
        return
    found, index = rows[group], read_count(number) - 1
    if not 0 <= index < len(found):
        return
    row = found.pop(index)
    if verb != "remove":
        found.insert(max(0, index + (1 if verb == "down" else -1)), row)


def _is_empty(row: Mapping[str, str]) -> bool:
    # The choices of an empty criterion have values
    if row.get("kind", "binary") not in {"", "binary", "scale"}:
        return False
    return not any(value.strip() for part, value in row.items() if part not in {"kind", "flags"})


def _joined(name: str, texts: Sequence[str]) -> str:
    return "\n".join(filter(str.strip, texts)) if name in _SEVERAL else next(iter(texts), "")


def _placeholder(number: int) -> dict[str, Any]:
    """Return a criterion that replaces a criterion with an error, so that the next criteria keep their numbers."""
    return {"id": f"criterion-{number}", "text": "-"}


def _in_text(error: FormError) -> FormError:
    if not error.field.startswith("criterion_"):
        return error
    _, part, number = error.field.split("_")
    return FormError("rubric", f"criterion {number}, {part}: {error.words}")


def _has(body: Mapping[str, Any], path: Sequence[str]) -> bool:
    *parents, last = path
    for name in parents:
        below = body.get(name)
        body = cast("dict[str, Any]", below) if isinstance(below, dict) else {}
    return last in body


def _given_twice(path: Sequence[str], label: str) -> FormError:
    return FormError("more", f"{'.'.join(path)} is given twice, here and in the field {label}: leave one of them empty")


def _take(values: dict[str, Any], path: Sequence[str]) -> Any:
    *parents, last = path
    for name in parents:
        values = values.get(name, {})
    return values.pop(last, None)


def _put(body: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *parents, last = path
    for name in parents:
        below = body.get(name)
        body[name] = dict(cast("dict[str, Any]", below)) if isinstance(below, dict) else {}
        body = body[name]
    body[last] = value
