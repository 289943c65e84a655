"""Client of Redraft, a self-hosted service that writes answers iteratively.

```python
with Redraft("http://127.0.0.1:8000") as redraft:
    print(redraft.generate_answer(instruct="Explain vector clocks", eval_crit="Correct, with an example").text)
```
"""

from redraft_client._protocol import Response, Retries
from redraft_client.async_client import AsyncRedraft
from redraft_client.client import Redraft
from redraft_client.errors import (
    ApiError,
    InvalidSignature,
    JobFailed,
    RedraftError,
    ServerNotReached,
    UnexpectedResponse,
    WaitTimeout,
)
from redraft_client.results import Answer, StreamedEvent
from redraft_client.webhooks import WebhookBody, verify_webhook

__all__ = [
    "Answer",
    "ApiError",
    "AsyncRedraft",
    "InvalidSignature",
    "JobFailed",
    "Redraft",
    "RedraftError",
    "Response",
    "Retries",
    "ServerNotReached",
    "StreamedEvent",
    "UnexpectedResponse",
    "WaitTimeout",
    "WebhookBody",
    "verify_webhook",
]
