"""Turns a configuration of promptfoo into one dataset per prompt and one file of settings per provider."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redraft.importing.chat_messages import request_of
from redraft.importing.criteria import Part, all_required, weighted
from redraft.importing.openai_graders import text_of
from redraft.importing.outcomes import GIVEN_ANSWER, Findings, Imported, name_of
from redraft.importing.promptfoo_assertions import notes_on, parts_of
from redraft.importing.promptfoo_files import Prompt, Source, expanded
from redraft.importing.promptfoo_providers import model_of, providers_of
from redraft.importing.reading import ROWS_MAX, Folder, json_of, read_json, read_yaml
from redraft.importing.texts import NotCarried, fill, in_words, look_up, paths_in
from redraft.importing.values import Fields, as_list, as_object, is_number, one_or_many
from redraft.importing.yaml_values import parse_yaml

_READ = {
    "prompts",
    "providers",
    "targets",
    "tests",
    "defaultTest",
    "scenarios",
    "assertionTemplates",
    "evaluateOptions",
}
# These fields set the output of results and the execution of the program. They do not affect the scores
_WITHOUT_EFFECT = {
    "$schema",
    "description",
    "outputPath",
    "sharing",
    "tags",
    "writeLatestResults",
    "commandLineOptions",
}
_RUN_OPTIONS_WITHOUT_EFFECT = {"maxConcurrency", "showProgressBar", "delay", "cache", "generateSuggestions"}
_TEST = {"description", "vars", "assert", "threshold", "options", "metadata", "providerOutput"}
_TEST_OPTIONS = {"prefix", "suffix", "provider", "disableVarExpansion", "disableDefaultAsserts"}
_CHANGING_OPTIONS = ("transform", "postprocess", "transformVars")
_METADATA_MAX, _METADATA_CHARS, _KEY_CHARS = 15, 512, 64
_NESTED_MAX = 5


def import_config(path: Path, *, is_hidden: bool) -> Imported:
    """Import a configuration. Raises NotCarried if the file cannot be read."""
    found = read_json(path) if path.suffix == ".json" else read_yaml(path)
    config = as_object(found)
    if "prompts" not in config or not ({"tests", "scenarios"} & set(config)):
        raise NotCarried(
            f"{path.name} has no prompts, or no tests: it is no configuration of promptfoo that has a dataset"
        )
    findings = Findings()
    return _Config(config, Source(Folder(path.absolute().parent), findings), is_hidden=is_hidden).imported()


class _Config:
    def __init__(self, config: Fields, source: Source, *, is_hidden: bool) -> None:
        self._config = config
        self._source = source
        self._findings = source.findings
        self._is_hidden = is_hidden
        self._into = Imported(source.findings)
        self._evaluators: set[str] = set()
        self._default_test = self._default()

    def imported(self) -> Imported:
        self._note_unread()
        prompts = list(self._source.prompts(self._config["prompts"]))
        tests = [self._prepared(where, test) for where, test in self._tests()]
        datasets = [(prompt.label, self._dataset(prompt, tests)) for prompt in prompts]
        # Without a provider that can be carried over, the runs use the configured generator
        for provider in list(providers_of(self._providers(), self._findings)) or [None]:
            fields = {"iter_max": 1, **(provider.fields if provider else {}), **self._evaluator()}
            name = self._into.add_settings(name_of(provider.label if provider else "default", "provider"), fields)
            for label, dataset in datasets:
                if dataset and (not provider or not provider.prompts or label in provider.prompts):
                    self._into.runs.append((dataset, name))
        return self._into

    def _note_unread(self) -> None:
        for name in sorted(set(self._config) - _READ - _WITHOUT_EFFECT):
            self._findings.leave_out("the configuration", name, "Redraft has no counterpart")
        for name, value in as_object(self._config.get("evaluateOptions")).items():
            # `isinstance` would also accept true
            if name == "repeat" and type(value) is int and 1 <= value <= 100:
                self._into.repeat = value
            elif name not in _RUN_OPTIONS_WITHOUT_EFFECT:
                self._findings.leave_out("evaluateOptions", name, "Redraft has no counterpart")

    def _providers(self) -> Any:
        given = self._config.get("providers", self._config.get("targets", []))
        if not isinstance(given, str) or not given.startswith("file://"):
            return given
        try:
            return self._source.load(given)
        except NotCarried as error:
            self._findings.leave_out("providers", given, str(error))
            return []

    def _evaluator(self) -> dict[str, Any]:
        models = sorted(self._evaluators)
        for model in models[1:]:
            self._findings.leave_out("the assertions", f"grader {model}", "a run has one evaluator model")
        return {"evaluator_model": models[0]} if models else {}

    def _tests(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each test with the values of the default test, once per combination of its variables."""
        count = 0
        for where, test in self._given_tests():
            try:
                merged = _merged(self._default_test, test)
                variables = self._source.vars_of(merged["vars"])
                keeps_lists = merged["options"].get("disableVarExpansion") is True
                combinations = [variables] if keeps_lists else list(expanded(variables))
            except NotCarried as error:
                self._findings.leave_out(where, "a test", str(error))
                continue
            count += len(combinations)
            if count > ROWS_MAX:
                raise NotCarried(f"The configuration has more than {ROWS_MAX:,} tests")
            yield from ((where, {**merged, "vars": each}) for each in combinations)

    def _given_tests(self) -> Iterator[tuple[str, Fields]]:
        if "tests" in self._config:
            yield from self._source.tests(self._config["tests"])
        for number, scenario in enumerate(one_or_many(self._config.get("scenarios", [])), 1):
            where, fields = f"scenario {number}", as_object(scenario)
            if not as_list(fields.get("config")):
                self._findings.leave_out(where, "a scenario", "it has no list of configurations")
            tests = list(self._source.tests(fields.get("tests", [{}])))
            for each in as_list(fields.get("config")):
                yield from ((f"{where}, {place}", _merged(as_object(each), test)) for place, test in tests)

    def _default(self) -> Fields:
        given = self._config.get("defaultTest", {})
        try:
            return _merged({}, as_object(self._source.load(given) if isinstance(given, str) else given))
        except NotCarried as error:
            self._findings.leave_out("defaultTest", "the default test", str(error))
            return {}

    def _dataset(self, prompt: Prompt, tests: list["_Test"]) -> str | None:
        rows: list[dict[str, Any]] = []
        for number, test in enumerate(tests, 1):
            try:
                request = _request(prompt, test.variables.render, test.options)
            except NotCarried as error:
                self._findings.leave_out(test.where, f"prompt {prompt.label}", str(error))
                continue
            if "answer" in test.fields and request.pop("system_instructions", None):
                self._findings.change(test.where, "the system message", GIVEN_ANSWER)
            rows.append({"custom_id": f"test-{number}", **request, **test.fields})
        return self._into.add_dataset(name_of(prompt.label, "prompt"), rows)

    def _prepared(self, where: str, test: Fields) -> "_Test":
        for name in sorted(set(test) - _TEST):
            self._findings.leave_out(where, f"test: {name}", "Redraft has no counterpart")
        variables = _Variables(test["vars"])
        fields = {**self._judged(where, test, variables), "metadata": self._metadata(where, test)}
        if "providerOutput" in test:
            fields["answer"] = in_words(test["providerOutput"])
        return _Test(where, variables, test["options"], fields)

    def _judged(self, where: str, test: Fields, variables: "_Variables") -> dict[str, Any]:
        """Return the rubric and the threshold of a test."""
        self._note_options(where, test["options"])
        if test["assert"] and any(name in test["options"] for name in _CHANGING_OPTIONS):
            why = "options of the test change the answer or the variables by code before"
            self._findings.leave_out(where, "all assertions of the test", why)
            return {}
        carried = [self._parts(where, each, variables) for each in test["assert"]]
        parts = [part for each in carried for part in each]
        try:
            _ensure_some(parts)
            if (threshold := test.get("threshold")) is None:
                return all_required(parts, is_hidden=self._is_hidden)
            self._note_threshold(where, parts, is_whole=all(carried))
            # If the threshold is no number, pass -1, which `weighted` refuses
            return weighted(parts, threshold if is_number(threshold) else -1, is_hidden=self._is_hidden)
        except NotCarried as error:
            self._findings.leave_out(where, "the evaluation of the test", str(error))
            return {}

    def _note_options(self, where: str, options: Fields) -> None:
        for name in sorted(set(options) - _TEST_OPTIONS):
            self._findings.leave_out(where, f"options.{name}", "Redraft has no counterpart")
        if "provider" in options:
            self._note_evaluator(where, options["provider"])

    def _note_threshold(self, where: str, parts: list[Part], *, is_whole: bool) -> None:
        if not is_whole:
            self._findings.change(where, "the threshold", "assertions are left out, so scores differ")
        if any(part.fields["kind"] == "binary" for part in parts):
            self._findings.change(where, "the threshold", "a verdict of a model counts as 0 or 1")

    def _parts(self, where: str, given: Any, variables: "_Variables") -> list[Part]:
        assertion = self._resolved(given)
        kind = str(assertion.get("type", "without a type"))
        try:
            parts = list(parts_of(assertion, variables.render, self._source.load))
        except NotCarried as error:
            self._findings.leave_out(where, f"assertion {kind}", str(error))
            return []
        for note in notes_on(assertion):
            self._findings.change(where, f"assertion {kind}", note)
        if "provider" in assertion:
            self._note_evaluator(where, assertion["provider"])
        return parts

    def _resolved(self, given: Any) -> Fields:
        """Return an assertion, or the template that it names by `$ref`."""
        fields = as_object(given)
        reference = fields.get("$ref")
        if not isinstance(reference, str):
            return fields
        found = as_object(look_up(self._config, tuple(reference.removeprefix("#/").split("/"))))
        rest = {name: value for name, value in fields.items() if name != "$ref"}
        # No kind has this name, so the missing template is reported like an unknown kind
        return {**found, **rest} if found else {"type": f"{reference} (missing)"}

    def _note_evaluator(self, where: str, provider: Any) -> None:
        try:
            # The value may map each use (text, embedding) to a provider
            spec = as_object(provider)
            self._evaluators.add(model_of(spec.get("text", provider)))
            if spec.get("config"):
                self._findings.leave_out(
                    where, "the config of a grader", "give it with --evaluator-temperature and others"
                )
        except NotCarried as error:
            self._findings.leave_out(where, "a grader", str(error))

    def _metadata(self, where: str, test: Fields) -> dict[str, str]:
        given = {"description": test.get("description"), **test["metadata"]}
        found: dict[str, str] = {}
        for name, value in given.items():
            text = in_words(value)
            if not text:
                continue
            if len(found) < _METADATA_MAX and len(text) <= _METADATA_CHARS and 0 < len(str(name)) <= _KEY_CHARS:
                found[str(name)] = text
            else:
                self._findings.leave_out(where, f"metadata {name}", "it is too long")
        return found


