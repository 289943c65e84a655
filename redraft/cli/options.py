"""Defines the options that commands share, and groups of commands."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, NamedTuple, TypeVar, cast, get_args

import typer
from typer.core import TyperGroup

from redraft.cli.files import read_json
from redraft.domain.jobs.job_defaults import ITER_MAX, SCORE_THRESHOLD

JobRef = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The job: its id, a unique prefix of it, the value of its label `name`, or 'latest'."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]

MaxCost = Annotated[
    float | None,
    typer.Option(
        help="Maximum cost of the whole job, in USD (default: no limit). The prices of all its models must be known."
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="FILE|NAME",
        help="JSON Schema that the answer must match: a file, '-' for stdin, or the built-in schema "
        "answer_with_sources or comparison.",
    ),
]
Checks = Annotated[
    list[str] | None,
    typer.Option(
        "--check",
        metavar="KIND=VALUE",
        help="Deterministic check (no model call) that an answer must pass, such as max_words=60, contains=Bern, "
        "is_json or bullets=2..4 (see docs/checks.md); repeatable. "
        "With --crit, a model also evaluates the answer by the text of --crit.",
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="FILE",
        help="File with sources for the answer: a text or Markdown file is one source, a .jsonl or .json file contains "
        "chunks; '-' for stdin. Repeatable; sources are numbered from 1 in the given order.",
    ),
]
Attachments = Annotated[
    list[str] | None,
    typer.Option(
        "--attach",
        metavar="FILE",
        help="Image (PNG, JPEG, GIF, WebP) or PDF for the generator and the evaluator (docs/attachments.md); "
        "repeatable.",
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        metavar="simple|grounded|analytical|conversational",
        help="Style of an answer with sources (default: simple); docs/grounding.md describes the styles.",
    ),
]
OutputFormat = Annotated[
    str | None,
    typer.Option(metavar="plain|markdown|json|bullets", help="Format of an answer with sources (default: plain)."),
]
CitationStyle = Annotated[
    str | None,
    typer.Option(
        metavar="inline|footnote|endnote",
        help="Form of the citations. inline: [Source 1]; footnote: ¹; endnote: a list at the end (default: inline).",
    ),
]
Template = Annotated[
    str | None,
    typer.Option(
        metavar="grounded_qa|analytical_synthesis|comparison|summarization",
        help="Structure of an answer with sources (default: none); docs/grounding.md describes each structure.",
    ),
]
NoCitations = Annotated[bool, typer.Option("--no-citations", help="Ask for an answer without citations.")]
AllowUngrounded = Annotated[
    bool,
    typer.Option("--allow-ungrounded", help="Also accept answers that the sources do not support (docs/grounding.md)."),
]
Annotate = Annotated[bool, typer.Option("--annotate", help="Append the unsupported statements to the final answer.")]
Refine = Annotated[
    bool,
    typer.Option(
        "--refine", help="First let a model draft the task, the format and the criteria from a rough question."
    ),
]
Reference = Annotated[str | None, typer.Option(metavar="TEXT", help="Reference answer; only the evaluator sees it.")]
WithMeta = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=VALUE", help="Only jobs with this label; if repeated, with all these labels."),
]
Stream = Annotated[
    bool, typer.Option("--stream", help="Show the text of the answer on the terminal while the model generates it.")
]
RequestFile = Annotated[
    str | None,
    typer.Option(
        "--file",
        metavar="FILE|JSON",
        help="Request body, as for POST /v1/generate-answer: a JSON file, the JSON itself, or '-' for stdin. Options "
        "override its fields.",
    ),
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Print the job's id and exit at once. A worker executes the job.")
]
Redeliver = Annotated[str | None, typer.Option(metavar="ID", help="Send the delivery with this id again now.")]
RequireAccept = Annotated[bool, typer.Option("--require-accept", help="Exit with 3 if the answer is not accepted.")]
Guidance = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Your own feedback, which is added to the next prompt of the generator."),
]

Limit = Annotated[int, typer.Option(min=1, max=100, help="Maximum number of entries.")]
After = Annotated[
    str | None,
    typer.Option(metavar="CURSOR", help="Cursor that the previous page printed; the list continues after it."),
]
FirstModel = Annotated[
    str | None, typer.Option(help="Only jobs whose first iteration used this generator, as provider:name.")
]


def pair(text: str, option: str = "--meta", form: str = "KEY=VALUE") -> tuple[str, str]:
    """Split `NAME=VALUE` into name and value. Raises typer.BadParameter if the text has no name or no `=`."""
    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise typer.BadParameter(f"{text!r} is not {form}.", param_hint=option)
    return name.strip(), value


def metadata_of(values: list[str] | None) -> dict[str, str] | None:
    """Return the values of --meta as a dictionary, or None if the option is not given."""
    return dict(map(pair, values)) if values else None


def vars_of(values: list[str] | None) -> dict[str, str] | None:
    """Return the values of --var as a dictionary, or None if the option is not given."""
    return dict(pair(value, "--var", "NAME=VALUE") for value in values) if values else None


def schema_of(text: str | None) -> Any:
    """Read the JSON Schema in a file, or return the name of a built-in schema unchanged."""
    from redraft.domain.structured.named_schemas import StructureName

    return text if text is None or text in get_args(StructureName) else read_json(text, "--schema")


def rubric_of(path: str | None) -> list[Any] | None:
    """Read the criteria in a file that contains a list, or a request with a `rubric`.

    The validation of the request checks each criterion later. Raises typer.BadParameter if the file has no criteria.
    """
    if path is None:
        return None
    found = read_json(path, "--rubric")
    if isinstance(found, dict):
        found = cast("dict[str, Any]", found).get("rubric")
    if not isinstance(found, list):
        words = f"{path} contains neither a JSON list of criteria nor a request with a `rubric`."
        raise typer.BadParameter(words, param_hint="--rubric")
    return cast("list[Any]", found)


def ladder(models: list[str] | None) -> str | list[str] | None:
    """Return one model as a text, or several models as a list (a ladder: iteration k uses the k-th model)."""
    return models[0] if models and len(models) == 1 else models or None


_SPAN = re.compile(r"(\d{1,4})\s*(min|h|d|w)")
_UNIT_S = {"min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def read_span_s(text: str) -> float:
    """Parse a time span such as 30d into seconds. Raises typer.BadParameter if the text is not a time span."""
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a time span: write a number with min, h, d or w, such as 30d.")
    return int(found[1]) * _UNIT_S[found[2]]


def one_of(*names: str) -> Callable[[str], str]:
    """Return a parser that accepts only these names, because Typer accepts no Literal within a list."""

    def read(text: str) -> str:
        if text not in names:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}.")
        return text

    return read


def read_moment(text: str) -> datetime:
    """Parse a date or a time. Raises typer.BadParameter if the text is neither."""
    from redraft.domain.bodies.time_parsing import read_time

    try:
        return read_time(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None


_HELP = {
    "resp_format": "Format of the answer, in words (default: any format).",
    "eval_crit": "Evaluation criteria, in words.",
    "rubric": "File with a rubric, that is, a JSON list of criteria (see docs/criteria.md).",
    "profile": "Evaluation profile (default: criteria). `redraft profiles` lists the profiles.",
    "iter_max": f"Maximum number of iterations, 1 to 10 (default: {ITER_MAX}).",
    "threshold": f"Minimum score for acceptance, 0 to 1 (default: {SCORE_THRESHOLD}).",
    "model": "Model that generates answers, as provider:name (default: REDRAFT_MODEL). Repeatable: iteration k uses "
    "the k-th model, and further iterations use the last model.",
    "evaluator_model": "Model that evaluates answers, as provider:name (default: REDRAFT_EVALUATOR_MODEL, else the "
    "generator).",
    "panel": "Evaluator model of a panel; repeatable, once per model. The panel replaces --evaluator-model. The score "
    "of an answer is the median of the panel's scores.",
    "samples": "Number of times that each evaluator scores an answer, 1 to 10 (default: 1). The mean score counts.",
    "audit": "Independent evaluator, as provider:name (default: none). After the loop, it scores the first answer and "
    "the returned answer. Its scores are reported, but they do not change the result.",
    "skip": "When to skip the evaluator's call (default: never). when_checks_fail: skip it if the answer fails a "
    "required check. auto: skip it if the task is small talk or simple arithmetic, and the request has no format, "
    "rubric, schema, sources, attachments or reference.",
    "when": "When the answer is evaluated (default: before_done). before_done: the job ends after the verdict. "
    "after_answer: the job ends with its first answer, and the verdict follows; "
    "this needs one iteration and one candidate. overlap: while an answer is evaluated, the next answer is already "
    "generated, without the feedback; this saves time, but may cost one more generation.",
    "sample": "Share of the jobs for which evaluators are called, 0 to 1 (default: 1). "
    "A hash of a job's id selects the jobs.",
    "min_answer_chars": "Minimum number of characters of an answer for which evaluators are called (default: 0).",
    "candidates": "Number of answers that each iteration generates, 1 to 8 (default: 1).",
    "strategy": "What the next iteration does after a low score. revise: revise the answer; fresh: write a new answer; "
    "encourage: ask for a more complete answer (default: revise).",
    "deadline": "Time limit of the whole job, in seconds (default: 600). A job that reaches the limit ends with its "
    "best answer.",
    "temperature": "Sampling temperature of the generator, 0 to 2 (default: the model's own). If the model refuses a "
    "sampling parameter, the call is repeated without it.",
    "top_p": "Probability mass of the tokens that the generator samples from, 0 to 1 (default: the model's own).",
    "seed": "Seed of the generator's sampling (default: none). Anthropic's API accepts no seed.",
    "reasoning_effort": "How much the generator reasons before its answer (default: the model's own).",
    "evaluator_temperature": "Sampling temperature of the evaluators, 0 to 2 (default: the model's own).",
    "evaluator_top_p": "Probability mass of the tokens that the evaluators sample from, 0 to 1 (default: the model's "
    "own).",
    "evaluator_seed": "Seed of the evaluators' sampling (default: none). Anthropic's API accepts no seed.",
    "evaluator_reasoning_effort": "How much the evaluators reason before their verdict (default: the model's own).",
    "evaluator_max_output_tokens": "Maximum number of tokens of one verdict (default: "
    "REDRAFT_EVALUATOR_MAX_OUTPUT_TOKENS).",
    "max_output_tokens": "Maximum number of tokens of one answer (default: the model's limit; for Anthropic "
    "REDRAFT_ANTHROPIC_MAX_OUTPUT_TOKENS).",
    "max_tokens": "Maximum number of input and output tokens of the whole job (default: no limit). The job ends before "
    "a call that could exceed the limit.",
    "cache": "Reuse the reply of an identical model call that an earlier job with --cache made.",
    "system": "Text that is added to the generator's system prompt.",
    "generator_template": "Template of the generator's prompt, as NAME or NAME@VERSION (default: standard, but short "
    "for the bundled model). `redraft templates` lists the templates.",
    "var": "Value for {{ NAME }} in the task, the format, the criteria, the system text and the template; repeatable. "
    "The value is a text; `{{ NAME | int }}` makes it a number.",
    "meta": "Label of the job; repeatable. With `--meta name=X`, commands accept X in place of the job's id.",
}


class JobOption(NamedTuple):
    """An option of the command line that sets a request field, and the function that parses its value."""

    name: str
    field: str
    kind: Any
    metavar: str | None = None
    read: Callable[[Any], Any] = lambda value: value
    spellings: tuple[str, ...] = ()
    default: Any = None

    @property
    def flag(self) -> str:
        return self.spellings[0] if self.spellings else f"--{self.name.replace('_', '-')}"

    @property
    def parameter(self) -> Parameter:
        """The parameter by which Typer adds the option to a command."""
        kind = self.kind if self.default is not None else self.kind | None
        annotation = Annotated[kind, typer.Option(*self.spellings, metavar=self.metavar, help=_HELP[self.name])]
        return Parameter(self.name, Parameter.KEYWORD_ONLY, default=self.default, annotation=annotation)


_EFFORTS = "none|minimal|low|medium|high|xhigh|max"
JOB_OPTIONS = (
    JobOption("resp_format", "resp_format", str, spellings=("--format", "--resp-format")),
    JobOption("eval_crit", "eval_crit", str, spellings=("--crit", "--eval-crit")),
    JobOption("rubric", "rubric", str, "FILE", rubric_of),
    JobOption("profile", "profile", str, "NAME"),
    JobOption("iter_max", "iter_max", int),
    JobOption("threshold", "score_threshold", float),
    JobOption("model", "model", list[str], "MODEL", ladder),
    JobOption("evaluator_model", "evaluator_model", str, "MODEL"),
    JobOption("panel", "evaluation.panel", list[str], "MODEL"),
    JobOption("samples", "evaluation.samples", int),
    JobOption("audit", "evaluation.audit", str, "MODEL"),
    JobOption("skip", "evaluation.skip", str, "never|when_checks_fail|auto"),
    JobOption("when", "evaluation.when", str, "before_done|after_answer|overlap", spellings=("--evaluate-when",)),
    JobOption("sample", "evaluation.sample", float, spellings=("--evaluate-sample",)),
    JobOption("min_answer_chars", "evaluation.min_answer_chars", int),
    JobOption("candidates", "candidates", int),
    JobOption("strategy", "revision.strategy", str, "revise|fresh|encourage"),
    JobOption("deadline", "limits.deadline_s", float),
    JobOption("temperature", "sampling.temperature", float),
    JobOption("max_output_tokens", "sampling.max_output_tokens", int),
    JobOption("top_p", "sampling.top_p", float),
    JobOption("seed", "sampling.seed", int),
    JobOption("reasoning_effort", "sampling.reasoning_effort", str, _EFFORTS),
    JobOption("evaluator_temperature", "evaluator_sampling.temperature", float),
    JobOption("evaluator_max_output_tokens", "evaluator_sampling.max_output_tokens", int),
    JobOption("evaluator_top_p", "evaluator_sampling.top_p", float),
    JobOption("evaluator_seed", "evaluator_sampling.seed", int),
    JobOption("evaluator_reasoning_effort", "evaluator_sampling.reasoning_effort", str, _EFFORTS),
    JobOption("max_tokens", "limits.max_tokens", int),
    JobOption("cache", "cache", bool, None, {True: "use"}.get, ("--cache",), default=False),
    JobOption("system", "system_instructions", str, "TEXT"),
    JobOption("generator_template", "generator_template", str, "NAME"),
    JobOption("var", "vars", list[str], "NAME=VALUE", vars_of),
    JobOption("meta", "metadata", list[str], "KEY=VALUE", metadata_of),
)


def with_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add JOB_OPTIONS to a command. The command receives the values as `given`, by dotted field name."""
    return _with_options(command, JOB_OPTIONS)


