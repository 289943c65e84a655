"""The bodies of webhooks, for the section `webhooks` of the API document: what receivers are sent."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from redraft.domain.jobs.webhooks import EVENT_TYPES, RunEventType, message_type
from redraft.operations.bulk.run_completion import RunFinished
from redraft.operations.jobs.resources import EventData
from redraft.operations.resource_base import Moment, Resource

_SIGNED = "Signed by Standard Webhooks 1.0: `webhook-id`, `webhook-timestamp`, `webhook-signature`."


class _Data(Resource):
    url: str = Field(description="The path of the job or run.")
    truncated: bool = Field(description="Whether null stands for parts that are too long.")


class JobWebhookData(_Data):
    """An event of a job."""

    job_id: str
    metadata: dict[str, str]
    seq: int = Field(description="The number of the event.")
    event: EventData


class JobWebhookBody(Resource):
    """What the webhook of a job is sent."""

    type: str = Field(json_schema_extra={"enum": [message_type(each) for each in EVENT_TYPES]})
    timestamp: Moment
    data: JobWebhookData


class RunWebhookData(_Data):
    """The end of a run."""

    run_id: str
    seq: int = Field(description="The version of the run; a run that is resumed has a larger one at its next end.")
    event: RunFinished


class RunWebhookBody(Resource):
    """What the webhook of a run is sent."""

    type: RunEventType
    timestamp: Moment
    data: RunWebhookData


_BODIES: Mapping[str, tuple[str, type[Resource]]] = {
    "job.event": ("An event of a job that its webhook asks for.", JobWebhookBody),
    "run.finished": ("A run has ended; a run that is resumed ends again.", RunWebhookBody),
}
_REF = "#/components/schemas/{model}"


def describe_webhooks(document: dict[str, Any]) -> None:
    """Add the section `webhooks` to the API document, and the schemas of its bodies."""
    models: list[tuple[type[Resource], JsonSchemaMode]] = [(body, "serialization") for _, body in _BODIES.values()]
    _, found = models_json_schema(models, ref_template=_REF)
    schemas = document["components"]["schemas"]
    schemas.update({name: schema for name, schema in found["$defs"].items() if name not in schemas})
    document["webhooks"] = {name: {"post": _operation(*each)} for name, each in _BODIES.items()}


def _operation(summary: str, body: type[Resource]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _REF.format(model=body.__name__)}}}
    return {
        "summary": summary,
        "description": _SIGNED,
        "tags": ["webhooks"],
        "requestBody": {"required": True, "content": content},
        "responses": {"2XX": {"description": "Taken. After any other answer the webhook is sent again."}},
    }
