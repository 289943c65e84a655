"""Finds the tunings that requests name, and the profile with the examples of a tuning."""

import math
from typing import Any
from weakref import WeakKeyDictionary

from redraft.domain.evaluation.tunings import EvaluatorExample
from redraft.domain.jobs.requests import AnyRequest
from redraft.errors import Invalid
from redraft.operations.services import Services
from redraft.prompts.profiles import Profile
from redraft.storage.admin import tunings as stored
from redraft.storage.admin.tunings import TuningRecord
from redraft.storage.engine.unit_of_work import Database

NO_TUNING = "none"
_KNOWN_MAX = 256

# The examples of the tunings that each database contains. The examples of a tuning never change
_known: WeakKeyDictionary[Database, dict[str, tuple[EvaluatorExample, ...]]] = WeakKeyDictionary()

# By evaluator and profile: the time of the last search, and the adopted tuning. Each submission needs this tuning
_adopted_before: WeakKeyDictionary[Database, dict[tuple[str, str], tuple[float, TuningRecord | None]]] = (
    WeakKeyDictionary()
)
_ADOPTED_FOR_S = 1.0


def tuned(services: Services, request: AnyRequest) -> dict[str, Any]:
    """Return the fields of a normalised request that its tuning changes.

    The adopted tuning applies to jobs with a single evaluator. Its threshold applies if the request has none.

    Raises Invalid (`unknown_tuning`) if there is no such tuning.
    """
    named = request.evaluation.tuning
    if named == NO_TUNING:
        return {}
    if named is not None:
        examples_of(services, named)
        return {}
    found = None if request.evaluation.panel else _adopted(services, request.evaluator_model or "", request.profile)
    if found is None:
        return {}
    fields: dict[str, Any] = {"evaluation": request.evaluation.model_copy(update={"tuning": found.id})}
    if found.score_threshold is not None and "score_threshold" not in request.model_fields_set:
        fields["score_threshold"] = found.score_threshold
    return fields


def _adopted(services: Services, evaluator: str, profile: str) -> TuningRecord | None:
    """Return the adopted tuning. Another process may have adopted it up to a second before it is found."""
    now, key = services.clock.monotonic(), (evaluator, profile)
    known = _adopted_before.setdefault(services.database, {})
    at, found = known.get(key, (-math.inf, None))
    if now - at >= _ADOPTED_FOR_S:
        with services.database.read() as connection:
            found = stored.adopted(connection, evaluator, profile)
        if len(known) >= _KNOWN_MAX:
            known.clear()
        known[key] = now, found
    return found


def forget_adopted(services: Services) -> None:
    """Search adopted tunings again, because a tuning was adopted or reverted in this process."""
    _adopted_before.pop(services.database, None)


def examples_of(services: Services, tuning_id: str | None) -> tuple[EvaluatorExample, ...]:
    """Return the examples of a tuning. Raises Invalid (`unknown_tuning`) if there is no such tuning."""
    if tuning_id is None or tuning_id == NO_TUNING:
        return ()
    known = _known.setdefault(services.database, {})
    if tuning_id not in known:
        with services.database.read() as connection:
            record = stored.get(connection, tuning_id)
        if record is None:
            words = f"There is no tuning {tuning_id!r}. `redraft evaluators tunings` lists them."
            raise Invalid.at("/evaluation/tuning", words, "unknown_tuning")
        if len(known) >= _KNOWN_MAX:
            known.clear()
        known[tuning_id] = tuple(EvaluatorExample.model_validate(each) for each in record.examples)
    return known[tuning_id]


def profile_for(services: Services, request: AnyRequest) -> Profile:
    """Return the profile of a request, with the examples of its tuning.

    Raises Invalid if there is no such profile (`unknown_profile`) or tuning (`unknown_tuning`).
    """
    profile = services.profiles.get(request.profile)
    examples = examples_of(services, request.evaluation.tuning)
    return profile.with_examples(examples) if examples else profile