def with_evaluator_sampling(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the evaluators' sampling to a command, which receives the values as in `with_job_options`."""
    return _with_options(command, [each for each in JOB_OPTIONS if each.field.startswith("evaluator_sampling.")])


def evaluator_sampling(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the given fields of the evaluators' sampling, or None if no field is given."""
    return {name.partition(".")[2]: v for name, v in given.items() if v is not None} or None


def _with_options(command: Callable[..., None], options: Sequence[JobOption]) -> Callable[..., None]:
    @wraps(command)
    def run(**values: Any) -> None:
        command(given={each.field: each.read(values.pop(each.name)) for each in options}, **values)

    own = [each for each in signature(command).parameters.values() if each.name != "given"]
    # The help lists options in the order of the parameters; an argument must come before them
    parameters = [*own[:1], *(each.parameter for each in options), *own[1:]]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}  # Typer reads the types from these
    return run


def examples(*lines: str) -> str:
    """Return the examples at the end of a help text."""
    return "\n\n".join(["Examples:", *(line.replace("[", r"\[") for line in lines)])


class _DefaultGroup(TyperGroup):
    """A group of commands that runs its first command if the command line names no command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_named = bool(args) and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        # Completion in a shell must offer the commands of the group, not the options of the default command
        if not is_named and not ctx.resilient_parsing:
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


_Command = TypeVar("_Command", bound=Callable[..., None])


class Group(typer.Typer):
    """The commands for one kind of resource. The first command is the default."""

    def __init__(self, help_text: str) -> None:
        super().__init__(cls=_DefaultGroup, help=help_text, rich_markup_mode=None)

    def add(self, name: str, *lines: str) -> Callable[[_Command], _Command]:
        return self.command(name, epilog=examples(*lines) if lines else None)
