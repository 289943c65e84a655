"""The request bodies of schedules, which start runs at regular times."""

from typing import Annotated

from pydantic import Field

from redraft.domain.bodies.fields import StrictModel, Text
from redraft.domain.bulk.run_requests import CreateRun

CronWords = Annotated[Text, Field(min_length=1, max_length=200)]


class RunGates(StrictModel):
    """Gates that are checked when a scheduled run ends."""

    min_pass_rate: float | None = Field(
        default=None, ge=0, le=1, allow_inf_nan=False, description="The minimum share of accepted items of all items."
    )
    fail_on_regression: bool = Field(
        default=False, description="Fail if the run is significantly worse than the last finished run of the schedule."
    )


class CreateSchedule(StrictModel):
    """Starts a run of a dataset at regular times."""

    cron: CronWords = Field(
        description="Minute, hour, day of the month, month, day of the week (0 or sun is Sunday), in UTC: "
        "`0 6 * * mon-fri`."
    )
    run: CreateRun = Field(description="The request of each run, as for `POST /v1/runs`.")
    gates: RunGates = Field(default=RunGates(), description="If a gate fails, the webhook gets `run.gate_failed`.")
