"""The commands for people's ratings of evaluations: `jobs rate`, `jobs ratings` and `calibration`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from redraft.cli import options, output, sessions
from redraft.cli.backends import opening
from redraft.cli.output import NONE
from redraft.domain.bulk.phrases import format_score
from redraft.errors import Invalid

if TYPE_CHECKING:
    from redraft.cli.backends.opening import Backend
    from redraft.domain.statistics.estimates import Estimate
    from redraft.operations.evaluation.ratings import CalibrationGroup, Rating

_KINDS = {"loop": "", "audit": "the audit of ", "rescore": "the rescoring of "}

RATE_EPILOG = options.examples(
    "redraft jobs rate latest --agree",
    "redraft jobs rate 0199a3 --iteration 1 --disagree --score 0.4 --note 'It names no source.'",
    "redraft jobs rate latest --criterion names_scattering --unsure",
    "redraft jobs rate 0199a3 --evaluation 0199b4 --agree",
)
RATINGS_EPILOG = options.examples("redraft jobs ratings latest", "redraft jobs ratings 0199a3 --json")
CALIBRATION_EPILOG = options.examples(
    "redraft calibration --precision 0.95", "redraft calibration --evaluator-model openai:gpt-6-luna --json"
)


def rate(  # noqa: PLR0913 - one parameter per option
    *,
    job: options.JobRef,
    iteration: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Number of the iteration (default: the best iteration).")
    ] = None,
    candidate: Annotated[
        int | None, typer.Option(help="Number of the candidate (default: the candidate with the best score).")
    ] = None,
    criterion: Annotated[
        str | None, typer.Option(metavar="ID", help="Criterion that you rate (default: the whole evaluation).")
    ] = None,
    evaluation: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Id of an evaluation by an audit or a rescoring (default: the evaluation of the loop). `redraft jobs "
            "show` prints the ids.",
        ),
    ] = None,
    agree: Annotated[bool, typer.Option("--agree", help="The decision of the evaluator is right.")] = False,
    disagree: Annotated[bool, typer.Option("--disagree", help="The decision of the evaluator is wrong.")] = False,
    unsure: Annotated[
        bool, typer.Option("--unsure", help="You cannot decide. The rating is stored, but no statistic uses it.")
    ] = False,
    score: Annotated[float | None, typer.Option(help="Your own score for the answer, 0 to 1 (default: none).")] = None,
    note: Annotated[str, typer.Option(help="Your reason, as text.")] = "",
    as_json: options.AsJson = False,
) -> None:
    """Rate the evaluation of an answer. Your latest rating of an evaluation counts."""
    from redraft.domain.evaluation.ratings import RateEvaluation

    given = [name for name, is_set in (("agree", agree), ("disagree", disagree), ("unsure", unsure)) if is_set]
    if len(given) != 1:
        raise typer.BadParameter("Give exactly one of --agree, --disagree and --unsure.", param_hint="--agree")
    body = {
        "verdict": given[0],
        "candidate": candidate,
        "criterion": criterion,
        "score": score,
        "note": note,
    }
    checked = sessions.check(RateEvaluation, body)
    with opening.opened_for("job", job) as (backend, job_id):
        if evaluation is None:
            number = iteration or _best_iteration(backend, job_id)
        else:
            place, evaluation_id = _evaluation(backend, job_id, evaluation)
            number = iteration or place
            checked = checked.model_copy(update={"evaluation_id": evaluation_id})
        found = backend.rate(job_id, number, checked)
    if as_json:
        output.write_json(found)
    output.say(f"Rated {_place(found)} of {job_id}: {found.verdict}.")


def _best_iteration(backend: "Backend", job_id: str) -> int:
    best = backend.get_job(job_id).progress.best_iteration
    if best is None:
        raise Invalid(f"No answer of {job_id} has a score, so there is no evaluation to rate.", code="not_rateable")
    return best


def _evaluation(backend: "Backend", job_id: str, text: str) -> tuple[int, str]:
    """Return the iteration number and the id of the evaluation whose id begins with a text."""
    numbers = {
        verdict.id: iteration.number
        for iteration in backend.iterations(job_id)
        for verdict in (iteration.evaluation, *iteration.further_evaluations)
        if verdict is not None
    }
    found = sessions.pick(list(numbers), text, "evaluation")
    return numbers[found], found


def _place(rating: "Rating") -> str:
    candidate = f", candidate {rating.candidate}" if rating.candidate > 1 else ""
    criterion = f", criterion {rating.criterion}" if rating.criterion else ""
    return f"{_KINDS[rating.role]}iteration {rating.iteration}{candidate}{criterion}"


def list_ratings(*, job: options.JobRef = "latest", as_json: options.AsJson = False) -> None:
    """List the ratings of a job's evaluations, oldest first. The last rating of each rater counts."""
    with opening.opened_for("job", job) as (backend, job_id):
        found = backend.list_ratings(job_id)
    if as_json:
        output.write_json({"data": found})
    elif found:
        _show_ratings(found)
    else:
        output.say("This job has no ratings. To rate it: redraft jobs rate ID --agree")