@dataclass(frozen=True, slots=True)
class _Test:
    """A test with its variables.

    Attributes:
        fields: the fields of its rows that no prompt changes.
    """

    where: str
    variables: "_Variables"
    options: Fields
    fields: Fields


class _Variables:
    """Fills in the variables of a test. The value of a variable can contain other variables."""

    def __init__(self, values: Fields) -> None:
        self._values = values

    def render(self, template: str, depth: int = 0) -> str:
        def value_of(path: tuple[str | int, ...], text: str) -> str:
            if path[0] in ("env", "_conversation") and path[0] not in self._values:
                raise NotCarried(f"the template uses {text}, which exists only while promptfoo runs")
            found = look_up(self._values, path)
            if found is None and len(path) > 1:
                raise NotCarried(f"the variables have no {text}")
            value = in_words(found)
            if "{{" in value or "{%" in value:
                if depth >= _NESTED_MAX:
                    raise NotCarried(f"the variables are nested more than {_NESTED_MAX} times")
                return self.render(value, depth + 1)
            return value

        return fill(template, value_of)


def _ensure_some(parts: list[Part]) -> None:
    if not parts:
        raise NotCarried("there is no criterion; give criteria with --crit")


def _merged(default: Fields, test: Fields) -> dict[str, Any]:
    """Return a test with the values of the default test. The assertions of the default test come first."""
    merged = {**default, **test}
    for name in ("vars", "options", "metadata"):
        merged[name] = {**_object(default, name), **_object(test, name)}
    own, first = (_list(each, "assert") for each in (test, default))
    merged["assert"] = own if merged["options"].get("disableDefaultAsserts") is True else [*first, *own]
    return merged


