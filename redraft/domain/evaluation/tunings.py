"""Choose few-shot examples and thresholds for an evaluator from people's ratings, and measure their effect.

A tuning has either examples or a threshold. Cross-validation measures its effect: the answers of each fold are
evaluated with the examples or the threshold that were chosen from the other folds.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from redraft.domain.bodies.fields import FilledText, StrictModel, Text
from redraft.domain.evaluation.calibration import suggest_threshold
from redraft.domain.evaluation.scores import meets
from redraft.domain.statistics.estimates import Estimate, Mean, paired_share_difference, share

EXAMPLES_MAX = 8
FOLDS = 5
# Longer examples would make each evaluation expensive
EXAMPLE_CHARS = 4000
# Fewer rated answers are too few for cross-validation
RATED_NEEDED = 10


class EvaluatorExample(StrictModel):
    """An answer with the verdict of people, which the prompt of an evaluator shows."""

    task: FilledText
    criteria: Text = ""
    answer: Text
    passes: bool = Field(description="Whether the answer passes, as people say.")
    reason: Text = ""


ExampleList = Annotated[list[EvaluatorExample], Field(min_length=1, max_length=EXAMPLES_MAX)]


@dataclass(frozen=True, slots=True)
class RatedAnswer:
    """An answer that people have rated, with the request of its evaluation.

    Attributes:
        passes: whether people pass the answer.
        evaluator_passes: the decision of the evaluator.
        request: the request of the job that evaluated the answer.
    """

    evaluation_id: str
    answer: str
    passes: bool
    evaluator_passes: bool
    score: float
    note: str
    request: Mapping[str, Any]

    @property
    def task(self) -> str:
        return self.request["instruct"]

    @property
    def criteria(self) -> str:
        rubric: Sequence[Mapping[str, Any]] = self.request.get("rubric") or ()
        lines = [f"- {each['text']}" for each in rubric if each.get("text")]
        return "\n".join([*([self.request["eval_crit"]] if self.request.get("eval_crit") else []), *lines])

    @property
    def is_disputed(self) -> bool:
        return self.passes != self.evaluator_passes

    @property
    def example(self) -> EvaluatorExample:
        return EvaluatorExample(
            task=self.task, criteria=self.criteria, answer=self.answer, passes=self.passes, reason=self.note
        )


def merge_raters(ratings: Iterable[RatedAnswer]) -> list[RatedAnswer]:
    """Return one answer per evaluation, by the majority of its raters. An evaluation with a tie is left out."""
    by_id: defaultdict[str, list[RatedAnswer]] = defaultdict(list)
    for answer in ratings:
        by_id[answer.evaluation_id].append(answer)
    found: list[RatedAnswer] = []
    for group in by_id.values():
        counts = Counter(each.passes for each in group)
        if counts[True] != counts[False]:
            label = counts[True] > counts[False]
            # Examples show the note, and the longest note explains most
            found.append(max((each for each in group if each.passes == label), key=lambda each: len(each.note)))
    return found


def choose_examples(rated: Sequence[RatedAnswer], count: int) -> list[RatedAnswer]:
    """Choose examples: the same number of passed and failed answers.

    Answers on which people and the evaluator disagree come first, then answers with a note, then short ones. If there
    are too few disagreements among the passed or the failed answers, answers with agreement are added. Without any
    disagreement the result is empty, because the evaluator has nothing to learn.
    """
    if not any(each.is_disputed for each in rated):
        return []
    usable = [each for each in rated if len(each.task) + len(each.criteria) + len(each.answer) <= EXAMPLE_CHARS]
    ordered = sorted(usable, key=_priority)
    kinds = {label: _different([each for each in ordered if each.passes == label]) for label in (True, False)}
    chosen = [pair for pairs in zip(*(each[: count // 2] for each in kinds.values()), strict=False) for pair in pairs]
    rest = [each for each in ordered if each not in chosen and each.is_disputed]
    return [*chosen, *_different(rest)][:count]


def _priority(rated: RatedAnswer) -> tuple[bool, bool, int, str]:
    return not rated.is_disputed, not rated.note, len(rated.task) + len(rated.answer), rated.evaluation_id


def _different(rated: Sequence[RatedAnswer]) -> list[RatedAnswer]:
    """Leave out answers that are the same as an earlier answer to the same task."""
    return list({(each.task, each.answer): each for each in reversed(rated)}.values())[::-1]


def folds_of(rated: Sequence[RatedAnswer]) -> list[list[RatedAnswer]]:
    """Divide the answers into folds. All answers to a task are in one fold, so that examples have other tasks."""
    by_task: defaultdict[str, list[RatedAnswer]] = defaultdict(list)
    for each in sorted(rated, key=lambda one: one.evaluation_id):
        by_task[each.task].append(each)
    folds: list[list[RatedAnswer]] = [[] for _ in range(min(FOLDS, len(by_task)))]
    for group in sorted(by_task.values(), key=len, reverse=True):
        min(folds, key=len).extend(group)
    return folds


def outside_of(folds: Sequence[Sequence[RatedAnswer]], number: int) -> list[RatedAnswer]:
    return [each for at, fold in enumerate(folds) if at != number for each in fold]


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of an evaluator with people on the same answers, without and with a tuning.

    Attributes:
        difference: the paired difference of the agreement.
        missing: the number of answers without both verdicts.
    """

    n: int
    before: Estimate | None
    after: Estimate | None
    difference: Mean | None
    missing: int = 0

    @property
    def words(self) -> str:
        before, after, change = self.before, self.after, self.difference
        if before is None or after is None or change is None or change.low is None or change.high is None:
            return "No answer has both verdicts, so the agreement with people is unknown."
        left_out = f"; {self.missing} answers have no verdict" if self.missing else ""
        return (
            f"Agreement with people on {self.n} answers: {_span(before)} before, {_span(after)} after; change"
            f" {100 * change.value:+.0f} points ({100 * change.low:+.0f} to {100 * change.high:+.0f}){left_out}."
        )


