"""The options of the commands, each declared once."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

JobRef = Annotated[
    str,
    typer.Argument(metavar="ID", help="The job's id, a unique beginning of it, or 'latest'.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the data as JSON on stdout.")]

Format = Annotated[
    str | None, typer.Option("--format", "--resp-format", help="The wanted form of the answer, in words.")
]
Criteria = Annotated[str | None, typer.Option("--crit", "--eval-crit", help="What makes an answer good, in words.")]
IterMax = Annotated[int | None, typer.Option(help="Rounds of writing and judging at most: 1 to 10.")]
Threshold = Annotated[float | None, typer.Option(help="Accept from this score on: 0 to 1.")]
Model = Annotated[
    list[str] | None,
    typer.Option(help="Who writes, as provider:name. Given again: the next iteration's model, and so on."),
]
EvaluatorModel = Annotated[str | None, typer.Option(help="Who judges, as provider:name.")]
Candidates = Annotated[int | None, typer.Option(help="Attempts side by side in each iteration: 1 to 8.")]
Strategy = Annotated[
    str | None,
    typer.Option(
        metavar="revise|fresh|encourage",
        help="After a low score: revise the answer, write a fresh one, or ask for a more complete one.",
    ),
]
Deadline = Annotated[float | None, typer.Option(help="Seconds for the whole job.")]
Temperature = Annotated[float | None, typer.Option(help="Sent to the models; without it, their own default.")]
MaxOutputTokens = Annotated[int | None, typer.Option(help="Tokens of one answer at most.")]
MaxTokens = Annotated[
    int | None, typer.Option(help="Budget: tokens for the whole job; it stops before the call that could pass it.")
]
MaxCost = Annotated[float | None, typer.Option(help="Budget: USD for the whole job, if its models' prices are known.")]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="FILE|NAME",
        help="A JSON Schema; the answer is JSON that fits it. '-': from stdin. "
        "Or a name: answer_with_sources, comparison.",
    ),
]
Rubric = Annotated[
    str | None, typer.Option("--rubric", metavar="FILE", help="Criteria, line by line: a JSON list; docs/criteria.md.")
]
Checks = Annotated[
    list[str] | None,
    typer.Option(
        "--check",
        metavar="KIND=VALUE",
        help="What code checks and every answer must meet: max_words=60, contains=Bern, is_json, bullets=2..4, …; "
        "may be given again. --crit becomes a criterion beside them.",
    ),
]
Profile = Annotated[
    str | None, typer.Option(metavar="NAME", help="The way to evaluate; `redraft profiles` lists them.")
]
Panel = Annotated[
    list[str] | None,
    typer.Option(metavar="MODEL", help="Several judges, of whose scores the median counts: give it again for each."),
]
Samples = Annotated[int | None, typer.Option(help="Ask each judge so often, 1 to 10; the mean counts.")]
Audit = Annotated[
    str | None, typer.Option(metavar="MODEL", help="An outside judge of the first and the last answer; tells, only.")
]
Skip = Annotated[
    str | None,
    typer.Option(
        metavar="never|when_checks_fail|auto",
        help="When no model judges: never skip it, skip it while a required check fails, or for small talk too.",
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="FILE",
        help="What the answer may rest on: a text or Markdown file, or .jsonl or .json with chunks; '-': from stdin. "
        "May be given again; numbered from 1 in order.",
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(metavar="simple|grounded|analytical|conversational", help="How the answer makes use of its sources."),
]
OutputFormat = Annotated[
    str | None, typer.Option(metavar="plain|markdown|json|bullets", help="The form of an answer to sources.")
]
CitationStyle = Annotated[
    str | None, typer.Option(metavar="inline|footnote|endnote", help="How the answer cites its sources.")
]
Template = Annotated[
    str | None,
    typer.Option(
        metavar="grounded_qa|analytical_synthesis|comparison|summarization", help="What an answer to sources holds."
    ),
]
NoCitations = Annotated[bool, typer.Option("--no-citations", help="The answer names no sources.")]
AllowUngrounded = Annotated[
    bool, typer.Option("--allow-ungrounded", help="Accept an answer, too, that does not rest on its sources.")
]
Annotate = Annotated[bool, typer.Option("--annotate", help="List beneath the final answer what no source supports.")]
Refine = Annotated[
    bool, typer.Option("--refine", help="The task is a rough question: draft task, form and criteria first.")
]
UseCache = Annotated[bool, typer.Option("--cache", help="Take the replies of identical earlier calls made with it.")]
System = Annotated[str | None, typer.Option(help="Added to the writer's system prompt.")]
Reference = Annotated[str | None, typer.Option(help="A known good answer, which only the judge sees.")]
Meta = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label; may be given again.")]
Stream = Annotated[bool, typer.Option("--stream", help="Show the answer on the terminal while it is written.")]
RequestFile = Annotated[
    str | None,
    typer.Option("--file", metavar="JSON", help="A whole request as the API takes it; options win over it."),
]
Detach = Annotated[bool, typer.Option("--detach", help="Print the job's id and leave; a worker does the rest.")]
RequireAccept = Annotated[bool, typer.Option("--require-accept", help="Exit with 3 unless the answer was accepted.")]
Guidance = Annotated[str | None, typer.Option(help="Your own feedback for the next prompt.")]


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
    from redraft.domain.structured import StructureName

    if text is None or text in get_args(StructureName):
        return text
    try:
        schema = sys.stdin.read() if text == "-" else Path(text).read_text("utf-8")
        return json.loads(schema)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise typer.BadParameter(f"{text} cannot be read as JSON: {error}", param_hint="--schema") from error


def ladder(models: list[str] | None) -> str | list[str] | None:
    """One model as itself, several as a ladder."""
    if not models:
        return None
    return models[0] if len(models) == 1 else models


def examples(*lines: str) -> str:
    """The end of a help text."""
    return "\n\n".join(["Examples:", *(line.replace("[", r"\[") for line in lines)])
