"""Previews of a request: the normalised request, its maximum of calls, and its maximum cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic_core import to_json

from redraft.datasets.items import ItemRequest
from redraft.datasets.reports import Cost
from redraft.domain.calls.models import parse_model
from redraft.domain.evaluation.aggregation import groups_of
from redraft.domain.jobs.requests import AnyRequest, GenerateAnswer, dump, ladder
from redraft.errors import Invalid
from redraft.operations.calls.budgets import BYTES_PER_TOKEN, OUTPUT_BOUND
from redraft.operations.jobs import submit
from redraft.operations.jobs.submit import CallsMax
from redraft.operations.request_views import evaluators_of, schema_of
from redraft.operations.services import Services
from redraft.providers.shared.protocol import Usage

_NANO = Decimal(10) ** 9
_WORDS_OF_OURS = 4000
"""The tokens of the prompt templates and of the reply schema."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The calls and the cost of a request before it is sent.

    Attributes:
        request: the normalised request.
        calls: the maximum of calls, without retries after failures.
        cost_usd_max: the maximum cost, with the default limit for calls without an output limit; None if a price is
            unknown.
        unpriced: the models whose price is unknown.
        budget_usd: the budget in the request.
    """

    request: dict[str, Any]
    warnings: list[dict[str, str]]
    calls: CallsMax
    cost_usd_max: Decimal | None
    unpriced: tuple[str, ...]
    budget_usd: float | None


def preview(services: Services, request: GenerateAnswer) -> Preview:
    """Check a request and estimate its worst case; nothing is stored.

    Raises Invalid if `submit.normalise` refuses the request.
    """
    normal = submit.normalise(services, request)
    cost = cost_max(services, request)
    return Preview(
        dump(normal),
        submit.warnings_of(services, normal),
        submit.estimate_calls(services, normal),
        cost.usd,
        cost.unpriced_models,
        request.limits.max_cost_usd,
    )


def cost_max(services: Services, request: ItemRequest) -> Cost:
    """The maximum cost of a request, without retries after failures.

    It counts the calls of `submit.calls_max`, each with the longest prompt and reply that the limits allow. The cost is
    None if a price is unknown, or if a model cannot be called here.
    """
    try:
        normal = submit.normalise(services, request)
    except Invalid:
        return Cost(None)
    prices = [(each[0], _price(services, *each)) for each in _worst_calls(services, normal)]
    known = [price for _, price in prices if price is not None]
    if len(known) == len(prices):
        return Cost(sum(known, Decimal(0)))
    return Cost(None, tuple(dict.fromkeys(model for model, price in prices if price is None)))


def dearest_call(services: Services, request: ItemRequest) -> Decimal:
    """The maximum cost of a single call of a request, in USD; 0 if it is unknown."""
    try:
        normal = submit.normalise(services, request)
    except Invalid:
        return Decimal(0)
    return max(_price(services, model, usage, 1) or Decimal(0) for model, usage, _ in _worst_calls(services, normal))


def _price(services: Services, model: str, usage: Usage, times: int) -> Decimal | None:
    nano = services.providers.price(parse_model(model), usage)
    return None if nano is None else Decimal(nano) * times / _NANO


def _worst_calls(services: Services, request: AnyRequest) -> list[tuple[str, Usage, int]]:
    """The calls of a normalised request: each model, the maximum of tokens, and the number of calls."""
    # These are in the prompt, and in the reply schema that is sent with it
    twice = {**dump(request.model_copy(update={"sources": []})), "schema": schema_of(request)}
    given = _tokens(dump(request)) + _tokens(twice) + _WORDS_OF_OURS
    said = services.settings.evaluator_max_output_tokens
    groups = len(groups_of(request.rubric, services.settings.criteria_per_call))
    answers, rounds = 1, 1
    written = 0
    found: list[tuple[str, Usage, int]] = []
    if isinstance(request, GenerateAnswer):
        written = request.sampling.max_output_tokens or OUTPUT_BOUND
        answers, rounds = request.iter_max * request.candidates, 2
        # A prompt also holds an earlier answer and its feedback, or an answer that did not fit its schema
        said_before = written + 2 * said * groups * len(evaluators_of(request)) * request.evaluation.samples
        found += _generating(request, Usage(input_tokens=given + said_before, output_tokens=written))
    times = groups * request.evaluation.samples * answers
    for evaluator in evaluators_of(request):
        found += _evaluating(evaluator, given + written, said, times)
    if request.evaluation.audit:
        found += _evaluating(request.evaluation.audit, given + written, said, groups * rounds)
    return found


def _tokens(value: Any) -> int:
    return len(to_json(value)) // BYTES_PER_TOKEN


def _generating(request: GenerateAnswer, usage: Usage) -> list[tuple[str, Usage, int]]:
    models: Sequence[str] = ladder(request)
    questions = request.candidates * (2 if schema_of(request) else 1)
    return [(models[min(at, len(models) - 1)], usage, questions) for at in range(request.iter_max)]


def _evaluating(model: str, tokens: int, said: int, times: int) -> list[tuple[str, Usage, int]]:
    """The calls and their repairs; a repair may use twice the output tokens."""
    second = Usage(input_tokens=tokens + said, output_tokens=2 * said)
    return [(model, Usage(input_tokens=tokens, output_tokens=said), times), (model, second, times)]
