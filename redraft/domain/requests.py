"""What a user may ask for: the bodies of the API, strict, with their defaults."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from redraft.domain.goals import read_goal
from redraft.domain.webhooks import EVENT_TYPES, EventType

MAX_TEXT = 200_000
MAX_ANSWER = 1_000_000
MAX_URL = 2000


def _storable(text: str) -> str:
    if "\x00" in text:
        raise PydanticCustomError(
            "nul_character", "holds a NUL character at position {at}; remove it", {"at": text.index("\x00")}
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PydanticCustomError(
            "lone_surrogate",
            "holds half a surrogate pair at position {at}; it is no text",
            {"at": error.start},
        ) from None
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "must hold more than white space")
    return text


def _webhook_url(text: str) -> str:
    try:
        read_goal(text)
    except ValueError as error:
        raise PydanticCustomError("webhook_url", "{words}", {"words": str(error)}) from None
    return text


Text = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_storable)]
# For readers of the description: pydantic's own words for a text that does not match would be of no help.
FilledText = Annotated[Text, Field(json_schema_extra={"minLength": 1, "pattern": r"\S"}), AfterValidator(_not_blank)]
Answer = Annotated[str, Field(max_length=MAX_ANSWER), AfterValidator(_storable)]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_storable)]
MetadataKey = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_storable)]
MetadataValue = Annotated[str, StringConstraints(max_length=512), AfterValidator(_storable)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
WebhookUrl = Annotated[str, StringConstraints(min_length=1, max_length=MAX_URL), AfterValidator(_webhook_url)]
Turn = Annotated[list[Text], Field(min_length=2, max_length=2)]


class StrictModel(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)


class Revision(StrictModel):
    """How a low score leads to the next generation."""

    strategy: Literal["revise", "fresh", "encourage"] = "revise"
    start_from: Literal["best", "last"] = Field(default="best", alias="from")


class Stop(StrictModel):
    plateau_patience: int = Field(default=2, ge=0, le=10)
    plateau_delta: Fraction = 0.02


class Limits(StrictModel):
    """For the whole job, from its submission on."""

    deadline_s: float = Field(default=600, gt=0, le=86_400, allow_inf_nan=False)
    max_cost_usd: float | None = Field(default=None, gt=0, le=1_000_000, allow_inf_nan=False)
    max_tokens: int | None = Field(default=None, ge=1, le=10**12, description="Input and output together.")


class Sampling(StrictModel):
    """None = not sent to the provider."""

    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    max_output_tokens: int | None = Field(default=None, ge=1, le=1_000_000)


class Webhook(StrictModel):
    """Who is told of a job's events, by Standard Webhooks."""

    url: WebhookUrl = Field(description="http or https, without credentials.")
    events: list[EventType] = Field(
        default=["done"], min_length=1, max_length=len(EVENT_TYPES), description="The types of events to send."
    )


class EvaluationFields(StrictModel):
    """What both kinds of job share: the task, and how an answer to it is judged."""

    instruct: FilledText = Field(description="The question or task.")
    resp_format: Text = Field(default="", description="The wanted form of the answer, in words.")
    eval_crit: FilledText | None = Field(default=None, description="The criteria, in words.")
    score_threshold: Fraction = Field(default=0.8, description="Accept at or above; 0 is a legal value.")
    evaluator_model: ModelName | None = Field(default=None, description="provider:name; null: the configured one.")
    profile: Literal["criteria"] = Field(default="criteria", description="A named way to evaluate.")
    conversation: list[Turn] = Field(default=[], max_length=100, description="Earlier [user, assistant] turns.")
    reference: FilledText | None = Field(default=None, description="A known good answer; only the evaluator sees it.")
    limits: Limits = Limits()
    sampling: Sampling = Sampling()
    cache: Literal["off", "use"] = Field(default="off", description="use: take the reply of an identical earlier call.")
    webhook: Webhook | None = Field(default=None, description="Where the job's events are sent; docs/webhooks.md.")
    metadata: Metadata = {}

    @model_validator(mode="after")
    def _has_something_to_evaluate_by(self) -> Self:
        if self.eval_crit is None:
            words = "profile 'criteria' needs eval_crit: say what makes an answer good"
            raise PydanticCustomError("nothing_to_evaluate_by", words, {"field": "eval_crit"})
        return self


class GenerateAnswer(EvaluationFields):
    """A job that writes an answer: generate, evaluate, revise until it is accepted."""

    iter_max: int = Field(default=3, ge=1, le=10, description="Generate + evaluate rounds at most.")
    model: ModelName | Annotated[list[ModelName], Field(min_length=1, max_length=10)] | None = Field(
        default=None, description="provider:name, or a ladder: iteration k uses entry min(k, last)."
    )
    system_instructions: Text | None = Field(default=None, description="Added to the generator's system prompt.")
    candidates: int = Field(default=1, ge=1, le=8, description="Parallel attempts per iteration; the best goes on.")
    revision: Revision = Revision()
    stop: Stop = Stop()
    answer_schema: dict[str, Any] | None = Field(
        default=None, description="A JSON Schema of an object; the answer must be JSON that fits it."
    )
    stream: bool = Field(default=False, description="Publish the answer's text while it is written.")


class EvaluateAnswer(EvaluationFields):
    """A job that judges a given answer once."""

    answer: Answer


class ContinueJob(StrictModel):
    """More iterations for a job that has ended; what is null stays as it was."""

    iter_max: int | None = Field(default=None, ge=1, le=10, description="Further rounds at most; null: as at first.")
    score_threshold: Fraction | None = None
    model: ModelName | Annotated[list[ModelName], Field(min_length=1, max_length=10)] | None = None
    evaluator_model: ModelName | None = None
    guidance: FilledText | None = Field(default=None, description="A person's own feedback for the next prompt.")
    limits: Limits | None = None


AnyRequest = GenerateAnswer | EvaluateAnswer


def ladder(request: GenerateAnswer) -> tuple[str, ...]:
    """The generator's models in order; the request must be normalised (model set)."""
    models = request.model
    return tuple(models) if isinstance(models, list) else (models or "",)


def dump(request: StrictModel) -> dict[str, Any]:
    """As stored and shown: plain JSON values under the contract's names."""
    return request.model_dump(mode="json", by_alias=True)
