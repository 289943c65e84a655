"""The request bodies of bulk runs."""

from typing import Annotated, Any, Literal

from pydantic import Field

from redraft.domain.bodies.fields import As, StrictModel, Text
from redraft.domain.jobs.requests import JobFields, WebhookUrl
from redraft.domain.jobs.webhooks import RunEventType

MAX_IN_FLIGHT = 10_000

RunName = Annotated[Text, Field(max_length=500)]
DatasetId = Annotated[Text, Field(max_length=40)]
Budget = Annotated[float, Field(ge=1e-6, le=1_000_000, allow_inf_nan=False)]


class RunWebhook(StrictModel):
    """The URL that receives a run's events by Standard Webhooks."""

    url: WebhookUrl = Field(description="http or https, without credentials.")
    events: list[RunEventType] = Field(
        default=["run.finished"], min_length=1, max_length=1, description="The types of events to send."
    )


class CreateRun(StrictModel):
    """A dataset's rows as jobs: a window of them at a time, in the background of what people ask for."""

    dataset_id: DatasetId
    name: RunName | None = Field(default=None, description="null or empty: the dataset's name.")
    defaults: Annotated[dict[str, Any], As(JobFields)] = Field(
        default={}, description="Fields of a job, and vars, for rows that lack them."
    )
    overrides: Annotated[dict[str, Any], As(JobFields)] = Field(
        default={}, description="The same, over what the rows say."
    )
    repeat: int = Field(default=1, ge=1, le=100, description="Do each row so often.")
    max_in_flight: int = Field(default=32, ge=1, le=MAX_IN_FLIGHT, description="Jobs at once, at most.")
    max_cost_usd: Budget | None = Field(default=None, description="For the whole run; null: no limit.")
    webhook: RunWebhook | None = Field(
        default=None, description="Where the end of the run is sent; `webhook` in `defaults` is that of each job."
    )


class ResumeRun(StrictModel):
    """Which items are done anew: those that were not started or were canceled, and failed ones if asked for."""

    retry: Literal["open", "errors"] = Field(default="open", description="errors: failed items, too.")
    max_cost_usd: Budget | None = Field(
        default=None,
        description="A larger budget for the whole run: what the old one stopped goes on. null: it stays.",
    )
