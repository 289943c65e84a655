"""The request bodies of jobs, with their limits and defaults."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError, to_json

from redraft.domain.admin.urls import url_error
from redraft.domain.bodies.fields import (
    MAX_ANSWER,
    Answer,
    FilledText,
    Fraction,
    Metadata,
    MetadataKey,
    MetadataValue,
    ModelName,
    StrictModel,
    Text,
    Turn,
    matching,
    rejecting,
)
from redraft.domain.evaluation.rubrics import Rubric, evaluated_by_model
from redraft.domain.jobs.attachments import ATTACHMENTS_MAX, AnyAttachment
from redraft.domain.jobs.job_defaults import ITER_MAX, PLATEAU_DELTA, PLATEAU_PATIENCE, SCORE_THRESHOLD
from redraft.domain.jobs.sampling import ChangedSampling, Sampling
from redraft.domain.jobs.variables import TemplateName, Variables
from redraft.domain.jobs.webhooks import EVENT_TYPES, EventType
from redraft.domain.structured.named_schemas import StructureName

MAX_URL = 2000
MAX_SOURCES = 200
ITERATIONS_MAX = 10
# The limit per iteration. Without it, a panel of 9 with 10 samples and 8 candidates would make 720 calls.
EVALUATOR_CALLS_MAX = 200


def _if_given(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    # Without `required`, JSON Schema also accepts an object that lacks the field.
    return {"properties": {name: schema}, "required": [name]}


def _rules(*rules: list[dict[str, Any]]) -> dict[str, Any]:
    """Describe rules across fields in the JSON Schema: one alternative of each rule must hold.

    The rules are beneath `allOf`, because client generators read an `anyOf` beside `properties` as a choice of types.
    """
    return {"allOf": [{"anyOf": rule} for rule in rules]}


DEFAULT_PROFILE = "criteria"
_PROFILE_NAME = r"[a-z][a-z0-9_-]{0,39}"
ProfileName = Annotated[
    str,
    Field(json_schema_extra={"pattern": f"^{_PROFILE_NAME}$"}),
    matching(_PROFILE_NAME, "needs a small letter and then at most 39 small letters, digits, '_' and '-'"),
]
# Patterns of JSON Schema have no flag that ignores case.
WebhookUrl = Annotated[
    str,
    Field(min_length=1, max_length=MAX_URL, json_schema_extra={"pattern": r"^[Hh][Tt]{2}[Pp][Ss]?://[^@\s]+$"}),
    rejecting("webhook_url", url_error),
]
Models = ModelName | Annotated[list[ModelName], Field(min_length=1, max_length=10)]


class Revision(StrictModel):
    """How the next answer is generated after a low score."""

    strategy: Literal["revise", "fresh", "encourage"] = "revise"
    start_from: Literal["best", "last"] = Field(default="best", alias="from")


class Stop(StrictModel):
    plateau_patience: int = Field(default=PLATEAU_PATIENCE, ge=0, le=10)
    plateau_delta: Fraction = PLATEAU_DELTA


class Limits(StrictModel):
    """Limits of the whole job, counted from its submission."""

    deadline_s: float = Field(default=600, gt=0, le=86_400, allow_inf_nan=False)
    max_cost_usd: float | None = Field(default=None, gt=0, le=1_000_000, allow_inf_nan=False)
    max_tokens: int | None = Field(default=None, ge=1, le=10**12, description="Input and output together.")


class Webhook(StrictModel):
    """The URL that receives a job's events by Standard Webhooks."""

    url: WebhookUrl = Field(description="http or https, without credentials.")
    events: list[EventType] = Field(
        default=["done"], min_length=1, max_length=len(EVENT_TYPES), description="The types of events to send."
    )


SourceMetadata = Annotated[dict[MetadataKey, MetadataValue | int | float | bool | None], Field(max_length=32)]


class Source(StrictModel):
    """A document chunk that can support the answer."""

    content: FilledText
    chunk_id: Annotated[Text, Field(max_length=512)] | None = None
    document_id: Annotated[Text, Field(max_length=512)] | None = None
    title: Annotated[Text, Field(max_length=1000)] | None = None
    metadata: SourceMetadata = Field(default={})
    relevance_score: float | None = Field(default=None, allow_inf_nan=False)

    @property
    def about(self) -> str:
        """The title and metadata of the source, one line each."""
        lines = [f"Title: {self.title}"] if self.title else []
        return "\n".join([*lines, *(f"{name}: {value}" for name, value in self.metadata.items())])


