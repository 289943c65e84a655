"""How a job's end is told: the answer alone on stdout, the rest on stderr, and the exit code."""

from typing import Any

from redraft.cli import exits, output
from redraft.cli.exits import Exit
from redraft.operations.resources import Job


def job_data(job: Job) -> dict[str, Any]:
    """The job resource as the API shows it."""
    data = job.model_dump(mode="json")
    if data["iterations"] is None:
        del data["iterations"]
    return data


def tell(job: Job, *, as_json: bool, seconds: float) -> None:
    """Print what came of a job."""
    output.say(_summary(job, seconds), "dim")
    if job.error:
        _tell_error(job.error)
    if as_json:
        output.write_json(job_data(job))
    elif job.result:
        _tell_answer(job.result["final_answer"])


def _summary(job: Job, seconds: float) -> str:
    parts = [job.id]
    if job.result and job.result["final_score"] is not None:
        parts.append(f"score {job.result['final_score']:.2f} of iteration {job.result['best_iteration']}")
    usage = job.usage
    parts.append("1 call" if usage.calls == 1 else f"{usage.calls} calls")
    parts.append(f"{usage.input_tokens + usage.output_tokens:,} tokens")
    if usage.cost_usd is not None:
        parts.append(f"${usage.cost_usd}")
    parts.append(output.span(seconds))
    return " · ".join(parts)


def _tell_error(error: dict[str, Any]) -> None:
    output.say(f"{error['title']}: {output.one_line(error['detail'], 2000)}", "red")
    if words := exits.advice(error["code"]):
        output.say(words)


def _tell_answer(answer: str) -> None:
    if output.stdout().is_terminal and (console := output.stderr()).is_terminal:
        console.rule(style="dim")
    output.write_data(answer)


def exit_of_job(job: Job, *, must_be_accepted: bool) -> Exit:
    """An answer is success, whatever its score, unless acceptance was asked for."""
    if job.status == "failed":
        return exits.exit_of_code((job.error or {}).get("code", "error"))
    if job.status == "canceled":
        return Exit.INTERRUPTED
    if must_be_accepted and job.stop_reason != "accepted":
        output.say(f"The answer was not accepted ({job.stop_reason}).", "yellow")
        return Exit.NOT_ACCEPTED
    return Exit.OK
