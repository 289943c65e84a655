"""The options of the commands, each declared once, and the groups that the commands form."""

import re
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, NamedTuple, TypeVar, cast, get_args

import typer
from typer.core import TyperGroup

from redraft.cli.files import read_json

JobRef = Annotated[str, typer.Argument(metavar="ID", help="Id, its unique beginning, label `name`, or 'latest'.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the data as JSON on stdout.")]

Format = Annotated[
    str | None,
    typer.Option("--format", "--resp-format", help="Form of the answer, in words (default: none)."),
]
Criteria = Annotated[str | None, typer.Option("--crit", "--eval-crit", help="The evaluation criteria, in words.")]
IterMax = Annotated[int | None, typer.Option(help="Maximum number of iterations, 1 to 10 (default: 3).")]
Threshold = Annotated[float | None, typer.Option(help="Accept at this score or above, 0 to 1 (default: 0.8).")]
Model = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODEL",
        help="Generator, as provider:name (default: REDRAFT_MODEL). "
        "Repeat it for a ladder: iteration k uses the k-th model, and iterations beyond the list use the last model.",
    ),
]
EvaluatorModel = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL", help="Evaluator, as provider:name (default: REDRAFT_EVALUATOR_MODEL, else the generator)."
    ),
]
Candidates = Annotated[
    int | None, typer.Option(help="Number of candidate answers in each iteration, 1 to 8 (default: 1).")
]
Strategy = Annotated[
    str | None,
    typer.Option(
        metavar="revise|fresh|encourage",
        help="After a low score: revise the answer, write a new one, or ask for a more complete one (default: revise).",
    ),
]
Deadline = Annotated[float | None, typer.Option(help="Time limit for the whole job, in seconds (default: 600).")]
Temperature = Annotated[
    float | None,
    typer.Option(
        help="Sampling temperature of the generator, 0 to 2 (default: the model's own). "
        "If the model refuses it, the call is repeated without it."
    ),
]
MaxOutputTokens = Annotated[
    int | None,
    typer.Option(
        help="Maximum number of tokens of one answer "
        "(default: the model's limit; for Anthropic REDRAFT_ANTHROPIC_MAX_OUTPUT_TOKENS)."
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        help="Budget of tokens for the whole job; the job stops before a call that could exceed it (default: none)."
    ),
]
MaxCost = Annotated[
    float | None, typer.Option(help="Budget in USD for the whole job; needs models with known prices (default: none).")
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="FILE|NAME",
        help="JSON Schema that the answer must match: a file, '-' for stdin, or one of the names "
        "answer_with_sources and comparison.",
    ),
]
Rubric = Annotated[
    str | None, typer.Option("--rubric", metavar="FILE", help="Rubric: a JSON list of criteria; docs/criteria.md.")
]
Checks = Annotated[
    list[str] | None,
    typer.Option(
        "--check",
        metavar="KIND=VALUE",
        help="Required check, decided by code: max_words=60, contains=Bern, is_json, bullets=2..4, …; "
        "repeatable. With --crit, an evaluator also evaluates the text of --crit as a criterion.",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Evaluation profile (default: criteria); `redraft profiles` lists them."),
]
Panel = Annotated[
    list[str] | None,
    typer.Option(metavar="MODEL", help="An evaluator of a panel; repeatable. The median score of the panel counts."),
]
Samples = Annotated[
    int | None, typer.Option(help="Number of calls per evaluator, 1 to 10; the mean score counts (default: 1).")
]
Audit = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Independent evaluator. It scores the first and the returned answer after the loop; its scores are only "
        "reported.",
    ),
]
Skip = Annotated[
    str | None,
    typer.Option(
        metavar="never|when_checks_fail|auto",
        help="When to skip the evaluation. never: do not skip; when_checks_fail: if the answer fails a required check; "
        "auto: if the task is small talk or arithmetic and has no form, rubric, schema, sources or reference "
        "(default: never).",
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="FILE",
        help="Source for the answer: a text or Markdown file, or .jsonl or .json with chunks; '-' for stdin. "
        "Repeatable; sources are numbered from 1 in order.",
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        metavar="simple|grounded|analytical|conversational", help="How the answer uses its sources (default: simple)."
    ),
]
OutputFormat = Annotated[
    str | None,
    typer.Option(metavar="plain|markdown|json|bullets", help="Output format of a grounded answer (default: plain)."),
]
CitationStyle = Annotated[
    str | None,
    typer.Option(metavar="inline|footnote|endnote", help="How the answer cites its sources (default: inline)."),
]
Template = Annotated[
    str | None,
    typer.Option(
        metavar="grounded_qa|analytical_synthesis|comparison|summarization",
        help="Structure of a grounded answer (default: none).",
    ),
]
NoCitations = Annotated[bool, typer.Option("--no-citations", help="Do not cite sources in the answer.")]
AllowUngrounded = Annotated[
    bool, typer.Option("--allow-ungrounded", help="Accept answers that fail the grounding rule.")
]
Annotate = Annotated[bool, typer.Option("--annotate", help="List the unsupported statements below the final answer.")]
Refine = Annotated[bool, typer.Option("--refine", help="Draft task, format and criteria from a rough question first.")]
UseCache = Annotated[
    bool, typer.Option("--cache", help="Reuse replies of identical calls that earlier jobs made with --cache.")
]
System = Annotated[str | None, typer.Option(metavar="TEXT", help="Added to the generator's system prompt.")]
Reference = Annotated[str | None, typer.Option(metavar="TEXT", help="Reference answer; only the evaluator sees it.")]
Meta = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Label of the job; repeatable. Commands also find a job by its label `name`.",
    ),
]
Stream = Annotated[bool, typer.Option("--stream", help="Show the answer on the terminal while it is generated.")]
RequestFile = Annotated[
    str | None,
    typer.Option(
        "--file",
        metavar="FILE|JSON",
        help="Request body of the API: a JSON file, the JSON itself, or '-' for stdin. Options override its fields.",
    ),
]
Detach = Annotated[bool, typer.Option("--detach", help="Print the job's id and exit; a worker does the rest.")]
Redeliver = Annotated[str | None, typer.Option(metavar="ID", help="Send this delivery again, now.")]
RequireAccept = Annotated[bool, typer.Option("--require-accept", help="Exit with 3 if the answer is not accepted.")]
Guidance = Annotated[str | None, typer.Option(metavar="TEXT", help="Your own feedback for the next prompt.")]