def _known_structure(value: Any) -> Any:
    if isinstance(value, str) and value not in get_args(StructureName):
        names = " and ".join(get_args(StructureName))
        words = "there is no schema of that name; there are {names}, or give a JSON Schema"
        raise PydanticCustomError("unknown_schema", words, {"names": names})
    return value


class GroundingOptions(StrictModel):
    """How an answer must use its sources. If there are no sources, the answer has to say so and ask for them."""

    mode: Literal["simple", "grounded", "analytical", "conversational"] = "simple"
    output_format: Literal["plain", "markdown", "json", "bullets"] = Field(
        default="plain", description="json: an object with 'answer' and 'sources'."
    )
    include_citations: bool = True
    citation_style: Literal["inline", "footnote", "endnote"] = "inline"
    require_grounding: bool = Field(
        default=True, description="Reject answers that cite a missing source or state something that no source says."
    )
    template: Literal["grounded_qa", "analytical_synthesis", "comparison", "summarization"] | None = None
    annotate_unverified: bool = Field(default=False, description="List unverified statements beneath the final answer.")


class EvaluationOptions(StrictModel):
    """The number of evaluator calls, their models, and when to skip them."""

    samples: int = Field(default=1, ge=1, le=10, description="Number of calls per evaluator; the mean score counts.")
    panel: list[ModelName] = Field(
        default=[], max_length=9, description="Several evaluators instead of evaluator_model; the median score counts."
    )
    audit: ModelName | None = Field(
        default=None,
        description="Independent evaluator: scores the first and the returned answer after the loop; reported only.",
    )
    tuning: Text | None = Field(default=None, max_length=40, description="A tuning's id; none; null: the adopted one.")
    skip: Literal["never", "when_checks_fail", "auto"] = Field(
        default="never",
        description="When to skip the evaluation. never: do not skip; when_checks_fail: if the answer fails a required "
        "check; auto: if the task is small talk or arithmetic and has no resp_format, rubric, answer_schema, sources, "
        "attachments or reference.",
    )
    when: Literal["before_done", "after_answer", "overlap"] = Field(
        default="before_done",
        description="after_answer: the job ends with its first answer at once, which is evaluated afterwards; overlap: "
        "the next answer is generated while an answer is evaluated.",
    )
    sample: Fraction = Field(
        default=1.0, description="Share of the jobs for which evaluators are called; the id of the job decides."
    )
    min_answer_chars: int = Field(
        default=0, ge=0, le=MAX_ANSWER, description="Evaluators are not called for shorter answers."
    )


_NULL: dict[str, Any] = {"type": "null"}
_IS_DEFAULT_PROFILE: dict[str, Any] = {"const": DEFAULT_PROFILE}
_EVALUATED_BY_SOMETHING = [
    _if_given("eval_crit", {"type": "string"}),
    _if_given("rubric", {"type": "array"}),
    _if_given("profile", {"not": _IS_DEFAULT_PROFILE}),
]
_RUBRIC_FITS_PROFILE = [{"properties": {"rubric": _NULL}}, {"properties": {"profile": _IS_DEFAULT_PROFILE}}]
_JSON_OUTPUT = {"type": "object", **_if_given("output_format", {"const": "json"})}
_ONE_SCHEMA: list[dict[str, Any]] = [
    {"properties": {"answer_schema": _NULL}},
    {"properties": {"grounding": {"not": _JSON_OUTPUT}}},
]