def _span(rate: Estimate) -> str:
    return f"{rate.value:.0%} ({rate.low:.0%} to {rate.high:.0%})"


def agreement_of(triples: Sequence[tuple[bool, bool | None, bool | None]]) -> Agreement:
    """Compute the agreement. A triple has the verdicts of people, of the evaluator, and of the tuned evaluator."""
    known = [(before == people, after == people) for people, before, after in triples if None not in (before, after)]
    return Agreement(
        len(known),
        share(sum(before for before, _ in known), len(known)),
        share(sum(after for _, after in known), len(known)),
        paired_share_difference([int(after) - int(before) for before, after in known]),
        len(triples) - len(known),
    )


@dataclass(frozen=True, slots=True)
class TunedThreshold:
    """A threshold with its cross-validated agreement. `value` is None if the ratings suggest no threshold."""

    value: float | None
    reason: str | None
    agreement: Agreement | None = field(default=None)


def tune_threshold(rated: Sequence[RatedAnswer], precision: float) -> TunedThreshold:
    """Suggest a threshold. This calls no model, because the scores of the rated answers are known."""
    found, reason = _suggested(rated, precision)
    if found is None:
        return TunedThreshold(None, reason)
    folds, triples = folds_of(rated), list[tuple[bool, bool | None, bool | None]]()
    for number, fold in enumerate(folds):
        value, _ = _suggested(outside_of(folds, number), precision)
        triples += [
            (each.passes, each.evaluator_passes, None if value is None else meets(each.score, value)) for each in fold
        ]
    return TunedThreshold(found, None, agreement_of(triples))


def _suggested(rated: Collection[RatedAnswer], precision: float) -> tuple[float | None, str | None]:
    found, reason = suggest_threshold(Counter((each.score, each.passes) for each in rated), precision)
    return (found.value if found else None), reason
