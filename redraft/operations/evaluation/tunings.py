"""Makes tunings of evaluators from ratings, validates them, and adopts or reverts them when a person requests it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from sqlalchemy import Connection

from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.run_requests import CreateRun
from redraft.domain.evaluation.tunings import (
    RATED_NEEDED,
    Agreement,
    EvaluatorExample,
    ExampleList,
    RatedAnswer,
    agreement_of,
    choose_examples,
    folds_of,
    merge_raters,
    outside_of,
    tune_threshold,
)
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.requests import EvaluateAnswer
from redraft.errors import Conflict, Invalid, NotFound, existing
from redraft.operations.bulk import datasets, run_results, runs
from redraft.operations.bulk.run_resources import Run
from redraft.operations.resource_base import Moment, Resource
from redraft.operations.services import Services
from redraft.operations.tuning_lookup import NO_TUNING, forget_adopted
from redraft.storage.admin import tunings as stored
from redraft.storage.admin.tunings import TuningRecord

TUNINGS_SHOWN = 50
_RATED_MAX = 200
# These fields belong to the rated job itself, or need data that a row of a dataset lacks
_LEFT_OUT = frozenset({"answer", "evaluation", "webhook", "metadata", "cache", "vars", "attachments", "limits"})
_FILE = "rated-answers.jsonl"


class Tuning(Resource):
    """Examples or a threshold for an evaluator, and its agreement with people without and with this tuning.

    `profile_version` is the version of the profile with these examples.
    """

    id: str
    evaluator_model: str
    profile: str
    profile_version: str
    status: Literal["draft", "adopted", "reverted"]
    examples: list[EvaluatorExample]
    score_threshold: float | None
    agreement: Agreement | None
    run_id: str | None
    created_at: Moment
    adopted_at: Moment | None


@dataclass(frozen=True, slots=True)
class Draft:
    """A tuning that is stored but not validated, and the rows of the run that validates it."""

    tuning: Tuning
    rated: int
    disputed: int
    rows: bytes


def draft_examples(services: Services, evaluator: str, profile: str, count: int) -> Draft:
    """Choose examples from the ratings of an evaluator, and store them as a draft, with the examples of each fold.

    The folds are for the cross-validation: an answer is evaluated with examples of the other folds only.

    Raises Invalid if there is no such profile, there are too few ratings, or people agree with the evaluator.
    """
    services.profiles.get(profile)
    rated = _rated(services, evaluator, profile)
    chosen = choose_examples(rated, count)
    if not chosen:
        words = f"People agree with every rated verdict of {evaluator}, so there is nothing to learn."
        raise Invalid(words, code="no_disagreement")
    folds = folds_of(rated)
    of_folds = [choose_examples(outside_of(folds, number), count) for number in range(len(folds))]
    main, *others = (_row(evaluator, profile, examples=_plain(each)) for each in (chosen, *of_folds))
    with services.database.write() as connection:
        stored.add(connection, [main, *({**each, "validates": main["id"]} for each in others)])
    rows = [
        line
        for fold, other in zip(folds, others, strict=True)
        for each in fold
        for line in _lines(each, evaluator, profile, other["id"])
    ]
    text = b"".join(to_json(line) + b"\n" for line in rows)
    return Draft(get(services, main["id"]), len(rated), sum(each.is_disputed for each in rated), text)


def draft_threshold(services: Services, evaluator: str, profile: str, precision: float) -> Tuning:
    """Store a draft with the threshold that the ratings of an evaluator suggest. Its validation needs no model call.

    Raises Invalid if there is no such profile, or the ratings suggest no threshold.
    """
    services.profiles.get(profile)
    found = tune_threshold(_rated(services, evaluator, profile), precision)
    if found.value is None or found.agreement is None:
        raise Invalid(found.reason or "", code="no_threshold")
    row = _row(evaluator, profile, score_threshold=found.value, agreement=asdict(found.agreement))
    with services.database.write() as connection:
        stored.add(connection, [row])
    return get(services, row["id"])


def _rated(services: Services, evaluator: str, profile: str) -> list[RatedAnswer]:
    with services.database.read() as connection:
        found = stored.list_rated(connection, evaluator, profile, limit=_RATED_MAX)
    ratings = [
        RatedAnswer(
            evaluation_id=row["evaluation_id"],
            answer=row["answer"],
            passes=row["passed"] == (row["verdict"] == "agree"),
            evaluator_passes=bool(row["passed"]),
            score=row["score"],
            note=row["note"],
            request=row["request"],
        )
        for row in found
        if "instruct" in row["request"] and not row["request"].get("attachments")
    ]
    rated = merge_raters(ratings)
    if len(rated) < RATED_NEEDED:
        words = f"{evaluator} has {len(rated)} rated answers with profile {profile}; {RATED_NEEDED} are needed."
        raise Invalid(f"{words} Rate more answers: docs/calibration.md", code="too_few_ratings")
    return rated


def _plain(rated: Sequence[RatedAnswer]) -> list[dict[str, Any]]:
    return [each.example.model_dump() for each in rated]


def _row(evaluator: str, profile: str, *, examples: Sequence[Mapping[str, Any]] = (), **values: Any) -> dict[str, Any]:
    facts = {"score_threshold": None, "agreement": None, "validates": None, **values}
    return {"id": new_id("tuning"), "evaluator_model": evaluator, "profile": profile, "examples": examples, **facts}


def _lines(rated: RatedAnswer, evaluator: str, profile: str, fold_id: str) -> list[dict[str, Any]]:
    """Return the two rows of a rated answer: evaluated without examples, and with the examples of other folds."""
    known = EvaluateAnswer.model_fields.keys() - _LEFT_OUT
    fields = {name: value for name, value in rated.request.items() if name in known and value is not None}
    fields |= {"answer": rated.answer, "human_pass": rated.passes, "evaluator_model": evaluator, "profile": profile}
    samples = rated.request.get("evaluation", {}).get("samples", 1)
    return [
        {**fields, "custom_id": f"{rated.evaluation_id}.{when}", "evaluation": {"samples": samples, "tuning": tuning}}
        for when, tuning in (("before", NO_TUNING), ("after", fold_id))
    ]


def validate(services: Services, draft: Draft, *, max_in_flight: int, max_cost_usd: float | None) -> Run:
    """Start the run that evaluates the rated answers without and with examples. Raises the errors of `create_run`."""
    dataset, _ = datasets.import_dataset(services, BytesIO(draft.rows), _FILE, file_format="jsonl")
    name = f"tuning of {draft.tuning.evaluator_model}"[:500]
    limits: dict[str, Any] = {"max_in_flight": max_in_flight, "max_cost_usd": max_cost_usd}
    run, _ = runs.create_run(services, CreateRun(dataset_id=dataset.id, name=name, **limits))
    with services.database.write() as connection:
        stored.set_run(connection, draft.tuning.id, run.id)
    return run


def edit(services: Services, tuning_id: str, text: str) -> Tuning:
    """Store a draft with other examples, a JSON list. It is not validated.

    Raises NotFound if there is no such tuning, and Invalid (`invalid_examples`) for wrong examples.
    """
    before = get(services, tuning_id)
    try:
        checked = TypeAdapter[list[EvaluatorExample]](ExampleList).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = "/".join(map(str, first["loc"]))
        words = f"The examples are not valid: {first['msg']}."
        raise Invalid.at(f"/examples/{place}", words, "invalid_examples") from None
    row = _row(before.evaluator_model, before.profile, examples=[each.model_dump() for each in checked])
    with services.database.write() as connection:
        stored.add(connection, [row])
    return get(services, row["id"])


def adopt(services: Services, tuning_id: str) -> Tuning:
    """Use a tuning for all new jobs of its evaluator and profile. Raises NotFound if there is no such tuning."""
    with services.database.write() as connection:
        _find(connection, tuning_id)
        stored.adopt(connection, tuning_id)
    forget_adopted(services)
    return get(services, tuning_id)


def revert(services: Services, tuning_id: str) -> Tuning:
    """Stop using an adopted tuning. The tuning that was adopted before this tuning is used again.

    Raises NotFound if there is no such tuning, and Conflict if the tuning is not in use.
    """
    with services.database.write() as connection:
        record = _find(connection, tuning_id)
        used = stored.adopted(connection, record.evaluator_model, record.profile)
        if used is None or used.id != tuning_id:
            raise Conflict(f"{tuning_id} is not in use.", code="tuning_not_adopted")
        stored.revert(connection, tuning_id)
    forget_adopted(services)
    return get(services, tuning_id)


def get(services: Services, tuning_id: str) -> Tuning:
    """A tuning with its agreement. Raises NotFound if there is no such tuning."""
    with services.database.read() as connection:
        record = _find(connection, tuning_id)
        used = stored.adopted(connection, record.evaluator_model, record.profile)
    return _resource(services, record, is_used=used is not None and used.id == tuning_id)


def list_tunings(services: Services) -> list[Tuning]:
    """The newest tunings, newest first."""
    with services.database.read() as connection:
        records = stored.list_newest(connection, TUNINGS_SHOWN)
        keys = {(each.evaluator_model, each.profile) for each in records}
        used = {found.id for key in keys if (found := stored.adopted(connection, *key))}
    return [_resource(services, each, is_used=each.id in used) for each in records]


def _find(connection: Connection, tuning_id: str) -> TuningRecord:
    record = stored.get(connection, tuning_id)
    # The tuning of a fold only validates another tuning, so users cannot view or adopt it
    return existing(record if record and record.validates is None else None, "tuning", tuning_id)


def _resource(services: Services, record: TuningRecord, *, is_used: bool) -> Tuning:
    status = "adopted" if is_used else "reverted" if record.reverted_at else "draft"
    return Tuning.from_row(
        record,
        status=status,
        profile_version=_version(services, record),
        agreement=record.agreement or _measured(services, record.run_id),
    )


def _version(services: Services, record: TuningRecord) -> str:
    profile = next((each for each in services.profiles.all() if each.name == record.profile), None)
    if profile is None:
        return ""
    examples = [EvaluatorExample.model_validate(each) for each in record.examples]
    return (profile.with_examples(examples) if examples else profile).version


def _measured(services: Services, run_id: str | None) -> Agreement | None:
    """The agreement in a validating run; None if there is no run, or if the run was deleted."""
    try:
        outcomes = {each.custom_id: each for each in run_results.outcomes(services, run_id or "")}
    except NotFound:
        return None
    names = [name.removesuffix(".before") for name in outcomes if name.endswith(".before")]
    pairs = [(outcomes[f"{name}.before"], outcomes[f"{name}.after"]) for name in names]
    return agreement_of([(bool(before.human_pass), _verdict(before), _verdict(after)) for before, after in pairs])


def _verdict(outcome: ItemOutcome) -> bool | None:
    return outcome.is_accepted if outcome.has_verdict else None
