"""Prints the end of a job: the answer alone on stdout, the rest on stderr; and its exit code."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redraft.cli import exits, output, sessions
from redraft.cli.exits import Exit
from redraft.cli.views.grounding_output import print_sources
from redraft.cli.views.job_pages import show_job
from redraft.domain.bulk.phrases import say_score
from redraft.domain.jobs.states import say_stop_reason
from redraft.errors import RETRYABLE_CODES
from redraft.operations.jobs import queries
from redraft.operations.jobs.iterations import Iteration
from redraft.operations.jobs.resources import Job
from redraft.operations.services import Services

# Warnings that arise after the submission; earlier ones were printed then.
_LATE_WARNINGS = frozenset({"overfit_suspected", "audit_failed", "finish_reason_unknown", "schema_not_enforced"})
_CONTINUABLE = RETRYABLE_CODES | {"budget_exhausted", "deadline_exceeded", "worker_lost"}


@dataclass(frozen=True, slots=True)
class Manner:
    """What goes to stdout: the job as JSON or as a page, else the answer alone."""

    as_json: bool = False
    as_page: bool = False


def job_data(job: Job) -> dict[str, Any]:
    """The job resource as the API shows it."""
    data = job.model_dump(mode="json")
    if data["iterations"] is None:
        del data["iterations"]
    return data


def print_detached(services: Services, job_id: str, *, as_json: bool) -> None:
    """Print a job that is left to a worker: its id or its data, and how to watch it."""
    data = job_data(queries.get_job(services, job_id)) if as_json else None
    sessions.print_left(services, "jobs", job_id, data, as_json=as_json)


def print_result(job: Job, iterations: Sequence[Iteration], manner: Manner, seconds: float) -> None:
    """Print the result of a job, and the scores of its audit."""
    _print_audit(iterations)
    for warning in job.warnings:
        if warning.code in _LATE_WARNINGS:
            output.say(f"Note: {warning.message}", "yellow")
    output.say(_summary(job, seconds), "dim")
    if job.error:
        _print_error(job.id, job.error)
    if manner.as_json:
        output.write_json(job_data(job))
    elif manner.as_page:
        show_job(job, iterations)
    elif job.result:
        _print_answer(job.result["final_answer"])
        print_sources(job)
    elif job.status == "canceled":
        output.say("There is no answer yet: it was canceled before the first one was whole.", "yellow")


def _print_audit(iterations: Sequence[Iteration]) -> None:
    audits = [
        (each.number, found) for each in iterations for found in each.further_evaluations if found.role == "audit"
    ]
    for model in dict.fromkeys(found.evaluator_model for _, found in audits):
        scores = ", ".join(
            f"iteration {number} {'unscored' if found.score is None else say_score(found.score)}"
            for number, found in audits
            if found.evaluator_model == model
        )
        output.say(f"Audit by {model or 'checks'}: {scores}")


def _summary(job: Job, seconds: float) -> str:
    parts = [job.id]
    if job.result and job.result["final_score"] is not None:
        parts.append(f"score {say_score(job.result['final_score'])} of iteration {job.result['best_iteration']}")
    usage = job.usage
    parts.append("1 call" if usage.calls == 1 else f"{usage.calls} calls")
    parts.append(f"{usage.input_tokens + usage.output_tokens:,} tokens")
    parts.append("unknown cost" if usage.cost_usd is None else f"${usage.cost_usd}")
    parts.append(output.span(seconds))
    return " · ".join(parts)


def _print_error(job_id: str, error: dict[str, Any]) -> None:
    output.say(f"{error['title']}: {exits.in_options(output.one_line(error['detail'], 2000))}", "red")
    if words := exits.advice(error["code"]):
        output.say(words)
    if error["code"] in _CONTINUABLE:
        output.say(f"Continue the job with: redraft jobs continue {job_id}")


def _print_answer(answer: str) -> None:
    if output.stdout().is_terminal and (console := output.stderr()).is_terminal:
        console.rule(style="dim")
    output.write_data(answer)


def exit_of_job(job: Job, *, must_be_accepted: bool) -> Exit:
    """The exit code of a job: any answer is a success unless `must_be_accepted`."""
    if job.status == "failed":
        return exits.exit_of_code((job.error or {}).get("code", "error"))
    if job.status == "canceled":
        return Exit.INTERRUPTED
    if must_be_accepted and not (job.result and job.result["success"]):
        output.say(f"The answer was not accepted ({say_stop_reason(job.stop_reason or '')}).", "yellow")
        return Exit.NOT_ACCEPTED
    return Exit.OK
