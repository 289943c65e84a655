"""The request bodies of bulk runs."""

from typing import Annotated, Any, Literal

from pydantic import Field

from redraft.domain.bodies.fields import As, StrictModel, Text
from redraft.domain.jobs.requests import JobFields, WebhookUrl
from redraft.domain.jobs.webhooks import RunEventType

RunName = Annotated[Text, Field(max_length=500)]
DatasetId = Annotated[Text, Field(max_length=40)]
Budget = Annotated[float, Field(ge=1e-6, le=1_000_000, allow_inf_nan=False)]


class RunWebhook(StrictModel):
    """The URL that receives a run's events by Standard Webhooks."""

    url: WebhookUrl = Field(description="http or https, without credentials.")
    events: list[RunEventType] = Field(
        default=["run.finished"],
        min_length=1,
        max_length=3,
        description="The types of events to send. Only runs of a schedule with gates have `run.gate_failed`.",
    )


class CreateRun(StrictModel):
    """Runs the rows of a dataset as jobs, a limited number at a time and with a lower priority than single jobs."""

    dataset_id: DatasetId
    name: RunName | None = Field(default=None, description="null or empty: the dataset's name.")
    defaults: Annotated[dict[str, Any], As(JobFields)] = Field(
        default={}, description="Fields of a job, and vars, for rows without them."
    )
    overrides: Annotated[dict[str, Any], As(JobFields)] = Field(
        default={}, description="Fields of a job, and vars, that replace the values of the rows."
    )
    repeat: int = Field(default=1, ge=1, le=100, description="The number of jobs per row.")
    max_in_flight: int = Field(
        default=32,
        ge=1,
        le=10_000,
        description="The maximum number of jobs at once. Jobs that wait for a batch do not count.",
    )
    max_cost_usd: Budget | None = Field(default=None, description="For the whole run. null: no limit.")
    delivery: Literal["live", "batch", "auto"] = Field(
        default="live",
        description="batch: by the batch endpoints of the providers, at half the price; each round may take up to 24 "
        "hours. auto: batch if every model has such an endpoint and the run has at least REDRAFT_BATCH_MIN_ROWS items.",
    )
    webhook: RunWebhook | None = Field(
        default=None,
        description="Receives the events of the run. `webhook` in `defaults` receives the events of each job.",
    )


class ResumeRun(StrictModel):
    """The items to run again, and a new budget."""

    retry: Literal["open", "errors", "failed"] = Field(
        default="open",
        description="open: items that were not started or were canceled. errors: failed items as well. failed: only "
        "failed items.",
    )
    max_cost_usd: Budget | None = Field(
        default=None,
        description="A larger budget for the whole run; items that the old one stopped continue. null: unchanged.",
    )