def _show_ratings(found: "Sequence[Rating]") -> None:
    evaluations = output.short_ids(each.evaluation_id for each in found)
    output.show_list(
        found,
        {
            "evaluation": lambda each: f"{each.role} {evaluations[each.evaluation_id]}",
            "iteration": lambda each: f"{each.iteration}" + (f".{each.candidate}" if each.candidate > 1 else ""),
            "criterion": lambda each: output.one_line(each.criterion or NONE),
            "verdict": lambda each: each.verdict,
            "score": lambda each: NONE if each.score is None else format_score(each.score),
            "rater": lambda each: output.one_line(each.rater, 60),
            "age": lambda each: output.age(each.created_at),
            "note": lambda each: output.one_line(each.note, 200),
        },
        ("age", "rater", "evaluation", "iteration"),
    )


def calibration(
    *,
    precision: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Minimum precision of the proposed threshold, 0 to 1. Precision is the share of answers that people "
            "rated as passed, among the answers whose score reaches the threshold.",
        ),
    ] = 0.9,
    evaluator_model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Use only ratings of this evaluator, as provider:name.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Use only ratings of this evaluation profile.")
    ] = None,
    criterion: Annotated[str | None, typer.Option(metavar="ID", help="Use only ratings of this criterion.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure how well evaluators agree with people's ratings.

    For each evaluator, the command prints the agreement, Cohen's kappa, and a proposed score threshold.
    """
    from redraft.domain.calls.model_names import parse_model
    from redraft.operations.evaluation.ratings import RatingFilter

    full_name = evaluator_model and str(parse_model(evaluator_model))
    criteria = RatingFilter(evaluator_model=full_name, profile=profile, criterion=criterion)
    with opening.opened() as backend:
        found, left_out = backend.calibration(criteria, precision)
    if as_json:
        output.write_json({"data": found, "left_out": left_out})
    elif found:
        _show_calibration(found)
    elif criteria == RatingFilter():
        output.say("Nobody has rated an evaluation yet. Start with: redraft jobs rate latest --agree")
    else:
        output.say("No rating matches these filters. To use all: redraft calibration")
    if left_out and not as_json:
        output.say(
            f"{left_out} groups with fewer ratings are not shown. Use --profile, --criterion or --evaluator-model."
        )


def _show_calibration(found: "Sequence[CalibrationGroup]") -> None:
    output.show_table(
        found,
        {
            "evaluator": lambda each: output.one_line(each.evaluator_model or NONE),
            "profile": lambda each: each.profile + (f"@{each.profile_version}" if each.profile_version else ""),
            "criterion": lambda each: output.one_line(each.criterion or NONE),
            "ratings": lambda each: f"{each.n}" + (f" (+{each.unsure} unsure)" if each.unsure else ""),
            "agreement": lambda each: _figure(each.agreement),
            "kappa": lambda each: _figure(each.kappa),
            "sensitivity": lambda each: _figure(each.sensitivity),
            "specificity": lambda each: _figure(each.specificity),
            "bias": lambda each: f"{each.bias.value:+.2f}" if each.bias else NONE,
            "threshold": lambda each: f"{each.threshold.value:g}" if each.threshold else NONE,
            "in words": _in_words,
        },
        ("bias", "specificity", "sensitivity", "agreement", "threshold", "profile", "kappa"),
    )


def _figure(estimate: "Estimate | None") -> str:
    return NONE if estimate is None else f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"


def _in_words(group: "CalibrationGroup") -> str:
    if group.status != "calibrated":
        return f"not calibrated yet: {group.n} of {group.ratings_needed} ratings"
    found = group.threshold
    if found is None:
        return group.threshold_reason or ""
    low, high = found.precision.low, found.precision.high
    return (
        f"at {found.value:g} or above, people pass {found.precision.value:.0%} ({low:.0%} to {high:.0%}) of {found.n}"
    )
