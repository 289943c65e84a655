"""Jobs, their iterations and their calls, as tables and pages on stdout."""

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from redraft.cli import output
from redraft.cli.views import grounding_output
from redraft.cli.views.verdicts import whole_lines
from redraft.domain.bulk.phrases import say_score
from redraft.domain.jobs.job_errors import OUTPUT_LIMIT
from redraft.domain.jobs.states import JobKind, say_stop_reason
from redraft.operations.jobs.iterations import Evaluation, Iteration
from redraft.operations.jobs.resources import Call, Event, Job
from redraft.operations.jobs.views import CallsView

NONE = "-"


def show_jobs(jobs: Sequence[Job]) -> None:
    """One line per job."""
    ids = output.short_ids([job.id for job in jobs])
    rows = [
        (
            short,
            job.kind.partition("_")[0],
            status(job),
            _score(job),
            f"{job.progress.iteration}/{job.progress.iter_max}",
            _generator(job),
            output.age(job.created_at),
            output.one_line(job.request["instruct"], 200),
        )
        for short, job in zip(ids, jobs, strict=True)
    ]
    output.show_table(
        ("id", "kind", "status", "score", "iterations", "model", "age", "task"),
        rows,
        ("model", "iterations", "age", "kind"),
    )


def status(job: Job) -> Text:
    """The state as a sign and words; why it stopped where that says more."""
    is_missed = job.status == "succeeded" and not (job.result and job.result["success"])
    why = f" ({_stopped_by(job)})" if is_missed else ""
    return output.sign_of("not accepted" if is_missed else job.status, f"{job.status}{why}")


def _stopped_by(job: Job) -> str:
    """Why it ended."""
    return say_stop_reason(job.stop_reason or "", only_evaluates=job.kind != JobKind.GENERATE_ANSWER)


def _score(job: Job) -> str:
    best = job.progress.best_score
    return f"{NONE if best is None else say_score(best)}/{say_score(job.progress.score_threshold)}"


def _generator(job: Job) -> str:
    model = job.request.get("model") or job.request["evaluator_model"]
    return str(model) if isinstance(model, str) else " → ".join(model)


def show_job(job: Job, iterations: Sequence[Iteration], took: str = "", continued: Sequence[Event] = ()) -> None:
    """Everything about one job that a person reads.

    Args:
        job: the job.
        iterations: its iterations.
        took: how long, in words.
        continued: the events of its continuations.
    """
    guidance = [("guidance", event.data["guidance"]) for event in continued if event.data.get("guidance")]
    output.show_facts([*_facts(job, took), *guidance], 11)
    _section("Task", job.request["instruct"])
    if job.request["resp_format"]:
        _section("Form", job.request["resp_format"])
    if job.request["eval_crit"]:
        _section("Criteria", job.request["eval_crit"])
    names = _Names(iterations)
    for iteration in iterations:
        _show_iteration(iteration, names)
    if job.error:
        _section("Error", f"{job.error['title']}: {job.error['detail']}", "red")
    if job.result:
        _section("Answer", job.result["final_answer"], "green")
        _show_cited(job)


def _show_cited(job: Job) -> None:
    lines = list(grounding_output.cited_lines(job))
    if lines:
        output.show("")
        output.show("Sources of the answer", "bold")
    for text, style in lines:
        output.show(text, style)


def _facts(job: Job, took: str) -> list[tuple[str, Text | str]]:
    usage = job.usage
    cost = "unknown cost" if usage.cost_usd is None else f"${usage.cost_usd}"
    tokens = f"{usage.input_tokens:,} + {usage.output_tokens:,} tokens"
    evaluation: dict[str, Any] = job.request.get("evaluation", {})
    facts: list[tuple[str, Text | str]] = [
        ("job", job.id),
        ("answers of", str(job.request["job_id"]) if job.kind == "rescore_answers" else ""),
        ("status", status(job)),
        ("stopped by", _stopped_by(job)),
        ("score", f"{_score(job)} (iteration {job.progress.best_iteration or NONE})"),
        ("grounding", grounding_output.result_text(job)),
        ("iterations", _iterations(job)),
        ("generator", _generator(job) if job.kind == "generate_answer" else ""),
        ("evaluator", _evaluator(job)),
        ("audit", evaluation.get("audit") or ""),
        ("created", f"{job.created_at:%Y-%m-%d %H:%M:%S} UTC, {output.age(job.created_at)} ago"),
        ("took", took),
        ("usage", f"{usage.calls} {'call' if usage.calls == 1 else 'calls'}, {tokens}, {cost}"),
        ("labels", ", ".join(f"{key}={value}" for key, value in job.metadata.items())),
    ]
    facts += [("note", warning.message) for warning in job.warnings]
    return [(name, value) for name, value in facts if value]


