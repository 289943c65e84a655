"""The settings of runs that are delivered by batches of the providers, a part of `settings.py`."""

from typing import Literal

from pydantic import BaseModel, Field


class BatchSettings(BaseModel):
    """The base class of `Settings` for these fields."""

    batch_min_rows: int = Field(
        default=100, ge=1, description="Runs with the delivery auto and at least this many items use batches."
    )
    batch_poll_s: float = Field(default=60.0, gt=0, description="Pause before a batch is read again at its provider.")
    batch_attempts_max: int = Field(
        default=3, ge=1, le=20, description="Batches that a call goes into before a transient failure is final."
    )
    batch_fallback: Literal["live", "fail"] = Field(
        default="live", description="What follows these batches: the job goes on with live calls, or it ends."
    )
