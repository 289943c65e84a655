"""Budgets of jobs and runs: the maximum cost of each call must fit into the remaining budget."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Connection

from redraft.domain.calls.model_names import ModelRef, parse_model
from redraft.domain.jobs.requests import AnyRequest, Limits, dump
from redraft.operations.calls.attached_files import attached_tokens
from redraft.operations.calls.model_calls import PlannedCall, may_have_cost, sent_limit
from redraft.operations.request_views import models_named
from redraft.operations.services import Services
from redraft.providers.shared.media import tokens_in
from redraft.providers.shared.protocol import Usage
from redraft.storage.bulk import batches, run_items, runs
from redraft.storage.jobs import calls
from redraft.storage.jobs.jobs import JobRecord

OUTPUT_BOUND = 8192
"""The output limit in tokens of a call without its own limit, in a job with a budget."""

_SHORTEST_OUTPUT = 256
_NANO = 1_000_000_000
# Tokenizers make at most one token per two bytes of a natural language
BYTES_PER_TOKEN = 2

Planner = Callable[[int | None], PlannedCall]


class BudgetExhausted(Exception):  # noqa: N818 - a state of a job, and no error of the program
    """The next call could cost more than the remaining budget."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The spending of a job. Open calls and calls with unknown outcome count with their maximum cost.

    Attributes:
        run_leaves: the remaining budget of the job's run; None if the run has no budget.
    """

    tokens: int
    nano_usd: int
    run_leaves: int | None = None


def spent_of(connection: Connection, services: Services, job: JobRecord, limits: Limits) -> Spent | None:
    """Read the spending of a job from the ledger. None if neither the job nor its run has a budget."""
    leaves = None if job.run_id is None else _run_leaves(connection, services, job.run_id)
    if leaves is None and not has_budget(limits):
        return None
    return replace(_spent(connection, services, job.id), run_leaves=leaves)


def has_budget(limits: Limits) -> bool:
    return limits.max_tokens is not None or limits.max_cost_usd is not None


def with_planned(services: Services, spent: Spent | None, planned: Sequence[PlannedCall]) -> Spent | None:
    """Add calls that are planned, and not yet in the ledger, with their maximum cost."""
    if spent is None:
        return None
    usages = [_worst_usage(call.chat.model, call.body) for call in planned]
    tokens = sum((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in usages)
    nano_usd = sum(_worst_price(services, call.chat.model, call.body, is_batch=call.is_batch) for call in planned)
    leaves = None if spent.run_leaves is None else spent.run_leaves - nano_usd
    return Spent(spent.tokens + tokens, spent.nano_usd + nano_usd, leaves)


def _run_leaves(connection: Connection, services: Services, run_id: str) -> int | None:
    budget = runs.max_cost(connection, run_id)
    if budget is None:
        return None
    # Under the lock, no other worker can plan calls of the run that this count would miss
    runs.lock(connection, run_id)
    open_calls = worst_of(services, calls.open_in_run(connection, run_id)) + batches.reserved(connection, run_id)
    return budget - spent_of_run(connection, services, run_id) - open_calls


def spent_of_run(connection: Connection, services: Services, run_id: str) -> int:
    """Return the spending of a run in 1e-9 USD. Calls with unknown outcome count with their maximum cost."""
    untold = [row for row in calls.unpriced_in_run(connection, run_id) if _may_have_cost(row)]
    return runs.sums(connection, run_id).cost_nano_usd + worst_of(services, untold)


def stopped_items(connection: Connection, run_id: str, limit: int | None = None) -> list[int]:
    """Return the items that the run's budget stopped, among the first `limit` items that any budget stopped."""
    found = run_items.list_exhausted(connection, run_id, limit)
    return [number for number, own in found if own["max_cost_usd"] is None and own["max_tokens"] is None]


def worst_of(services: Services, rows: Sequence[Mapping[str, Any]]) -> int:
    """Return the maximum cost of calls, in 1e-9 USD. Calls with unknown prices count as free."""
    refs = [(parse_model(row["model"]), row["request"], row.get("batch_id") is not None) for row in rows]
    return sum(_worst_price(services, ref, body, is_batch=is_batch) for ref, body, is_batch in refs)


def _worst_price(services: Services, ref: ModelRef, body: Mapping[str, Any], *, is_batch: bool) -> int:
    return services.providers.price(ref, _worst_usage(ref, body), is_batch=is_batch) or 0