def took(view: CallsView) -> str:
    """How long a job took that has ended: in model calls, and waiting; empty while it goes on."""
    job = view.job
    if job.finished_at is None:
        return ""
    rested_s = view.facts.rested_ms / 1000
    whole_s = (job.finished_at - job.created_at).total_seconds() - rested_s
    parts = [f"{output.span(min(view.called_s, whole_s))} in model calls"]
    parts.append(f"{output.span(max(0.0, whole_s - view.called_s))} waiting for a worker, a retry or a limit")
    if rested_s:
        parts.append(f"without {output.span(rested_s)} before it was continued")
    return f"{output.span(whole_s)}: {', '.join(parts)}"


def _iterations(job: Job) -> str:
    if job.kind == "rescore_answers":
        return ", ".join(map(str, job.request["iterations"]))
    return f"{job.progress.iteration} of at most {job.progress.iter_max}" if job.kind == "generate_answer" else ""


def _evaluator(job: Job) -> str:
    rubric: list[dict[str, Any]] = job.request.get("rubric") or []
    if rubric and all(each["kind"] == "check" for each in rubric):
        return "checks only"
    panel: list[str] = job.request.get("evaluation", {}).get("panel") or []
    return " + ".join(panel) or job.request["evaluator_model"] or ""


def _section(title: str, text: str, style: str = "bold") -> None:
    output.show("")
    output.show(title, style)
    output.show(text)


class _Names:
    """What ids are called on one page: as short as tells them apart."""

    def __init__(self, iterations: Sequence[Iteration]) -> None:
        found = [verdict for iteration in iterations for verdict in iteration.further_evaluations]
        ids = [verdict.id for verdict in found]
        job_ids = list(dict.fromkeys(verdict.job_id for verdict in found))
        self._short = dict(zip([*ids, *job_ids], [*output.short_ids(ids), *output.short_ids(job_ids)], strict=True))

    def origin(self, verdict: Evaluation) -> str:
        """What to call a further evaluation when it is rated, and which job made it, if another one."""
        by = f" of job {self._short[verdict.job_id]}" if verdict.role == "rescore" else ""
        return f"evaluation {self._short[verdict.id]}{by}"


def _show_iteration(iteration: Iteration, names: _Names) -> None:
    candidate = f", candidate {iteration.candidate}" if iteration.candidate > 1 else ""
    _section(f"Iteration {iteration.number}{candidate}", iteration.answer)
    for text, style in grounding_output.page_lines(iteration):
        output.show(text, style)
    if iteration.evaluation is not None:
        _show_verdict(iteration.evaluation)
    for verdict in iteration.further_evaluations:
        _show_verdict(verdict, f"{verdict.role} by {verdict.evaluator_model or 'checks'}: ")
        output.show(f"  {names.origin(verdict)}", "dim")


def _show_verdict(verdict: Evaluation, by: str = "") -> None:
    if verdict.status == "skipped":
        output.show(f"→ {by}not evaluated: {output.one_line(verdict.evaluation_reasoning)}", "dim")
        return
    if verdict.score is None:
        error = verdict.error or {}
        words = "not evaluated" if OUTPUT_LIMIT in error else "could not be evaluated"
        output.show(f"→ {by}{words}: {error.get('detail', '')}", "red")
        return
    reused = " (as an equal answer before)" if verdict.reused_from else ""
    output.show(f"→ {by}score {say_score(verdict.score)}{reused}", "green" if verdict.passed else "yellow")
    for text, style in (*grounding_output.claim_lines(verdict.grounding), *whole_lines(verdict.model_dump())):
        output.show(text, style)


def show_calls(calls: Sequence[Call]) -> None:
    """The ledger, one line per call."""
    ids = output.short_ids([call.id for call in calls])
    rows = [
        (
            short,
            call.type,
            f"{call.iteration}" + (f".{call.candidate}" if call.candidate > 1 else ""),
            call.model,
            str(call.attempt),
            _call_status(call),
            "/".join(NONE if n is None else f"{n:,}" for n in (call.input_tokens, call.output_tokens)),
            NONE if call.cost_usd is None else f"${call.cost_usd}",
            NONE if call.latency_ms is None else f"{call.latency_ms:,} ms",
            output.one_line(f"{call.error['code']}: {call.error['detail']}", 200) if call.error else "",
        )
        for short, call in zip(ids, calls, strict=True)
    ]
    headers = ("id", "type", "iteration", "model", "attempt", "status", "tokens in/out", "cost", "latency", "error")
    output.show_table(headers, rows, ("error", "attempt", "cost", "iteration", "latency", "model"))


def _call_status(call: Call) -> Text:
    return output.sign_of(call.status if call.status in {"succeeded", "failed"} else "running", call.status)
