"""The figures of the arms: shares with intervals, paired differences, and the price of a further right answer."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.evidence.arms import Arm
from redraft.domain.statistics.bootstrap import mean_difference, mean_of
from redraft.domain.statistics.estimates import Mean


@dataclass(frozen=True, slots=True)
class Job:
    """What one job of an arm did. `is_right`: its answer passes all checks of the task; `passed`: the share of them."""

    arm: str
    task: str
    family: str
    repeat: int
    is_right: bool
    passed: float
    calls: int
    tokens: int
    cost_usd: str | None
    ended: str
    iterations: int
    answer: str | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def table(jobs: Sequence[Job], arms: Sequence[Arm], baseline: str) -> str:
    """Return the arms as a Markdown table. Differences are paired by task and repeat, with intervals over tasks."""
    lines = [
        f"| arm | right | minus `{baseline}` | minus `first` | calls a job | calls per answer gained |",
        "|---|---|---|---|---|---|",
    ]
    by_arm = {arm.name: [job for job in jobs if job.arm == arm.name] for arm in arms}
    for arm in arms:
        own = by_arm[arm.name]
        if own:
            right = mean_of([float(job.is_right) for job in own], clusters=[job.task for job in own])
            calls = sum(job.calls for job in own) / len(own)
            against = [_difference(by_arm[other], own) for other in (baseline, "first")]
            price = _price(by_arm["first"], own)
            lines.append(
                f"| `{arm.name}`: {arm.words} | {_percent(right)} | {' | '.join(map(_percent, against))} | {calls:.2f} "
                f"| {price} |"
            )
    return "\n".join([*lines, "", *_endings(by_arm)])


def _difference(before: Sequence[Job], after: Sequence[Job]) -> Mean | None:
    known = {(job.task, job.repeat): job for job in before}
    pairs = [(known[job.task, job.repeat], job) for job in after if (job.task, job.repeat) in known]
    if before and before[0].arm == after[0].arm:
        return None
    values = [(float(first.is_right), float(second.is_right)) for first, second in pairs]
    return mean_difference(values, clusters=[second.task for _, second in pairs])


def _price(first: Sequence[Job], own: Sequence[Job]) -> str:
    """Return the calls that the arm spends beyond the first answers, divided by the right answers that it adds."""
    gained = sum(job.is_right for job in own) - sum(job.is_right for job in first)
    spent = sum(job.calls for job in own) - sum(job.calls for job in first)
    return f"{spent / gained:.1f}" if gained > 0 else "-"


def _percent(mean: Mean | None) -> str:
    if mean is None:
        return "-"
    if mean.low is None or mean.high is None:
        return f"{mean.value:.1%}"
    return f"{mean.value:.1%} ({mean.low:.1%} to {mean.high:.1%})"


def _endings(by_arm: dict[str, list[Job]]) -> list[str]:
    families = sorted({job.family for own in by_arm.values() for job in own})
    lines = [f"| arm | {' | '.join(families)} | ended |", "|---|" + "---|" * (len(families) + 1)]
    for name, own in by_arm.items():
        if own:
            shares = [_share([job for job in own if job.family == family]) for family in families]
            ended = ", ".join(f"{reason} {count}" for reason, count in Counter(job.ended for job in own).most_common())
            lines.append(f"| `{name}` | {' | '.join(shares)} | {ended} |")
    return lines


def _share(own: Sequence[Job]) -> str:
    return f"{sum(job.is_right for job in own) / len(own):.0%}" if own else "-"
