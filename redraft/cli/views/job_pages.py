"""Prints jobs, iterations, calls and webhook deliveries on stdout, as tables and pages."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from redraft.cli import output, sessions
from redraft.cli.option_names import in_options
from redraft.cli.output import NONE
from redraft.cli.views import grounding_output
from redraft.cli.views.live import unscored
from redraft.cli.views.verdicts import whole_lines
from redraft.domain.bulk.phrases import count, format_score, format_threshold
from redraft.domain.jobs.job_errors import describe
from redraft.domain.jobs.states import JobKind, Outcome, describe_stop_reason
from redraft.operations.jobs.iterations import Evaluation, Iteration
from redraft.operations.jobs.resources import Call, Event, Job, WebhookDelivery

if TYPE_CHECKING:
    from redraft.cli.backends.opening import Backend


def show_jobs(jobs: Sequence[Job]) -> None:
    output.show_list(
        jobs,
        {
            "kind": lambda job: job.kind.partition("_")[0],
            "status": status,
            "score": _score,
            "iterations": lambda job: f"{job.progress.iteration}/{job.progress.iter_max}",
            "model": _generator,
            "age": lambda job: output.age(job.created_at),
            "task": lambda job: output.one_line(job.request["instruct"], 200),
        },
        ("model", "iterations", "age", "kind"),
    )


def status(job: Job) -> Text:
    """Return the outcome with its sign. If an answer was not accepted or not evaluated, add the stop reason."""
    words = job.outcome.replace("_", " ")
    has_no_acceptance = job.outcome in {Outcome.NOT_ACCEPTED, Outcome.NOT_EVALUATED}
    reason = _stopped_by(job) if has_no_acceptance else words
    return output.sign_of(words, words if reason == words else f"{words} ({reason})")


def _stopped_by(job: Job) -> str:
    return describe_stop_reason(job.stop_reason or "", only_evaluates=job.kind != JobKind.GENERATE_ANSWER)


def _score(job: Job) -> str:
    best = job.progress.best_score
    return f"{NONE if best is None else format_score(best)}/{format_threshold(job.progress.score_threshold)}"


def _generator(job: Job) -> str:
    model = job.request.get("model") or _evaluator(job)
    return str(model) if isinstance(model, str) else " → ".join(model)


def show_job(job: Job, iterations: Sequence[Iteration], took: str = "", continued: Sequence[Event] = ()) -> None:
    """Print everything about a job. `took` is its duration in words; `continued` has one event per continuation."""
    guidance = [("guidance", event.data.get("guidance") or "") for event in continued]
    output.show_facts([*_facts(job, took), *guidance], 11)
    for title, field in (("Task", "instruct"), ("Format", "resp_format"), ("Criteria", "eval_crit")):
        if job.request[field]:
            output.show_section(title, [(job.request[field], "")])
    further = [verdict for iteration in iterations for verdict in iteration.further_evaluations]
    short = output.short_ids(each.id for each in further) | output.short_ids(each.job_id for each in further)
    for iteration in iterations:
        _show_iteration(iteration, short)
    if job.error:
        output.show_section("Error", [(in_options(describe(job.error)), "")], "red")
    if job.result:
        output.show_section("Answer", [(job.result["final_answer"], "")], "green")
        if cited := list(grounding_output.cited_lines(job)):
            output.show_section("Sources of the answer", cited)


def _facts(job: Job, took: str) -> list[tuple[str, Text | str]]:
    usage = job.usage
    return [
        ("job", job.id),
        ("answers of", str(job.request["job_id"]) if job.kind == "rescore_answers" else ""),
        ("status", status(job)),
        ("stopped by", _stopped_by(job)),
        ("score", f"{_score(job)} (iteration {job.progress.best_iteration or NONE})"),
        ("grounding", grounding_output.result_text(job)),
        ("iterations", _iterations(job)),
        ("generator", _generator(job) if job.kind == "generate_answer" else ""),
        ("evaluator", _evaluator(job)),
        ("audit", job.request.get("evaluation", {}).get("audit") or ""),
        ("created", f"{job.created_at:%Y-%m-%d %H:%M:%S} UTC, {output.age(job.created_at)} ago"),
        ("took", took),
        ("usage", f"{count(usage.calls, 'call')}, {output.tokens_text(usage)}, {output.cost_text(usage.cost_usd)}"),
        ("labels", ", ".join(f"{key}={value}" for key, value in job.metadata.items())),
        *(("note", in_options(warning.message)) for warning in job.warnings),
    ]


def took(job: Job, called_s: float, idle_ms: int) -> str:
    """Return how long an ended job took, in model calls and waiting. While the job runs, return an empty text."""
    if job.finished_at is None:
        return ""
    rested_s = idle_ms / 1000
    whole_s = (job.finished_at - job.created_at).total_seconds() - rested_s
    parts = [f"{output.span(min(called_s, whole_s))} in model calls"]
    parts.append(f"{output.span(max(0.0, whole_s - called_s))} waiting for a worker, a retry or a limit")
    if rested_s:
        parts.append(f"without {output.span(rested_s)} before it was continued")
    return f"{output.span(whole_s)}: {', '.join(parts)}"


def _iterations(job: Job) -> str:
    if job.kind == "rescore_answers":
        return ", ".join(map(str, job.request["iterations"]))
    return f"{job.progress.iteration} of at most {job.progress.iter_max}" if job.kind == "generate_answer" else ""


def _evaluator(job: Job) -> str:
    return " + ".join(job.evaluators) or "checks only"


def _show_iteration(iteration: Iteration, short: Mapping[str, str]) -> None:
    candidate = f", candidate {iteration.candidate}" if iteration.candidate > 1 else ""
    lines = [(iteration.answer, ""), *grounding_output.page_lines(iteration)]
    output.show_section(f"Iteration {iteration.number}{candidate}", lines)
    if iteration.evaluation is not None:
        _show_verdict(iteration.evaluation)
    for verdict in iteration.further_evaluations:
        _show_verdict(verdict, f"{verdict.role} by {verdict.evaluator_model or 'checks'}: ")
        # The user can pass this id to `jobs rate --evaluation`
        by = f" of job {short[verdict.job_id]}" if verdict.role == "rescore" else ""
        output.show(f"  evaluation {short[verdict.id]}{by}", "dim")


def _show_verdict(verdict: Evaluation, by: str = "") -> None:
    if verdict.score is None:
        words, style = unscored(verdict.model_dump())
        output.show(f"→ {by}{words}", style)
        return
    reused = " (reused from an equal answer)" if verdict.reused_from else ""
    output.show(f"→ {by}score {format_score(verdict.score)}{reused}", "green" if verdict.passed else "yellow")
    for text, style in (*grounding_output.claim_lines(verdict.grounding), *whole_lines(verdict.model_dump())):
        output.show(text, style)


def show_calls(calls: Sequence[Call]) -> None:
    output.show_list(
        calls,
        {
            "type": lambda call: call.type,
            "iteration": lambda call: f"{call.iteration}" + (f".{call.candidate}" if call.candidate > 1 else ""),
            "model": lambda call: call.model,
            "attempt": lambda call: str(call.attempt),
            "status": lambda call: output.sign_of("running" if call.status == "started" else call.status, call.status),
            "tokens in/out": lambda call: "/".join(
                NONE if n is None else f"{n:,}" for n in (call.input_tokens, call.output_tokens)
            ),
            "cost": lambda call: NONE if call.cost_usd is None else f"${call.cost_usd}",
            "latency": lambda call: NONE if call.latency_ms is None else f"{call.latency_ms:,} ms",
            "error": _call_error,
        },
        ("error", "attempt", "cost", "iteration", "latency", "model"),
    )


def _call_error(call: Call) -> str:
    return output.one_line(f"{call.error['code']}: {in_options(call.error['detail'])}", 200) if call.error else ""


_SIGN_OF = {"delivered": "succeeded", "failed": "failed", "pending": "queued"}


def _state_of(delivery: WebhookDelivery) -> str:
    return "failing" if delivery.failing else delivery.status


def _show(deliveries: Sequence[WebhookDelivery]) -> None:
    output.show_list(
        deliveries,
        {
            "type": lambda each: each.type,
            "status": lambda each: output.sign_of("failed" if each.failing else _SIGN_OF[each.status], _state_of(each)),
            "attempts": lambda each: str(each.attempts),
            "left": lambda each: str(each.attempts_left) if each.next_at else NONE,
            "next at (UTC)": lambda each: f"{each.next_at:%Y-%m-%d %H:%M:%S}" if each.next_at else NONE,
            "HTTP": lambda each: NONE if each.http_status is None else str(each.http_status),
            "error": lambda each: output.one_line(each.error or "", 200),
        },
        ("HTTP", "attempts", "left", "next at (UTC)"),
    )


def _say_who_sends(backend: "Backend", what: str) -> None:
    is_alive = backend.is_worker_alive()
    output.say(f"A worker sends {what} now." if is_alive else f"No worker is alive. The next worker sends {what}.")


def resend_failed(backend: "Backend", *, as_json: bool) -> None:
    """Send all failed deliveries of all jobs and runs again, and print their number."""
    number = backend.redeliver_all()
    if as_json:
        output.write_json({"redelivered": number})
    elif not number:
        output.say("No delivery has failed.")
    if number:
        _say_who_sends(backend, f"{number:,} deliver{'y' if number == 1 else 'ies'}")


def show_deliveries(backend: "Backend", noun: str, owner_id: str, redeliver: str | None, *, as_json: bool) -> None:
    """Print the deliveries of a job or run, or send one again and print it.

    Raises NotFound if no delivery has the id `redeliver`.
    """
    found = backend.list_deliveries(noun, owner_id)
    if redeliver:
        delivery_id = sessions.pick([each.id for each in found], redeliver, "webhook delivery")
        found = [backend.redeliver(noun, owner_id, delivery_id)]
        _say_who_sends(backend, "the delivery")
    if as_json:
        output.write_json({"data": found})
    elif found:
        _show(found)
    else:
        output.say("There are no deliveries: no webhook is set, or no event of the webhook has occurred.")
