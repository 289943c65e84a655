"""Estimates the maximum number of model calls and the maximum cost of a request, before it is submitted.

`redraft/operations/calls/budgets.py` enforces the budgets that stop a running job or run.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pydantic_core import to_json

from redraft.datasets.reports import Cost
from redraft.domain.calls.model_names import parse_model
from redraft.domain.evaluation.aggregation import groups_of
from redraft.domain.jobs.requests import AnyRequest, GenerateAnswer, dump, ladder
from redraft.errors import Invalid
from redraft.operations.calls.attached_files import attached_tokens
from redraft.operations.calls.budgets import BYTES_PER_TOKEN, OUTPUT_BOUND
from redraft.operations.jobs.submit import normalise, warnings_of
from redraft.operations.request_views import evaluators_of, schema_of
from redraft.operations.resource_base import NANO
from redraft.operations.services import Services
from redraft.operations.tuning_lookup import examples_of
from redraft.providers.shared.protocol import Usage

# An upper bound for the prompt templates and the reply schema
_TEMPLATE_TOKENS = 4000

Calls = tuple[str, Usage, int]
"""A model, the maximum of tokens of one call to it, and the number of such calls."""


@dataclass(frozen=True, slots=True)
class CallsMax:
    """The maximum number of model calls of a request, without retries after failures.

    Attributes:
        generate: the calls of this type in each iteration. `evaluate` and `repair` are counted in the same way.
        audit: the calls after the end of the loop, including repairs.
    """

    iterations: int
    generate: int
    evaluate: int
    repair: int
    audit: int

    @property
    def total(self) -> int:
        return self.iterations * (self.generate + self.evaluate + self.repair) + self.audit


@dataclass(frozen=True, slots=True)
class Preview:
    """A normalised request with its warnings, its maximum number of calls and its maximum cost."""

    request: dict[str, Any]
    warnings: list[dict[str, str]]
    calls: CallsMax
    cost: Cost

    @property
    def calls_max(self) -> int:
        return self.calls.total


def preview(services: Services, request: AnyRequest) -> Preview:
    """Check a request, and estimate its calls and cost. Nothing is stored. Raises the errors of `submit.normalise`."""
    normal = normalise(services, request)
    return Preview(
        dump(normal), warnings_of(services, normal), calls_max(services, normal), _cost_of_normal(services, normal)
    )


def calls_max(services: Services, request: AnyRequest) -> CallsMax:
    """The maximum number of calls. Each evaluator call, and each generation with a schema, may need one repair."""
    questions = len(groups_of(request.rubric, services.settings.criteria_per_call))
    evaluations = questions * len(evaluators_of(request)) * request.evaluation.samples
    audits = 2 * questions if request.evaluation.audit else 0
    if not isinstance(request, GenerateAnswer):
        return CallsMax(1, 0, evaluations, evaluations, audits)
    many, repairs = request.candidates, evaluations + (1 if schema_of(request) else 0)
    return CallsMax(request.iter_max, many, many * evaluations, many * repairs, 2 * audits)


def cost_max(services: Services, request: AnyRequest, *, is_batch: bool = False) -> Cost:
    """The maximum cost of the calls in `calls_max`, with the longest prompts and replies that the limits allow.

    With `is_batch`, the calls of models with a batch endpoint cost the price of batches. The cost is unknown if a model
    has no known price, or cannot be called here.
    """
    try:
        return _cost_of_normal(services, normalise(services, request, is_row=True), is_batch=is_batch)
    except Invalid:
        return Cost(None)


def _cost_of_normal(services: Services, normal: AnyRequest, *, is_batch: bool = False) -> Cost:
    calls = _worst_calls(services, normal)
    prices = [(model, _price(services, model, usage, times, is_batch=is_batch)) for model, usage, times in calls]
    known = [price for _, price in prices if price is not None]
    if len(known) == len(prices):
        return Cost(sum(known, Decimal(0)))
    return Cost(None, tuple(dict.fromkeys(model for model, price in prices if price is None)))


def most_expensive_call(services: Services, request: AnyRequest) -> Decimal:
    """The maximum cost of a single call of a request, in USD; 0 if it is unknown."""
    try:
        calls = _worst_calls(services, normalise(services, request, is_row=True))
    except Invalid:
        return Decimal(0)
    return max(_price(services, model, usage, 1) or Decimal(0) for model, usage, _ in calls)


def _price(services: Services, model: str, usage: Usage, times: int, *, is_batch: bool = False) -> Decimal | None:
    ref = parse_model(model)
    is_batch = is_batch and services.providers.has_batches(ref.provider)
    nano = services.providers.price(ref, usage, is_batch=is_batch)
    return None if nano is None else Decimal(nano) * times / NANO


def _worst_calls(services: Services, request: AnyRequest) -> Iterator[Calls]:
    """The calls of a normalised request, each with the longest prompt and the longest reply."""
    for model, usage, times in _worst_texts(services, request):
        attached = attached_tokens(parse_model(model), request)
        yield model, replace(usage, input_tokens=(usage.input_tokens or 0) + attached), times


def _worst_texts(services: Services, request: AnyRequest) -> Iterator[Calls]:
    """The calls of a normalised request without its attachments."""
    # The prompt holds the request. The schema of the reply is also sent, and holds the criteria a second time
    repeated = {**dump(request.model_copy(update={"sources": []})), "schema": schema_of(request)}
    examples = [each.model_dump() for each in examples_of(services, request.evaluation.tuning)]
    prompt = _tokens(dump(request)) + _tokens(repeated) + _tokens(examples) + _TEMPLATE_TOKENS
    reply = request.evaluator_sampling.max_output_tokens or services.settings.evaluator_max_output_tokens
    groups = len(groups_of(request.rubric, services.settings.criteria_per_call))
    answers, audited, answer = 1, 1, 0
    if isinstance(request, GenerateAnswer):
        answer = request.sampling.max_output_tokens or OUTPUT_BOUND
        answers, audited = request.iter_max * request.candidates, 2
        # A prompt also holds an earlier answer and its feedback, or the answer that did not match the schema
        earlier = answer + 2 * reply * groups * len(evaluators_of(request)) * request.evaluation.samples
        yield from _generations(request, Usage(input_tokens=prompt + earlier, output_tokens=answer))
    if not groups:
        return  # Only checks evaluate the answers
    times = groups * request.evaluation.samples * answers
    for evaluator in evaluators_of(request):
        yield from _evaluations(evaluator, prompt + answer, reply, times)
    if request.evaluation.audit:
        yield from _evaluations(request.evaluation.audit, prompt + answer, reply, groups * audited)


def _tokens(value: Any) -> int:
    return len(to_json(value)) // BYTES_PER_TOKEN


def _generations(request: GenerateAnswer, usage: Usage) -> Iterator[Calls]:
    models = ladder(request)
    times = request.candidates * (2 if schema_of(request) else 1)
    for iteration in range(request.iter_max):
        yield models[min(iteration, len(models) - 1)], usage, times


def _evaluations(model: str, prompt: int, reply: int, times: int) -> Iterator[Calls]:
    """The evaluator calls and their repairs. A repair has the first reply in its prompt, and twice the output limit."""
    yield model, Usage(input_tokens=prompt, output_tokens=reply), times
    yield model, Usage(input_tokens=prompt + reply, output_tokens=2 * reply), times
