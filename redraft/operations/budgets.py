"""Budgets of a job: before each call its worst case must fit into what is left."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic_core import to_json

from redraft.domain.requests import Limits
from redraft.operations.calling import PlannedCall
from redraft.operations.services import Services
from redraft.providers.protocol import Usage
from redraft.storage.jobs import JobRecord

OUTPUT_BOUND = 8192
"""Output tokens of a call that names no limit of its own, in a job with a budget."""

_SHORTEST_OUTPUT = 256
_NANO = 1_000_000_000
# No tokenizer needs more tokens than one for two bytes of any natural language.
_BYTES_PER_TOKEN = 2

Planner = Callable[[int | None], PlannedCall]


class BudgetExhausted(Exception):  # noqa: N818 - a state of a job, not a fault
    """The next call could cost more than is left."""


@dataclass(frozen=True, slots=True)
class _Left:
    tokens: int | None
    nano_usd: int | None

    def holds(self, tokens: int, nano_usd: int | None) -> bool:
        if self.tokens is not None and tokens > self.tokens:
            return False
        return self.nano_usd is None or (nano_usd is not None and nano_usd <= self.nano_usd)


def plan_within(
    services: Services, job: JobRecord, limits: Limits, plan: Planner, *, asked: int | None, calls: int = 1
) -> PlannedCall:
    """Plan a call whose worst case fits; without an output limit of its own it gets one, shortened if need be.

    Args:
        services: the parts.
        job: what it has spent so far; calls of unknown cost count as much as this one may.
        limits: its budgets.
        plan: plans the call with an output limit.
        asked: the limit that the user or the settings name, in tokens.
        calls: how many such calls are made at once.

    Raises:
        BudgetExhausted: even the shortest call could cost more than is left.
    """
    if limits.max_tokens is None and limits.max_cost_usd is None:
        return plan(asked)
    output = asked or OUTPUT_BOUND
    while True:
        planned = plan(output)
        tokens, nano_usd = _worst_case(services, planned, output)
        if _left(job, limits, tokens, nano_usd).holds(tokens * calls, None if nano_usd is None else nano_usd * calls):
            return planned
        if output <= _SHORTEST_OUTPUT:
            raise BudgetExhausted(_words(job, limits))
        output = max(_SHORTEST_OUTPUT, output // 2)


def _worst_case(services: Services, planned: PlannedCall, output: int) -> tuple[int, int | None]:
    tokens = len(to_json(planned.body)) // _BYTES_PER_TOKEN + 1
    usage = Usage(input_tokens=tokens, output_tokens=output)
    return tokens + output, services.providers.price(planned.chat.model, usage)


def _left(job: JobRecord, limits: Limits, tokens: int, nano_usd: int | None) -> _Left:
    unknown_tokens = job.lost_leases * tokens
    unknown_nano = job.unpriced_calls * (nano_usd or 0)
    spent_tokens = job.input_tokens + job.output_tokens + unknown_tokens
    return _Left(
        None if limits.max_tokens is None else limits.max_tokens - spent_tokens,
        None if limits.max_cost_usd is None else round(limits.max_cost_usd * _NANO) - job.cost_nano_usd - unknown_nano,
    )


def _words(job: JobRecord, limits: Limits) -> str:
    parts: list[str] = []
    if limits.max_tokens is not None:
        parts.append(f"{job.input_tokens + job.output_tokens} of {limits.max_tokens} tokens")
    if limits.max_cost_usd is not None:
        parts.append(f"{job.cost_nano_usd / _NANO:.6f} of {limits.max_cost_usd:g} USD")
    return f"The next call could cost more than the budget leaves: {' and '.join(parts)} are spent."