def _object(test: Fields, name: str) -> Fields:
    value = test.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotCarried(f"its {name} are no object")
    return as_object(value)


def _list(test: Fields, name: str) -> list[Any]:
    value = test.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise NotCarried(f"its {name} is no list")
    return as_list(value)


def _request(prompt: Prompt, render: Any, options: Fields) -> dict[str, Any]:
    """Return the request of a prompt with its variables. Raises NotCarried."""
    messages = _messages(prompt.raw)
    added = [str(options.get(name) or "") for name in ("prefix", "suffix")]
    if messages is not None:
        if any(added):
            raise NotCarried("a prefix or suffix of messages is not carried")
        return request_of([(role, render(text)) for role, text in messages])
    text = render(added[0] + prompt.raw + added[1])
    if not text.strip():
        raise NotCarried("the prompt is empty")
    return {"instruct": text}


def _messages(raw: Any) -> list[tuple[str, str]] | None:
    """Return the messages of a chat prompt, or None if the prompt is a text. Raises NotCarried."""
    value = raw
    if isinstance(raw, str):
        start = raw.lstrip()
        # Only a text with such a beginning can be a list of messages. Other texts may be valid YAML by chance
        if not start.startswith(("[{", "[ ", "[\n", "- role:")):
            return None
        try:
            value = parse_yaml(raw) if start.startswith("- ") else json_of(start, "the prompt")
        except (NotCarried, ValueError) as error:
            # Raises NotCarried for blocks, by which templates often build messages
            paths_in(raw)
            if "role" in raw:
                raise NotCarried(f"the prompt looks like messages, but {error}") from error
            return None
    if not as_list(value) or not all(isinstance(each, dict) for each in as_list(value)):
        raise NotCarried("the prompt is no text and no list of messages")
    return [(str(each.get("role")), text_of(each)) for each in as_list(value)]
