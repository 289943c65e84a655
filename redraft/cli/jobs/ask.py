"""The command `redraft ask`, which creates a job and watches it until it ends."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import options, output, sessions, source_files
from redraft.cli.backends import opening
from redraft.cli.jobs import refining, request_bodies
from redraft.cli.option_names import in_options

if TYPE_CHECKING:
    from redraft.cli.backends.opening import Backend
    from redraft.domain.jobs.requests import GenerateAnswer
    from redraft.operations.jobs.resources import Job

EPILOG = options.examples(
    "redraft ask 'Explain recursion to a child.' --format 'three sentences'",
    "redraft ask 'Write a haiku about rain.' --crit '5-7-5 syllables; names no season' --threshold 0.9",
    "redraft ask - --json < task.txt > job.json",
    "redraft ask --file request.json --iter-max 5 --require-accept",
    "redraft ask --refine 'sky blue why? for my kid'",
    "redraft ask 'Describe Bern.' --crit 'Names the river.' --check max_words=60 --check contains=Bern",
    "redraft ask 'What is open?' --source minutes.md --source mails.jsonl --mode grounded --crit 'Complete.'",
    "redraft ask 'What does the chart show?' --attach chart.png --crit 'Names the highest value.'",
    "redraft ask 'Summarise this.' --model openai:gpt-6-luna --evaluator-model anthropic:claude-haiku-5-5",
)


@options.with_job_options
def ask(  # noqa: PLR0913 - one parameter per option
    *,
    given: dict[str, Any],
    instruct: Annotated[
        str | None, typer.Argument(metavar="INSTRUCT", help="The task. If it is missing or '-', it is read from stdin.")
    ] = None,
    check: options.Checks = None,
    refine: options.Refine = False,
    schema: options.Schema = None,
    max_cost: options.MaxCost = None,
    reference: options.Reference = None,
    source: options.Sources = None,
    attach: options.Attachments = None,
    mode: options.Mode = None,
    output_format: options.OutputFormat = None,
    citation_style: options.CitationStyle = None,
    template: options.Template = None,
    no_citations: options.NoCitations = False,
    allow_ungrounded: options.AllowUngrounded = False,
    annotate: options.Annotate = False,
    stream: options.Stream = False,
    file: options.RequestFile = None,
    as_json: options.AsJson = False,
    detach: options.Detach = False,
    require_accept: options.RequireAccept = False,
    traceparent: Annotated[
        str | None,
        typer.Option(
            envvar="TRACEPARENT",
            metavar="TEXT",
            help="W3C trace context. Its trace id becomes a field of the job and of its webhooks.",
        ),
    ] = None,
) -> None:
    """Generate, evaluate and revise one answer.

    The answer goes to stdout, and the progress goes to stderr. Without criteria, the evaluator decides whether the
    answer is complete and correct. If no server runs, the command starts a worker and a broker on this machine, and
    stops them at the end. Ctrl-C or SIGTERM cancels the job and prints the best answer so far. With a remote server
    (REDRAFT_SERVER), the job continues instead.

    Exit codes: 0 there is an answer; 1 there is no answer; 2 wrong usage; 3 the answer is not accepted (only with
    --require-accept); 4 the provider or the server refused the key; 75 the broker, the database, the provider or the
    server cannot be reached; 124 no answer within the deadline; 130 interrupted.
    """
    from redraft.domain.jobs.ids import read_traceparent
    from redraft.domain.jobs.requests import GenerateAnswer

    trace = read_traceparent(traceparent)
    if traceparent and trace is None:
        output.say("Note: the trace context is not valid, so the job has no trace id.", "dim")
    request_bodies.ensure_one_reads_stdin(
        {"INSTRUCT": instruct, "--file": file, "--schema": schema, "--source": source}
    )
    given |= {
        "limits.max_cost_usd": max_cost,
        "answer_schema": options.schema_of(schema),
        "reference": reference,
        "sources": source_files.read_sources(source),
        "attachments": request_bodies.read_attachments(attach),
        "grounding.mode": mode,
        "grounding.output_format": output_format,
        "grounding.citation_style": citation_style,
        "grounding.template": template,
        "grounding.include_citations": False if no_citations else None,
        "grounding.require_grounding": False if allow_ungrounded else None,
        "grounding.annotate_unverified": annotate or None,
        "stream": stream or None,
    }
    body = request_bodies.request_body(instruct, file, given)
    body = refining.refined_body(body) if refine else body
    request_bodies.add_checks(body, check)
    is_default = request_bodies.ensure_criteria(body)
    request = sessions.check(GenerateAnswer, body)
    with opening.opened() as backend:
        backend.check_request(request)  # An error must come before a broker and a worker start
        if is_default:
            output.say(
                f"No criteria given (--crit). The default criterion is: {request_bodies.DEFAULT_CRITERION}", "dim"
            )
        submitted = partial(backend.submit, request, trace)
        if detach:
            opening.print_detached(backend, "job", submitted().id, as_json=as_json)
            return
        code = _ask(backend, request, submitted, as_json=as_json, require_accept=require_accept)
        raise typer.Exit(code)


def _ask(
    backend: "Backend",
    request: "GenerateAnswer",
    submitted: "Callable[[], Job]",
    *,
    as_json: bool,
    require_accept: bool,
) -> int:
    from redraft.cli.views.waiting import Wait, wait_for

    def begin() -> tuple[str, int]:
        job = submitted()
        for warning in job.warnings:
            output.say(f"Note: {in_options(warning.message)}", "dim")
        return job.id, 0

    wait = Wait(
        threshold=request.score_threshold,
        deadline_s=request.limits.deadline_s,
        as_json=as_json,
        must_be_accepted=require_accept,
        audit=request.evaluation.audit,
    )
    return wait_for(backend, begin, wait)
