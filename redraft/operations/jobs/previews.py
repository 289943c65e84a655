"""A request before it is sent: what it would become, and what it can take at most."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from redraft.domain.jobs.requests import GenerateAnswer, dump
from redraft.operations.bulk.dataset_checks import cost_max
from redraft.operations.jobs import submit
from redraft.operations.jobs.submit import CallsMax
from redraft.operations.services import Services


@dataclass(frozen=True, slots=True)
class Preview:
    """What a request would take.

    Attributes:
        request: normalised.
        calls: the most that it can take, retries after failures aside.
        cost_usd_max: a call without an output limit counted with the usual one; None when a price is unknown.
        unpriced: the models of which no price is known.
        budget_usd: what the request itself allows.
    """

    request: dict[str, Any]
    warnings: list[dict[str, str]]
    calls: CallsMax
    cost_usd_max: Decimal | None
    unpriced: tuple[str, ...]
    budget_usd: float | None


def preview(services: Services, request: GenerateAnswer) -> Preview:
    """Check a request and reckon up its worst case; nothing is stored.

    Raises:
        Invalid: what `submit.normalise` refuses.
    """
    normal = submit.normalise(services, request)
    cost = cost_max(services, request)
    return Preview(
        dump(normal),
        submit.warnings_of(services, normal),
        submit.reckon_calls(services, normal),
        cost.usd,
        cost.unpriced_models,
        request.limits.max_cost_usd,
    )