class EvaluationFields(StrictModel):
    """The fields of both kinds of job: the task and the evaluation."""

    model_config = ConfigDict(json_schema_extra=_rules(_EVALUATED_BY_SOMETHING, _RUBRIC_FITS_PROFILE))

    instruct: FilledText = Field(description="The question or task.")
    resp_format: Text = Field(default="", description="The wanted form of the answer, in words.")
    eval_crit: FilledText | None = Field(default=None, description="The criteria, in words.")
    score_threshold: Fraction = Field(default=SCORE_THRESHOLD, description="Minimum score of an accepted answer.")
    evaluator_model: ModelName | None = Field(default=None, description="provider:name; null: the configured one.")
    profile: ProfileName = Field(default=DEFAULT_PROFILE, description="A named way to evaluate; GET /v1/profiles.")
    rubric: Rubric | None = Field(default=None, description="The criteria, line by line; with profile 'criteria'.")
    evaluation: EvaluationOptions = EvaluationOptions()
    sources: list[Source] = Field(default=[], max_length=MAX_SOURCES, description="Texts that can support the answer.")
    grounding: GroundingOptions | None = Field(
        default=None, description="How the answer uses its sources; if there are sources, the defaults apply."
    )
    attachments: list[AnyAttachment] = Field(
        default=[], max_length=ATTACHMENTS_MAX, description="Images and PDFs for the generator and the evaluator."
    )
    conversation: list[Turn] = Field(default=[], max_length=100, description="Earlier [user, assistant] turns.")
    reference: FilledText | None = Field(default=None, description="A known good answer; only the evaluator sees it.")
    limits: Limits = Limits()
    sampling: Sampling = Field(default=Sampling(), description="Sampling parameters of the generator.")
    evaluator_sampling: Sampling = Field(
        default=Sampling(),
        description="Sampling parameters of all evaluators. A retry has twice the output limit.",
    )
    cache: Literal["off", "use"] = Field(default="off", description="use: take the reply of an identical earlier call.")
    webhook: Webhook | None = Field(default=None, description="Where the job's events are sent; docs/webhooks.md.")
    metadata: Metadata = Field(default={})
    vars: Variables = Field(
        default={}, description="Values for {{ name }} in the task, its form and criteria, and the generator's prompt."
    )

    @property
    def grounds(self) -> GroundingOptions | None:
        """The grounding options of the request, or the defaults if there are sources, or None."""
        return self.grounding or (GroundingOptions() if self.sources or self._names_sources else None)

    @property
    def _names_sources(self) -> bool:
        """Whether the answer has to cite its sources."""
        return False

    @model_validator(mode="after")
    def _fields_fit_together(self) -> Self:
        if self.profile == DEFAULT_PROFILE and self.eval_crit is None and self.rubric is None:
            words = "profile 'criteria' needs eval_crit or a rubric: say what makes an answer good"
            raise PydanticCustomError("nothing_to_evaluate_by", words, {"field": "eval_crit"})
        if self.rubric is not None and self.profile != DEFAULT_PROFILE:
            words = "profile '{profile}' brings its own criteria; a rubric goes with profile 'criteria'"
            raise PydanticCustomError("rubric_misplaced", words, {"profile": self.profile, "field": "rubric"})
        if (calls := evaluator_calls_max(self)) > EVALUATOR_CALLS_MAX:
            words = "asks for up to {calls} evaluator calls per iteration, at most {most} are allowed"
            facts = {"calls": calls, "most": EVALUATOR_CALLS_MAX, "field": "evaluation"}
            raise PydanticCustomError("too_many_judge_calls", words, facts)
        return self


class GenerateAnswer(EvaluationFields):
    """A job that writes an answer: generate, evaluate, revise until it is accepted."""

    model_config = ConfigDict(json_schema_extra=_rules(_EVALUATED_BY_SOMETHING, _RUBRIC_FITS_PROFILE, _ONE_SCHEMA))

    iter_max: int = Field(default=ITER_MAX, ge=1, le=ITERATIONS_MAX, description="Maximum number of iterations.")
    model: Models | None = Field(
        default=None, description="provider:name, or a list: iteration k uses entry k, or the last entry."
    )
    system_instructions: Text | None = Field(default=None, description="Added to the generator's system prompt.")
    generator_template: TemplateName | None = Field(
        default=None, description="NAME or NAME@VERSION. Default: `standard`; of the bundled model: `short`."
    )
    candidates: int = Field(
        default=1,
        ge=1,
        le=8,
        description="Number of parallel answers per iteration; the loop continues with the best one.",
    )
    revision: Revision = Revision()
    stop: Stop = Stop()
    answer_schema: Annotated[dict[str, Any] | StructureName | None, BeforeValidator(_known_structure)] = Field(
        default=None,
        description="A JSON Schema, or the name of one; the answer is JSON that fits it.",
    )
    stream: bool = Field(default=False, description="Publish the answer's text while it is written.")

    @property
    def _names_sources(self) -> bool:
        return isinstance(self.answer_schema, str)

    @model_validator(mode="after")
    def _can_end_with_its_first_answer(self) -> Self:
        if self.evaluation.when != "after_answer":
            return self
        words = "evaluation.when 'after_answer' ends the job with its first answer: leave {field} out, or set it to 1"
        errors = [
            InitErrorDetails(type=PydanticCustomError("ends_with_first_answer", words, {"field": field}), input=None)
            for field in ("candidates", "iter_max")
            if field in self.model_fields_set and getattr(self, field) != 1
        ]
        if errors:
            raise ValidationError.from_exception_data(type(self).__name__, errors)
        return self

    @model_validator(mode="after")
    def _has_one_schema(self) -> Self:
        if self.answer_schema is not None and self.grounding and self.grounding.output_format == "json":
            words = "grounding.output_format 'json' brings a schema of its own: leave one of the two out"
            raise PydanticCustomError("schema_misplaced", words, {"field": "answer_schema"})
        return self


