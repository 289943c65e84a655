"""Computes the figures of the arms: shares with intervals, paired differences, and the price per answer gained."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.evidence.arms import Arm
from redraft.domain.statistics.bootstrap import mean_difference, mean_of
from redraft.domain.statistics.estimates import Mean


@dataclass(frozen=True, slots=True)
class Job:
    """The result of one job. `is_right`: the answer passes all checks of its task; `passed`: the share of these."""

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


_COLUMNS = ("calls a job", "tokens a job", "calls (tokens) per answer gained")


def table(jobs: Sequence[Job], arms: Sequence[Arm], baseline: str) -> str:
    """Return the arms as a Markdown table. Differences are paired by task and repeat, with intervals over tasks."""
    columns = ("arm", "right", f"minus `{baseline}`", "minus `first`", *_COLUMNS)
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    by_arm = {arm.name: [job for job in jobs if job.arm == arm.name] for arm in arms}
    for arm in arms:
        if own := by_arm[arm.name]:
            cells = [_right(own), *(_difference(by_arm[other], own) for other in (baseline, "first"))]
            calls, tokens = sum(job.calls for job in own) / len(own), sum(job.tokens for job in own) / len(own)
            cells += [f"{calls:.2f}", f"{tokens:,.0f}", _price(by_arm["first"], own)]
            lines.append(f"| `{arm.name}`: {arm.words} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_endings(by_arm)])


def _right(own: Sequence[Job]) -> str:
    return _percent(mean_of([float(job.is_right) for job in own], clusters=[job.task for job in own]))


def _pairs(before: Sequence[Job], after: Sequence[Job]) -> list[tuple[Job, Job]]:
    known = {(job.task, job.repeat): job for job in before}
    return [(known[job.task, job.repeat], job) for job in after if (job.task, job.repeat) in known]


def _difference(before: Sequence[Job], after: Sequence[Job]) -> str:
    if before is after:
        return "-"
    pairs = _pairs(before, after)
    values = [(float(old.is_right), float(new.is_right)) for old, new in pairs]
    return _percent(mean_difference(values, clusters=[new.task for _, new in pairs]))


def _price(first: Sequence[Job], own: Sequence[Job]) -> str:
    """Return the calls and tokens that an arm adds to those of `first`, per right answer that it adds."""
    pairs = _pairs(first, own)
    gained = sum(new.is_right - old.is_right for old, new in pairs)
    calls, tokens = sum(new.calls - old.calls for old, new in pairs), sum(new.tokens - old.tokens for old, new in pairs)
    return f"{calls / gained:.1f} ({tokens / gained:,.0f})" if gained > 0 else "-"


def _percent(mean: Mean | None) -> str:
    if mean is None:
        return "-"
    if mean.low is None or mean.high is None:
        return f"{mean.value:.1%}"
    return f"{mean.value:.1%} ({mean.low:.1%} to {mean.high:.1%})"


def _endings(by_arm: dict[str, list[Job]]) -> list[str]:
    families = sorted({job.family for own in by_arm.values() for job in own})
    lines = [f"| arm | {' | '.join(families)} | mended | ended |", "|---|" + "---|" * (len(families) + 2)]
    for name, own in by_arm.items():
        if own:
            shares = [_share([job for job in own if job.family == family]) for family in families]
            ended = ", ".join(f"{reason} {count}" for reason, count in Counter(job.ended for job in own).most_common())
            lines.append(f"| `{name}` | {' | '.join(shares)} | {_mended(own)} | {ended} |")
    return lines


def _mended(own: Sequence[Job]) -> str:
    """Return how many of the jobs with several iterations ended with a right answer."""
    later = [job for job in own if job.iterations > 1]
    return f"{sum(job.is_right for job in later)} of {len(later)}" if later else "-"


def _share(own: Sequence[Job]) -> str:
    return f"{sum(job.is_right for job in own) / len(own):.0%}" if own else "-"