Limit = Annotated[int, typer.Option(min=1, max=100, help="Maximum number of entries.")]
After = Annotated[str | None, typer.Option(metavar="CURSOR", help="Cursor that the previous page printed.")]
FirstModel = Annotated[str | None, typer.Option(help="Generator of the first iteration, as provider:name.")]


def pair(text: str, option: str = "--meta", form: str = "KEY=VALUE") -> tuple[str, str]:
    """The name and the value in a text. Raises typer.BadParameter if one is missing."""
    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise typer.BadParameter(f"{text!r} is not {form}.", param_hint=option)
    return name.strip(), value


def metadata_of(values: list[str] | None) -> dict[str, str] | None:
    """The values of --meta; None without any."""
    return dict(map(pair, values)) if values else None


def schema_of(text: str | None) -> Any:
    """The JSON Schema that a file holds, or the name of a built-in one."""
    from redraft.domain.structured.named_schemas import StructureName

    return text if text is None or text in get_args(StructureName) else read_json(text, "--schema")


def rubric_of(path: str | None) -> list[Any] | None:
    """The criteria in a file: a list, or a request with a `rubric`. The request's validation checks each criterion.

    Raises:
        typer.BadParameter: the file has neither.
    """
    if path is None:
        return None
    found = read_json(path, "--rubric")
    if isinstance(found, dict):
        found = cast("dict[str, Any]", found).get("rubric")
    if not isinstance(found, list):
        words = f"{path} holds no JSON list of criteria, nor a request with a `rubric`."
        raise typer.BadParameter(words, param_hint="--rubric")
    return cast("list[Any]", found)


def ladder(models: list[str] | None) -> str | list[str] | None:
    """One model as itself, several as a ladder."""
    return models[0] if models and len(models) == 1 else models or None


