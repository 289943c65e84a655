"""The page `/`, with figures, charts of the last hours or days, running and last jobs, runs, workers and health."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request, Response
from markupsafe import Markup

from api.dependencies import ContextOf
from api.pages.jobs.job_filters import outcome_words
from api.pages.parts.filters import count, percent, usd
from api.pages.parts.rendering import page, pages_router
from api.pages.parts.trend_charts import Column, draw_bars, draw_shares
from redraft.domain.jobs.states import Outcome
from redraft.operations.admin import overview
from redraft.operations.admin.overview import EndedJobs, Period

router = pages_router()

# The outcomes of ended jobs with their words, in the order of the bars
_OUTCOMES = {
    each.value: outcome_words(each)
    for each in (Outcome.ACCEPTED, Outcome.NOT_ACCEPTED, Outcome.NOT_EVALUATED, Outcome.FAILED, Outcome.CANCELED)
}
_NAMES: Mapping[Period, str] = {"hour": "%H:00", "day": "%m-%d"}


@router.get("/")
def show_overview(request: Request, context: ContextOf, by: Period = "hour") -> Response:
    view = overview.view_overview(context.services, by)
    shown: dict[str, Any] = {"by": by, "name_form": _NAMES[by], "charts": (), "outcomes": _OUTCOMES}
    if view.activity:
        shown["charts"] = _charts(view.activity.figures.history, _NAMES[by])
    return page(
        request, "overview/overview.html", view=view, is_auth_required=context.settings.is_auth_required, **shown
    )


def _charts(history: Sequence[EndedJobs], name_form: str) -> list[tuple[str, Markup]]:
    """Draw throughput, acceptance, cost and errors. There is no chart if no job has ended."""
    if not any(each.ended for each in history):
        return []
    named = [(each.begin.strftime(name_form), each) for each in history]
    ended = [Column(name, _outcomes(each), _parts(each)) for name, each in named]
    shares = [Column(name, _acceptance(each), _share(each)) for name, each in named]
    costs = [Column(name, *_cost(each)) for name, each in named]
    failed = [Column(name, f"{count(each.failed)} failed", {"failed": each.failed}) for name, each in named]
    return [
        ("Ended jobs", draw_bars("ended", "Ended jobs by outcome", ended, _say_count, is_whole=True)),
        ("Accepted, of all answers", draw_shares("acceptance", "Accepted share of answers", shares, "accepted")),
        ("Cost in USD", draw_bars("cost", "Cost of the ended jobs", costs, lambda tick: f"${tick:.4g}")),
        ("Failed jobs", draw_bars("failed", "Failed jobs", failed, _say_count, is_whole=True)),
    ]


def _say_count(tick: float) -> str:
    return count(int(tick))


def _parts(each: EndedJobs) -> dict[str, float]:
    return {name: getattr(each, name) for name in _OUTCOMES}


def _outcomes(each: EndedJobs) -> str:
    words = (f"{count(int(number))} {_OUTCOMES[name]}" for name, number in _parts(each).items() if number)
    return ", ".join(words) or "none ended"


def _acceptance(each: EndedJobs) -> str:
    if not each.succeeded:
        return "no answer"
    return f"{percent(each.accepted, each.succeeded)}, {count(each.accepted)} of {count(each.succeeded)}"


def _share(each: EndedJobs) -> dict[str, float]:
    return {"accepted": each.accepted / each.succeeded} if each.succeeded else {}


def _cost(each: EndedJobs) -> tuple[str, dict[str, float], str]:
    if each.cost_usd is None:
        return "a price is unknown", {}, "?"
    return usd(each.cost_usd), {"cost": float(each.cost_usd)}, ""
