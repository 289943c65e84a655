"""The attachments of model calls: their data, and the maximum number of tokens that they use."""

from collections.abc import Mapping
from typing import Any

from redraft.domain.calls.model_names import ModelRef
from redraft.domain.jobs.attachments import StoredAttachment
from redraft.domain.jobs.requests import AnyRequest
from redraft.errors import ProviderError
from redraft.operations.services import Services
from redraft.providers.shared.media import digests_in, tokens_max
from redraft.storage.jobs import attachments


def files_of(services: Services, job_id: str, body: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the base64 of the files that a planned body refers to, by digest. None if the body refers to no file.

    Raises:
        ProviderError: a file is missing, because the job was deleted.
    """
    digests = digests_in(body)
    if not digests:
        return None
    with services.database.read() as connection:
        found = attachments.base64_of(connection, job_id, digests)
    if len(found) < len(digests):
        raise ProviderError("provider_bad_request", "The attachments of the job were deleted with the job.")
    return found


def attached_tokens(ref: ModelRef, request: AnyRequest) -> int:
    """Return the maximum of tokens of the attachments of a normalised request."""
    return sum(tokens_max(ref, each.pages) for each in request.attachments if isinstance(each, StoredAttachment))