_SPAN = re.compile(r"(\d{1,4})\s*(min|h|d|w)")
_UNIT_S = {"min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def read_span_s(text: str) -> float:
    """The seconds of a time span such as 30d. Raises typer.BadParameter if the text is none."""
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a time span: write a number with min, h, d or w, such as 30d.")
    return int(found[1]) * _UNIT_S[found[2]]


def one_of(*names: str) -> Callable[[str], str]:
    """A parser of one of these names. Typer accepts no Literal within a list."""

    def read(text: str) -> str:
        if text not in names:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}.")
        return text

    return read


def read_moment(text: str) -> datetime:
    """Parse a date or time. Raises typer.BadParameter if the text is none."""
    from redraft.domain.jobs.time_parsing import read_time

    try:
        return read_time(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None


class JobOption(NamedTuple):
    """An option, the field of a request that it sets, and the function that reads its value."""

    name: str
    annotation: Any
    field: str
    read: Callable[[Any], Any] = lambda value: value
    default: Any = None

    @property
    def flag(self) -> str:
        # Within Annotated, `default` holds the first spelling, if the option names one
        first: object = get_args(self.annotation)[1].default
        return first if isinstance(first, str) else f"--{self.name.replace('_', '-')}"


JOB_OPTIONS = (
    JobOption("resp_format", Format, "resp_format"),
    JobOption("eval_crit", Criteria, "eval_crit"),
    JobOption("rubric", Rubric, "rubric", rubric_of),
    JobOption("profile", Profile, "profile"),
    JobOption("iter_max", IterMax, "iter_max"),
    JobOption("threshold", Threshold, "score_threshold"),
    JobOption("model", Model, "model", ladder),
    JobOption("evaluator_model", EvaluatorModel, "evaluator_model"),
    JobOption("panel", Panel, "evaluation.panel"),
    JobOption("samples", Samples, "evaluation.samples"),
    JobOption("audit", Audit, "evaluation.audit"),
    JobOption("skip", Skip, "evaluation.skip"),
    JobOption("candidates", Candidates, "candidates"),
    JobOption("strategy", Strategy, "revision.strategy"),
    JobOption("deadline", Deadline, "limits.deadline_s"),
    JobOption("temperature", Temperature, "sampling.temperature"),
    JobOption("max_output_tokens", MaxOutputTokens, "sampling.max_output_tokens"),
    JobOption("max_tokens", MaxTokens, "limits.max_tokens"),
    JobOption("cache", UseCache, "cache", {True: "use"}.get, default=False),
    JobOption("system", System, "system_instructions"),
    JobOption("meta", Meta, "metadata", metadata_of),
)


def in_options(text: str) -> str:
    """Replace the dotted names of a request's fields by the options that set them."""
    for each in JOB_OPTIONS:
        if "." in each.field:
            text = re.sub(rf"(?<![\w.]){re.escape(each.field)}(?!\w|\.\w)", each.flag, text)
    return text


def with_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that describe a job to a command, which receives their fields by dotted name as `given`."""

    @wraps(command)
    def run(**values: Any) -> None:
        command(given={each.field: each.read(values.pop(each.name)) for each in JOB_OPTIONS}, **values)

    own = [each for each in signature(command).parameters.values() if each.name != "given"]
    shared = [
        Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=each.annotation)
        for each in JOB_OPTIONS
    ]
    # Arguments first; Typer lists the options of a command in this order
    parameters = [*own[:1], *shared, *own[1:]]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def examples(*lines: str) -> str:
    """The end of a help text."""
    return "\n\n".join(["Examples:", *(line.replace("[", r"\[") for line in lines)])


class _DefaultGroup(TyperGroup):
    """A group that runs its first command when none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_named = bool(args) and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        # While a shell completes, no default: it shall offer the commands, not the options of the first one
        if not is_named and not ctx.resilient_parsing:
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


_Command = TypeVar("_Command", bound=Callable[..., None])


class Group(typer.Typer):
    """Commands about one noun. Without a command, the first one runs."""

    def __init__(self, help_text: str) -> None:
        super().__init__(cls=_DefaultGroup, help=help_text, rich_markup_mode=None)

    def add(self, name: str, *lines: str) -> Callable[[_Command], _Command]:
        return self.command(name, epilog=examples(*lines) if lines else None)