class EvaluateAnswer(EvaluationFields):
    """A job that evaluates a given answer once."""

    answer: Answer

    @model_validator(mode="after")
    def _is_only_evaluated(self) -> Self:
        if self.evaluation.when != "before_done":
            words = "evaluation.when '{when}' is for jobs that generate an answer: leave it out"
            facts = {"when": self.evaluation.when, "field": ("evaluation", "when")}
            raise PydanticCustomError("nothing_to_answer", words, facts)
        return self


class RescoreAnswers(EvaluationFields):
    """A job that evaluates stored answers of another job again."""

    job_id: str
    iterations: list[int] = Field(description="The iterations to evaluate, in order.")
    answer_schema: dict[str, Any] | None = None


class RescoreJob(StrictModel):
    """How to evaluate the answers of a job again. Fields that are null keep their earlier value."""

    iterations: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="Which iterations; null: all."
    )
    evaluator_model: ModelName | None = None
    profile: ProfileName | None = None
    eval_crit: FilledText | None = None
    rubric: Rubric | None = None
    reference: FilledText | None = None
    evaluation: EvaluationOptions | None = None
    evaluator_sampling: ChangedSampling = None
    score_threshold: Fraction | None = None
    limits: Limits | None = None


class ContinueJob(StrictModel):
    """More iterations for a job that has ended. Fields that are null keep their earlier value."""

    iter_max: int | None = Field(
        default=None,
        ge=1,
        le=ITERATIONS_MAX,
        description="Maximum number of further iterations; null: the iter_max of the job.",
    )
    score_threshold: Fraction | None = None
    model: Models | None = None
    evaluator_model: ModelName | None = None
    guidance: FilledText | None = Field(default=None, description="A person's own feedback for the next prompt.")
    sources: list[Source] | None = Field(
        default=None, max_length=MAX_SOURCES, description="Replace the earlier sources; null: unchanged."
    )
    evaluator_sampling: ChangedSampling = None
    limits: Limits | None = None


AnyRequest = GenerateAnswer | EvaluateAnswer | RescoreAnswers


def _without_requirements(schema: dict[str, Any]) -> None:
    # The row, the defaults and the overrides of a run complete each other, so none of them needs all fields.
    schema.pop("required", None)
    for field in schema["properties"].values():
        field.pop("default", None)


class JobFields(GenerateAnswer):
    """Any fields of a job. This model describes the fields, but validates nothing."""

    model_config = ConfigDict(json_schema_extra=_without_requirements)


def evaluator_calls_max(request: EvaluationFields) -> int:
    """Return the maximum number of evaluator calls per iteration, without retries and at one call per criterion."""
    samples = max(1, len(request.evaluation.panel)) * request.evaluation.samples
    candidates = request.candidates if isinstance(request, GenerateAnswer) else 1
    return samples * candidates * (1 if request.rubric is None else len(evaluated_by_model(request.rubric)))


def ladder(request: GenerateAnswer) -> tuple[str, ...]:
    """Return the generator's models in order. The request must be normalised, so that `model` is set."""
    models = request.model
    return tuple(models) if isinstance(models, list) else (models or "",)


def sources_hash(sources: Sequence[Mapping[str, Any]]) -> str:
    """Return a digest of dumped sources. A verdict holds only for the sources it was made with."""
    # Ids and retriever scores are left out, because no prompt contains them.
    shown = [[source["title"], source["metadata"], source["content"]] for source in sources]
    return hashlib.sha256(to_json(shown)).hexdigest()[:16]


def dump(request: StrictModel) -> dict[str, Any]:
    """Return the stored and public form of a request: plain JSON values under the public names."""
    return request.model_dump(mode="json", by_alias=True)
