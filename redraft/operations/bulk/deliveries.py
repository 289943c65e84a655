"""Decides whether the calls of a run are made live, or delivered by batches of the providers."""

from redraft.domain.bulk.phrases import count
from redraft.domain.calls.model_names import parse_model
from redraft.domain.jobs.requests import AnyRequest
from redraft.errors import Invalid
from redraft.operations.request_views import models_named
from redraft.operations.services import Services


def check_batches(services: Services, request: AnyRequest) -> None:
    """Raise Invalid (code `batch_unsupported`) if a model of a normalised request has no batch endpoint."""
    for name in models_named(request):
        services.providers.check_batches(parse_model(name), "/delivery")


def choose_delivery(services: Services, wanted: str, items: int, request: AnyRequest) -> tuple[str, str | None]:
    """Return the delivery of a run, and the reason if the user left the choice to Redraft.

    Args:
        services: the services.
        wanted: `live`, `batch` or `auto`.
        items: the number of items of the run.
        request: the normalised request of the first item.

    Raises:
        Invalid: batches are wanted, and a model has no batch endpoint (code `batch_unsupported`).
    """
    if wanted == "live":
        return "live", None
    try:
        check_batches(services, request)
    except Invalid as error:
        if wanted == "batch":
            raise
        return "live", error.message
    if wanted == "batch":
        return "batch", None
    least = services.settings.batch_min_rows
    if items < least:
        return "live", f"The run has {count(items, 'item')}, fewer than the {least} of REDRAFT_BATCH_MIN_ROWS."
    return "batch", f"All models have batch endpoints, and the run has {count(items, 'item')}."
