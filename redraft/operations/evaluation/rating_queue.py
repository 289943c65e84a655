"""Orders the latest evaluations for a rater: the evaluations with the most doubtful verdicts come first."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import Connection

from redraft.domain.evaluation.ratings import ReviewPriority, review_priority_of
from redraft.errors import NotFound, existing
from redraft.operations.jobs import queries
from redraft.operations.jobs.iterations import Evaluation, Iteration
from redraft.operations.jobs.resources import Job, job_resource
from redraft.operations.services import Services
from redraft.storage.admin import ratings as stored
from redraft.storage.admin.ratings import LOOKBACK, ReviewCandidate
from redraft.storage.jobs.job_filters import JobFilter

SHOWN = 12

Opinion = Literal["passes", "fails", "unsure"]


@dataclass(frozen=True, slots=True)
class QueueLine(ReviewCandidate):
    """One evaluation in the queue, with its task and the reason for its priority."""

    task: str
    why: str


@dataclass(frozen=True, slots=True)
class QueueItem:
    """The evaluation to rate, with its job and its iteration."""

    job: Job
    iteration: Iteration
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """Narrows the queue to jobs of a run or with a label, and to disputed verdicts. Leaves out skipped evaluations."""

    run_id: str | None = None
    label: tuple[str, str] | None = None
    is_disputed: bool = False
    skipped: Collection[str] = ()

    @property
    def jobs(self) -> JobFilter | None:
        metadata = dict([self.label]) if self.label else None
        return JobFilter(run_id=self.run_id, metadata=metadata) if self.run_id or metadata else None


@dataclass(frozen=True, slots=True)
class RatingQueue:
    """The first lines of the queue.

    Attributes:
        waiting: the number of evaluations that the person has not rated.
        rated: the number of the considered evaluations that the person has rated.
        considered: the number of the latest evaluations from which the queue is built.
        last: the evaluation that the person rated last, with the `verdict` and the `own_score` of this person.
    """

    lines: list[QueueLine]
    waiting: int
    rated: int
    considered: int
    item: QueueItem | None
    last: Mapping[str, Any] | None


def view_queue(
    services: Services,
    rater: str,
    narrow: QueueFilter = QueueFilter(),
    *,
    chosen: str | None = None,
    last: str | None = None,
) -> RatingQueue:
    """View the evaluations that a person has not rated. The evaluation to rate is `chosen`, or else the first one.

    `last` is the id of the evaluation that the person has just rated. Raises NotFound if an evaluation does not exist.
    """
    with services.database.read() as connection:
        latest = stored.latest_evaluations(connection, narrow.jobs)
        rated = stored.rated_ids(connection, [each.evaluation_id for each in latest], rater)
        waiting = _ordered(latest, {*rated, *narrow.skipped}, is_disputed=narrow.is_disputed)
        first = waiting[:SHOWN]
        tasks = stored.tasks_of(connection, [each.job_id for each, _ in first])
        wanted = chosen or (first[0][0].evaluation_id if first else None)
        item = _item(connection, wanted) if wanted else None
        last_rating = stored.latest_rating(connection, last, rater) if last else None
    lines = [QueueLine(**asdict(each), task=tasks.get(each.job_id, ""), why=why) for each, why in first]
    return RatingQueue(lines, len(waiting), len(rated), LOOKBACK, item, last_rating)


def _ordered(
    latest: Sequence[ReviewCandidate], left_out: Collection[str], *, is_disputed: bool
) -> list[tuple[ReviewCandidate, str]]:
    """The evaluations that are not left out, the most doubtful first. Each has the reason for its place."""
    verdicts: defaultdict[str, set[bool]] = defaultdict(set)
    for each in latest:
        verdicts[each.iteration_id].add(each.passed)

    def priority(each: ReviewCandidate) -> ReviewPriority:
        is_contradicted = len(verdicts[each.iteration_id]) > 1
        return review_priority_of(
            each.score, each.threshold, disagreement=each.disagreement, is_contradicted=is_contradicted
        )

    found = [(each, priority(each)) for each in latest if each.evaluation_id not in left_out]
    if is_disputed:
        found = [(each, reason) for each, reason in found if reason.is_dispute]
    return [(each, reason.words) for each, reason in sorted(found, key=lambda pair: -pair[1].weight)]


def _item(connection: Connection, evaluation_id: str) -> QueueItem:
    place = existing(stored.rated_answer(connection, evaluation_id), "evaluation", evaluation_id)
    record = queries.record_of(connection, place["job_id"])
    for iteration in queries.iterations_of(connection, record, place["number"]):
        for evaluation in (iteration.evaluation, *iteration.further_evaluations):
            if evaluation is not None and evaluation.id == evaluation_id:
                return QueueItem(job_resource(record), iteration, evaluation)
    raise NotFound("evaluation", evaluation_id)


def verdict_on(services: Services, evaluation_id: str, opinion: Opinion) -> Literal["agree", "disagree", "unsure"]:
    """Compare a verdict with the opinion of a rater who has not seen this verdict.

    Raises NotFound if there is no such evaluation.
    """
    if opinion == "unsure":
        return "unsure"
    with services.database.read() as connection:
        place = existing(stored.rated_answer(connection, evaluation_id), "evaluation", evaluation_id)
    return "agree" if (opinion == "passes") == place["passed"] else "disagree"