def _spent(connection: Connection, services: Services, job_id: str) -> Spent:
    tokens = nano_usd = 0
    for row in calls.usage_of_job(connection, job_id):
        ref = parse_model(row["model"])
        usage = Usage(input_tokens=row["input_tokens"], output_tokens=row["output_tokens"])
        if is_unknown := not row["cached"] and row["input_tokens"] is None and _may_have_cost(row):
            usage = _worst_usage(ref, row["request"])
        tokens += (usage.input_tokens or 0) + (usage.output_tokens or 0)
        is_batch = row["batch_id"] is not None
        price = services.providers.price(ref, usage, is_batch=is_batch) if is_unknown else row["cost_nano_usd"]
        nano_usd += price or 0
    return Spent(tokens, nano_usd)


def _may_have_cost(row: Mapping[str, Any]) -> bool:
    return row["status"] != "error" or may_have_cost(row["http_status"])


def _worst_usage(ref: ModelRef, body: Mapping[str, Any]) -> Usage:
    sent = to_json(body)
    input_tokens = len(sent) // BYTES_PER_TOKEN + 1 + tokens_in(ref, body)
    # A user's text cannot contain these bytes, because JSON puts a backslash before each quote in a text
    writes = input_tokens if b'"cache_control":' in sent else 0
    output_tokens = sent_limit(body) or OUTPUT_BOUND
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens, cache_write_tokens=writes)


def worst_cost(services: Services, request: AnyRequest, *, is_batch: bool = False) -> int:
    """Return the maximum cost of the most expensive first call of a normalised request, in 1e-9 USD; 0 if unknown."""
    verdict = request.evaluator_sampling.max_output_tokens or services.settings.evaluator_max_output_tokens
    output = max(request.sampling.max_output_tokens or OUTPUT_BOUND, verdict)
    tokens = len(to_json(dump(request))) // BYTES_PER_TOKEN + 1
    return max(
        services.providers.price(
            ref,
            Usage(input_tokens=tokens + attached_tokens(ref, request), output_tokens=output),
            is_batch=is_batch,
        )
        or 0
        for ref in map(parse_model, models_named(request))
    )


def plan_within(
    services: Services, before: Spent, limits: Limits, plan: Planner, *, asked: int | None, calls: int = 1
) -> PlannedCall:
    """Plan a call whose maximum cost fits into the budget. Its output limit is lowered if necessary.

    Args:
        services: the services.
        before: the spending of the job so far.
        limits: the budgets of the job.
        plan: plans the call with an output limit.
        asked: the output limit of the user or the settings, in tokens.
        calls: the number of such calls that are made at the same time.

    Raises:
        BudgetExhausted: even the shortest call could cost more than the remaining budget.
    """
    output = asked or OUTPUT_BOUND
    while True:
        planned = plan(output)
        usage = replace(_worst_usage(planned.chat.model, planned.body), output_tokens=output)
        nano_usd = services.providers.price(planned.chat.model, usage, is_batch=planned.is_batch)
        if _fits(before, limits, usage, nano_usd, calls):
            return planned
        if output <= _SHORTEST_OUTPUT:
            raise BudgetExhausted(_words(before, limits) + _cost_words(before, limits, nano_usd, output))
        output = max(_SHORTEST_OUTPUT, output // 2)


def _fits(before: Spent, limits: Limits, usage: Usage, nano_usd: int | None, calls: int) -> bool:
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    if limits.max_tokens is not None and before.tokens + tokens * calls > limits.max_tokens:
        return False
    leaves = _money_left(before, limits)
    # With a budget in USD, a call with an unknown price never fits
    return leaves is None or (nano_usd is not None and nano_usd * calls <= leaves)


def _money_left(before: Spent, limits: Limits) -> int | None:
    own = None if limits.max_cost_usd is None else round(limits.max_cost_usd * _NANO) - before.nano_usd
    return min((left for left in (own, before.run_leaves) if left is not None), default=None)


def _cost_words(before: Spent, limits: Limits, nano_usd: int | None, output: int) -> str:
    """Return a sentence with the maximum cost of the call; empty if the price is unknown or no budget in USD is set."""
    if nano_usd is None or _money_left(before, limits) is None:
        return ""
    return f" It could cost up to {nano_usd / _NANO:.6f} USD with {output} tokens of output."


def _words(before: Spent, limits: Limits) -> str:
    parts: list[str] = []
    if limits.max_tokens is not None:
        parts.append(f"{before.tokens} of {limits.max_tokens} tokens")
    if limits.max_cost_usd is not None:
        parts.append(f"{before.nano_usd / _NANO:.6f} of {limits.max_cost_usd:g} USD")
    message = f"{' and '.join(parts)} may be spent" if parts else ""
    if before.run_leaves is not None:
        left = f"{max(0, before.run_leaves) / _NANO:.6f} USD are left of its run's budget"
        message = f"{message}, {left}" if message else f"{left}; sampling.max_output_tokens bounds what a call can cost"
    return f"The next call could cost more than the budget leaves: {message}."
