"""Turns an eval of OpenAI's Evals API, its runs and its exported items into datasets and settings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redraft.domain.jobs.job_defaults import SCORE_THRESHOLD
from redraft.importing.chat_messages import request_of
from redraft.importing.criteria import Part, all_required, weighted
from redraft.importing.openai_files import Given, read_files
from redraft.importing.openai_graders import Item, graders_of, multi_parts, notes_on, parts_of, text_of, unknown_fields
from redraft.importing.outcomes import GIVEN_ANSWER, Findings, Imported, name_of
from redraft.importing.sampling_parameters import generator_fields, model_named, sampling_of
from redraft.importing.texts import NotCarried, fill, in_words, look_up, paths_in
from redraft.importing.texts import Path as FieldPath
from redraft.importing.values import Fields, as_list, as_object, is_number

_TASKS = ("input", "question", "prompt", "query", "instruct", "instruction", "task")
_SOURCE = {"type", "source", "input_messages", "model", "sampling_params"}
_METADATA_CHARS, _METADATA_MAX = 512, 14


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of the user of an import.

    Attributes:
        answer_at: the field of an item with the answer to evaluate, such as `("item", "response")`; None: the output
            of the sample.
        task_at: the field of an item that is the task.
        is_hidden: the generator does not see the criteria.
    """

    answer_at: FieldPath | None = None
    task_at: FieldPath | None = None
    is_hidden: bool = True


def import_evals(paths: Sequence[Path], options: Options) -> Imported:
    """Import files of one eval. Raises NotCarried if a file cannot be read, or if there is more than one eval."""
    findings = Findings()
    given = read_files(list(paths), findings)
    if len(given.evals) > 1:
        raise NotCarried(f"The files have {len(given.evals)} evals. Import each with its own runs and items.")
    return _Eval(given, options, Imported(findings)).imported()


