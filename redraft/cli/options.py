"""The options of the commands, each declared once."""

from typing import Annotated, Any, get_args

import typer

from redraft.cli.files import read_json

JobRef = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The job's id, a unique beginning of it, its label `name`, or 'latest'.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the data as JSON on stdout.")]

Format = Annotated[
    str | None,
    typer.Option("--format", "--resp-format", help="The wanted form of the answer, in words (default: none)."),
]
Criteria = Annotated[str | None, typer.Option("--crit", "--eval-crit", help="The evaluation criteria, in words.")]
IterMax = Annotated[int | None, typer.Option(help="Maximum number of iterations, 1 to 10 (default: 3).")]
Threshold = Annotated[float | None, typer.Option(help="Accept at this score or above, 0 to 1 (default: 0.8).")]
Model = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODEL",
        help="Generator, as provider:name (default: REDRAFT_MODEL). "
        "Repeat it for a ladder: iteration k uses the k-th model.",
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
        help="Sampling temperature of the generator, 0 to 2 (default: not sent). "
        "A model that rejects it is called without it."
    ),
]
MaxOutputTokens = Annotated[
    int | None, typer.Option(help="Maximum number of tokens of one answer (default: set for the installation).")
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
        help="JSON Schema that the answer must match: a file, '-' for stdin, "
        "or a name: answer_with_sources, comparison.",
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
        "repeatable. An evaluator still judges --crit, as one more criterion.",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Evaluation profile (default: criteria); `redraft profiles` lists them."),
]
Panel = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODEL", help="Evaluator of a panel, whose median score counts; repeat it for each evaluator."
    ),
]
Samples = Annotated[
    int | None, typer.Option(help="Number of calls per evaluator, 1 to 10; the mean score counts (default: 1).")
]
Audit = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Independent evaluator: scores the first and the final answer after the loop; the score is only reported.",
    ),
]
Skip = Annotated[
    str | None,
    typer.Option(
        metavar="never|when_checks_fail|auto",
        help="When to ask no evaluator: never; when_checks_fail: if a required check fails; "
        "auto: if the task is a greeting, thanks or plain arithmetic (default: never).",
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
AllowUngrounded = Annotated[bool, typer.Option("--allow-ungrounded", help="Also accept ungrounded answers.")]
Annotate = Annotated[bool, typer.Option("--annotate", help="List the unsupported statements below the final answer.")]
Refine = Annotated[bool, typer.Option("--refine", help="Draft task, format and criteria from a rough question first.")]
UseCache = Annotated[
    bool, typer.Option("--cache", help="Reuse the replies of identical earlier calls that were made with --cache.")
]
System = Annotated[str | None, typer.Option(metavar="TEXT", help="Added to the generator's system prompt.")]
Reference = Annotated[str | None, typer.Option(metavar="TEXT", help="Reference answer; only the evaluator sees it.")]
Meta = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Metadata of the job; repeatable. Commands also find a job by the value of its label `name`.",
    ),
]
Stream = Annotated[bool, typer.Option("--stream", help="Show the answer on the terminal while it is generated.")]
RequestFile = Annotated[
    str | None,
    typer.Option(
        "--file",
        metavar="FILE|JSON",
        help="A whole request body of the API: a JSON file, the JSON itself, or '-' for stdin. Options override it.",
    ),
]
Detach = Annotated[bool, typer.Option("--detach", help="Print the job's id and exit; a worker does the rest.")]
Redeliver = Annotated[str | None, typer.Option(metavar="ID", help="Send this delivery again, now.")]
RequireAccept = Annotated[bool, typer.Option("--require-accept", help="Exit with 3 unless the answer was accepted.")]
Guidance = Annotated[str | None, typer.Option(metavar="TEXT", help="Your own feedback for the next prompt.")]


Limit = Annotated[int, typer.Option(min=1, max=100, help="Maximum number of entries.")]
After = Annotated[str | None, typer.Option(metavar="CURSOR", help="Cursor that the previous page printed.")]
StopReason = Annotated[str | None, typer.Option(help="accepted, iteration_limit, plateau, error, …")]
FirstModel = Annotated[str | None, typer.Option(help="Generator of the first iteration, as provider:name.")]


def pairs(values: list[str] | None) -> dict[str, str]:
    """KEY=VALUE texts as a dictionary."""
    found: dict[str, str] = {}
    for each in values or ():
        key, equals, value = each.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"{each!r} is not KEY=VALUE.", param_hint="--meta")
        found[key] = value
    return found


def schema_of(text: str | None) -> Any:
    """The JSON Schema that a file holds, or the name of one."""
    from redraft.domain.structured.named_schemas import StructureName

    if text is None or text in get_args(StructureName):
        return text
    return read_json(text, "--schema")


def ladder(models: list[str] | None) -> str | list[str] | None:
    """One model as itself, several as a ladder."""
    if not models:
        return None
    return models[0] if len(models) == 1 else models


def examples(*lines: str) -> str:
    """The end of a help text."""
    return "\n\n".join(["Examples:", *(line.replace("[", r"\[") for line in lines)])
