"""Lets a model draft a job from a rough question. The user can edit and send the draft. Only the calls are stored.

The caller waits at most `REDRAFT_CALL_TIMEOUT_S`. No database connection is held during a call.
"""

import time
from functools import partial

from redraft.domain.calls.model_names import ModelRef
from redraft.domain.evaluation.json_extraction import Unusable
from redraft.domain.evaluation.rubrics import Criterion
from redraft.domain.jobs.drafts import Draft, RefineQuestion, read_draft
from redraft.domain.jobs.states import Step
from redraft.errors import Invalid, ProviderError
from redraft.messages import StepMessage
from redraft.operations.calls.call_outcomes import make_call
from redraft.operations.calls.ledger import close_calls, sum_usage
from redraft.operations.calls.model_calls import Ask, Outcome, PlannedCall, Slot, plan_call
from redraft.operations.calls.step_work import wait_for
from redraft.operations.jobs.resources import Resource, UsageTotals, cost_usd
from redraft.operations.jobs.submit import resolve_model
from redraft.operations.services import Services
from redraft.operations.steps import rate_limits
from redraft.prompts.refining import refining_prompt
from redraft.providers.catalog import DEFAULT_LOCAL
from redraft.providers.shared.protocol import ADAPTATIONS_MAX
from redraft.rate_limiter import LimiterSession
from redraft.storage.jobs import calls

KIND = "draft_rubric"

# Short, because the HTTP request of the caller waits until the reply is stored
_RECORD_REPLY_S = 30.0
_CUT = frozenset({"output_truncated", "empty_output"})
# The limiter needs a message for a waiting step. A draft never waits, so all drafts share this message
_LIMITER_MESSAGE = StepMessage(Step.GENERATE, "draft", 0)


class Refinement(Resource):
    """A draft. Its first four fields can be sent as the body of a request."""

    instruct: str
    resp_format: str
    eval_crit: str | None
    rubric: list[Criterion]
    reasoning: str
    usage: UsageTotals


def refine(services: Services, asked: RefineQuestion) -> Refinement:
    """Let a model draft a job for a question.

    Raises:
        Invalid: the model cannot be called, or it is the bundled model (`model_too_small`).
        ProviderError: the model failed, the model is at its limit, or two replies held no usable draft
            (`draft_invalid`).
        Unavailable: the database does not answer.
    """
    model = _drafting_model(services, asked)
    with services.limiter.session() as session:
        drafting = _Drafting(services, model, asked.question, session)
        draft = drafting.run()
    return Refinement.from_row(draft, usage=_usage(drafting.outcomes))


def must_acquire(services: Services, asked: RefineQuestion) -> bool:
    """Whether a draft needs a permit of the rate limiter. Raises Invalid as `refine` does."""
    return services.limiter.must_acquire(str(_drafting_model(services, asked)))


def _drafting_model(services: Services, asked: RefineQuestion) -> ModelRef:
    providers = services.providers
    model = resolve_model(providers, asked.model or str(providers.default_model()), "/model")
    if model == DEFAULT_LOCAL and not services.settings.local_model:
        # It would fail after two minutes: it cannot write JSON with a rubric
        words = "The bundled model is too small to draft a job. Set the API key of a provider, or name another `model`."
        raise Invalid.at("/model", words, "model_too_small")
    return model


def _usage(outcomes: list[Outcome]) -> UsageTotals:
    sums = sum_usage(outcomes)
    counts = {**dict.fromkeys(UsageTotals.model_fields, 0), **sums, "calls": len(outcomes)}
    cost = cost_usd(sums.get("cost_nano_usd", 0), sums.get("unpriced_calls", 0))
    return UsageTotals.model_validate({**counts, "latency_ms": None, "cost_usd": cost})


class _Drafting:
    """The calls for one draft."""

    def __init__(self, services: Services, model: ModelRef, question: str, session: LimiterSession) -> None:
        self._services = services
        self._model = model
        self._question = question
        self._session = session
        self._give_up_at = time.monotonic() + services.settings.call_timeout_s
        self.outcomes: list[Outcome] = []

    def run(self) -> Draft:
        """Call the model, and retry once if the reply is unusable."""
        read = self._read(self._request_draft(0))
        if isinstance(read, Unusable):
            problem = None if read.kind == "truncated" else read.message
            read = self._read(self._request_draft(1, problem))
        if isinstance(read, Unusable):
            raise ProviderError("draft_invalid", f"{self._model} gave no usable draft, twice. {read.message}")
        return read

    def _read(self, outcome: Outcome) -> Draft | Unusable:
        error = outcome.error
        if error is None:
            return read_draft(outcome.text or "", finish_reason=outcome.finish_reason)
        if error.code in _CUT:
            return Unusable("truncated", error.message)
        raise error

    def _request_draft(self, seq: int, problem: str | None = None) -> Outcome:
        """Make a call, and repeat it without a parameter that the provider refuses."""
        # An adapted call does not count as a retry, since the provider refused the parameter before it did any work
        for attempt in range(1, ADAPTATIONS_MAX + 2):
            outcome = self._call(self._plan(seq, attempt, problem))
            if outcome.error is None or not outcome.error.is_adapted:
                break
        return self.outcomes[-1]

    def _plan(self, seq: int, attempt: int, problem: str | None) -> PlannedCall:
        providers = self._services.providers
        origin = providers.verdict_limit_origin(is_second=seq > 0)
        ask = Ask(refining_prompt(self._question, problem), str(self._model), limit_origin=origin)
        # The first reply may have been cut off, so the retry has twice the output limit
        chat = ask.as_chat(providers.verdict_tokens(self._model) * (seq + 1))
        return plan_call(self._services, Slot("", "draft", 0, 0, seq), KIND, chat, token=0, attempt=attempt)

    def _call(self, planned: PlannedCall) -> Outcome:
        left_s = self._give_up_at - time.monotonic()
        if left_s <= 0:
            raise ProviderError("provider_timeout", "The draft took longer than REDRAFT_CALL_TIMEOUT_S.")
        if not self.outcomes:
            self._acquire_permit(planned)
        with self._services.database.write() as connection:
            calls.open_calls(connection, [planned.row])
        outcome = wait_for(make_call(self._services, planned, timeout_s=left_s))
        self.outcomes.append(outcome)
        # The call has a cost, so its record must survive a short failure of the database
        self._services.database.persist(partial(close_calls, outcomes=[outcome]), for_s=_RECORD_REPLY_S)
        rate_limits.record(self._session, [outcome])
        return outcome

    def _acquire_permit(self, planned: PlannedCall) -> None:
        """Acquire a permit of the rate limiter. If no permit is free, raises ProviderError with the time to wait."""
        if not self._services.limiter.must_acquire(str(self._model)):
            return
        _, found = self._session.acquire(_LIMITER_MESSAGE, {str(self._model): [planned.row["id"]]})
        if not found.width:
            words = f"{self._model} is at its limit (REDRAFT_MODEL_LIMITS), or has failed several times in a row."
            raise ProviderError("provider_rate_limited", words, retry_after_s=found.wait_s)