class _Eval:
    def __init__(self, given: Given, options: Options, into: Imported) -> None:
        self._given = given
        self._options = options
        self._into = into
        self._findings = into.findings
        whole: Fields = given.evals[0][1] if given.evals else {}
        self._name = name_of(str(whole.get("name") or ""), "eval")
        place = given.evals[0][0] if given.evals else ""
        criteria = as_list(whole.get("testing_criteria"))
        listed = [(f"{place}, grader {number}", each) for number, each in enumerate(criteria, 1)]
        self._graders = [(place, as_object(grader)) for place, grader in (*listed, *given.graders)]

    def imported(self) -> Imported:
        if not self._graders:
            self._findings.leave_out("the files", "the criteria", "there are no graders; give criteria with --crit")
        self._note_graders()
        for place, run in self._given.runs:
            self._add_run(place, run)
        if self._given.results:
            rows = [self._result(*each, number) for number, each in enumerate(self._given.results, 1)]
            self._add(f"{self._name}-results", [row for row in rows if row], {})
        if self._given.items and not self._given.runs:
            rows = [self._row(place, each, number, None) for number, (place, each) in enumerate(self._given.items, 1)]
            self._add(self._name, [row for row in rows if row], {})
        elif not self._into.datasets:
            why = "the files have no items; export the data, or give the file of a file_id"
            self._findings.leave_out("the files", "the items", why)
        return self._into

    def _note_graders(self) -> None:
        for place, grader in self._graders:
            name = _name_of(grader)
            for field in unknown_fields(grader):
                self._findings.leave_out(place, f"{name}: {field}", "Redraft has no such field")
            # A multi grader contains other graders
            for each in [grader, *graders_of(grader).values()]:
                for note in notes_on(each):
                    self._findings.change(place, _name_of(each), note)

    def _evaluator(self) -> dict[str, Any]:
        """Return the request fields of the graders' model."""
        found: dict[str, Any] = {}
        for place, grader in self._graders:
            name = _name_of(grader)
            model = self._model(place, grader.get("model"))
            if model and found.setdefault("evaluator_model", model) != model:
                self._findings.leave_out(place, f"{name}: model {model}", "a run has one evaluator model")
            sampling = sampling_of(as_object(grader.get("sampling_params")), f"{place}, {name}", self._findings)
            if sampling and found.setdefault("evaluator_sampling", sampling) != sampling:
                self._findings.leave_out(place, f"{name}: sampling_params", "a run has one evaluator sampling")
        return found

    def _add(self, name: str, rows: list[dict[str, Any]], fields: dict[str, Any]) -> None:
        if (dataset := self._into.add_dataset(name, rows)) is None:
            return
        # One iteration makes the runs comparable with the eval, which samples one answer per item without revision
        settings = {"iter_max": 1, **self._evaluator(), **fields}
        self._into.runs.append((dataset, self._into.add_settings(name, settings)))

    def _add_run(self, place: str, run: Fields) -> None:
        source = as_object(run["data_source"])
        content = look_up(source, ("source", "content"))
        items = self._given.items
        if isinstance(content, list):
            items = [(f"{place}, item {number}", as_object(row)) for number, row in enumerate(as_list(content), 1)]
        elif not items:
            kind = look_up(source, ("source", "type"))
            why = f"its items are stored as {kind}; export them, and import their file together with the run"
            self._findings.leave_out(place, f"run {run.get('name') or run.get('id')}", why)
        else:
            for field in sorted(set(as_object(source.get("source"))) - {"type", "id"}):
                self._findings.leave_out(place, f"source.{field}", "all items that are given are used")
        for field in sorted(set(source) - _SOURCE):
            self._findings.leave_out(place, f"data_source.{field}", "Redraft has no such field")
        rows = [self._row(where, item, number, source) for number, (where, item) in enumerate(items, 1)]
        name = name_of(str(run.get("name") or run.get("id") or ""), "run")
        self._add(f"{self._name}-{name}", [row for row in rows if row], self._generator(place, source))

    def _generator(self, place: str, source: Fields) -> dict[str, Any]:
        model = self._model(place, source.get("model"))
        fields = {"model": model} if model else {}
        return fields | generator_fields(as_object(source.get("sampling_params")), place, self._findings)

    def _model(self, place: str, name: Any) -> str | None:
        try:
            return None if name is None else model_named("openai", name)
        except NotCarried as error:
            self._findings.leave_out(place, "a model", str(error))
            return None

    def _result(self, place: str, result: Fields, number: int) -> dict[str, Any] | None:
        """Return the row of an output item, whose answer was sampled by OpenAI."""
        whole = {"item": result["datasource_item"], "sample": result.get("sample")}
        results = [as_object(each) for each in as_list(result.get("results"))]
        given = result.get("datasource_item_id")
        row = self._row(place, whole, given if isinstance(given, int) else number, None)
        if row and results:
            # The label allows a comparison of Redraft's verdicts with those of OpenAI
            row["metadata"]["openai_passed"] = in_words(all(each.get("passed") is True for each in results))
        return row

    def _row(self, place: str, whole: Fields, number: int, source: Fields | None) -> dict[str, Any] | None:
        """Return the row of an item, or None if it has no task."""
        item, sample = as_object(whole.get("item")), as_object(whole.get("sample"))
        row: dict[str, Any] = {"custom_id": f"item-{number}"}
        try:
            row |= self._task(item, sample, source)
            if not _is_generated(source) and (answer := self._answer(item, sample)) is not None:
                row["answer"] = answer
                if row.pop("system_instructions", None):
                    self._findings.change(place, "the system message", GIVEN_ANSWER)
        except NotCarried as error:
            self._findings.leave_out(place, "the item", str(error))
            return None
        row |= self._judged(place, Item(item, self._options.answer_at or ("sample", "output_text")))
        row["metadata"] = self._metadata(place, item, source)
        return row

    def _task(self, item: Fields, sample: Fields, source: Fields | None) -> dict[str, Any]:
        messages = as_object((source or {}).get("input_messages"))
        values = {"item": item}

        def value_of(path: FieldPath, text: str) -> str:
            if path[0] != "item" or (value := look_up(values, path)) is None:
                raise NotCarried(f"the item has no {text}")
            return in_words(value)

        if isinstance(template := messages.get("template"), list):
            return request_of([(_role(each), fill(text_of(each), value_of)) for each in as_list(template)])
        if isinstance(path := messages.get("item_reference"), str):
            return _request(look_up(values, tuple(path.split("."))))
        if self._options.task_at:
            return _request(look_up(values, self._options.task_at))
        # The files do not say which field is the task, so fields with usual names are tried
        candidates = [sample.get("input"), *(item.get(name) for name in _TASKS)]
        return _request(next((each for each in candidates if each), None))

    def _answer(self, item: Fields, sample: Fields) -> str | None:
        if self._options.answer_at:
            value = look_up({"item": item, "sample": sample}, self._options.answer_at)
            if value is None:
                raise NotCarried(f"it has no {'.'.join(map(str, self._options.answer_at))}")
            return in_words(value)
        text = sample.get("output_text")
        if text is None:
            found = look_up(sample, ("choices", 0, "message", "content"))
            text = look_up(sample, ("output", 0, "content")) if found is None else found
        if text is None and sample:
            raise NotCarried("its sample has no text")
        return None if text is None else text_of({"content": text})

    def _judged(self, place: str, item: Item) -> dict[str, Any]:
        """Return the rubric and the threshold of an item."""
        only: Fields = self._graders[0][1] if len(self._graders) == 1 else {}
        try:
            if only.get("type") == "multi":
                parts, total = multi_parts(only, item)
                # Redraft divides the score of a rubric by the sum of its weights, so the threshold is divided, too
                return weighted(parts, self._multi_threshold(place, only) / total, is_hidden=self._options.is_hidden)
            parts = [part for grader in self._graders for part in self._parts(*grader, item)]
            return all_required(parts, is_hidden=self._options.is_hidden) if parts else {}
        except NotCarried as error:
            self._findings.leave_out(place, _name_of(only) if only else "the graders", str(error))
            return {}

    def _multi_threshold(self, place: str, grader: Fields) -> float:
        threshold = grader.get("pass_threshold")
        if is_number(threshold):
            return float(threshold or 0)
        self._findings.change(place, _name_of(grader), f"it has no pass_threshold: {SCORE_THRESHOLD} is used")
        return SCORE_THRESHOLD

    def _parts(self, place: str, grader: Fields, item: Item) -> Iterator[Part]:
        try:
            yield from parts_of(grader, item)
        except NotCarried as error:
            self._findings.leave_out(place, f"{grader.get('type')} grader {_name_of(grader)}", str(error))

    def _metadata(self, place: str, item: Fields, source: Fields | None) -> dict[str, str]:
        """Return the fields of the item that no template uses."""
        used = self._used(source)
        rest = {name: in_words(value) for name, value in item.items() if name not in used and value is not None}
        found: dict[str, str] = {}
        for name, text in rest.items():
            if len(text) <= _METADATA_CHARS and len(name) <= 64 and len(found) < _METADATA_MAX and name:
                found[name] = text
            else:
                reason = "the metadata is full" if len(found) >= _METADATA_MAX else "it is too long for metadata"
                self._findings.leave_out(place, f"item.{name}", f"no template uses it, and {reason}")
        return found

    def _used(self, source: Fields | None) -> set[str]:
        texts = [source or {}, *(grader for _, grader in self._graders)]
        paths = [self._options.answer_at, self._options.task_at, *(path for each in texts for path in _all_paths(each))]
        named = {str(path[1]) for path in paths if path and path[0] == "item" and len(path) > 1}
        # A field with a usual name of a task may have become the task
        return named | set(_TASKS)


def _all_paths(value: Any) -> Iterator[FieldPath]:
    """Yield the variables of all templates within a value."""
    if isinstance(value, str):
        try:
            yield from paths_in(value)
        except NotCarried:
            return
    elif isinstance(value, dict):
        for name, each in as_object(value).items():
            # `source` has the items, whose texts are not templates
            if name != "source":
                yield from _all_paths(each)
    elif isinstance(value, list):
        for each in as_list(value):
            yield from _all_paths(each)


def _is_generated(source: Fields | None) -> bool:
    return bool(source and source.get("input_messages"))


def _request(value: Any) -> dict[str, Any]:
    """Return the request of a task that is a text, or a list of messages. Raises NotCarried."""
    if isinstance(value, list):
        return request_of([(_role(each), text_of(each)) for each in as_list(value)])
    if not isinstance(value, str) or not value.strip():
        raise NotCarried("it has no task; --task item.FIELD names the field that has it")
    return {"instruct": value}


def _role(message: Any) -> str:
    return str(as_object(message).get("role"))


def _name_of(grader: Fields) -> str:
    return str(grader.get("name") or grader.get("type") or "grader")
