"""A job's answers as the loop compares them: by the threshold and the rules that are in force now."""

from collections.abc import Iterable
from dataclasses import replace

from redraft.domain.evaluation.aggregation import dimensions_at
from redraft.domain.evaluation.rubrics import requirements_met
from redraft.domain.jobs.loop import Attempt
from redraft.domain.jobs.requests import AnyRequest
from redraft.operations.results.grounding import meets_rule
from redraft.storage.jobs.history import IterationRecord


def attempts_of(request: AnyRequest, records: Iterable[IterationRecord]) -> list[Attempt]:
    """The attempts behind these records."""
    return [_attempt(request, record) for record in records]


def _attempt(request: AnyRequest, record: IterationRecord) -> Attempt:
    attempt = record.as_attempt()
    evaluation = attempt.evaluation
    if evaluation is None or request.rubric or not any(each.required for each in evaluation.criteria):
        return attempt
    # A continuation may have moved the threshold, which required dimensions have to reach
    criteria = dimensions_at(evaluation.criteria, request.score_threshold)
    is_qualified = requirements_met(criteria) and meets_rule(request, record.grounding, None)
    return replace(attempt, evaluation=replace(evaluation, criteria=criteria, is_qualified=is_qualified))
