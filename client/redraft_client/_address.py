"""The server's address with its key, and the translation between the protocol and the HTTP library."""

import os
import re
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2

from redraft_client._protocol import Failure, Request, Response

_LOCAL = "http://127.0.0.1:8000"
_VISIBLE = re.compile(r"[!-~]+")
# A request that fails with one of these has not reached the server
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)


@dataclass(frozen=True, slots=True)
class Address:
    """The URL and the API key of a server. The `repr` does not show the key."""

    url: str
    api_key: str | None = field(repr=False)
    timeout_s: float

    @classmethod
    def of(cls, server: str | None, api_key: str | None, timeout_s: float) -> Self:
        """Return the address; by default REDRAFT_SERVER and REDRAFT_API_KEY. Raises ValueError if a value is wrong."""
        url = (server or os.environ.get("REDRAFT_SERVER") or _LOCAL).rstrip("/")
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("The server must be an http or https URL, such as https://redraft.example.com.")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("The server's URL must have no credentials, no query and no fragment. Pass api_key=.")
        key = (api_key or os.environ.get("REDRAFT_API_KEY") or "").strip() or None
        # Checked here, because the error of the HTTP client would contain the key
        if key and not _VISIBLE.fullmatch(key):
            raise ValueError("The API key contains a character that no key has. Copy it again.")
        return cls(url, key, timeout_s)

    def arguments(self, request: Request) -> dict[str, Any]:
        """Return the arguments of the HTTP client for a request."""
        key = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        read_s = self.timeout_s + request.wait_s
        return {
            "method": request.method,
            "url": self.url + request.path,
            "params": list(request.params),
            "headers": {"User-Agent": "redraft-client", **request.headers, **key},
            "content": request.content,
            "timeout": httpx2.Timeout(self.timeout_s, read=read_s),
        }

    def failure(self, error: httpx2.RequestError) -> Failure:
        words = f"The server at {self.url} was not reached: {type(error).__name__}: {error}."
        return Failure(f"{words} Is the URL right, and does the server run?", not isinstance(error, _NOT_SENT))


def response_of(found: httpx2.Response) -> Response:
    headers = {name.lower(): value for name, value in found.headers.items()}
    return Response(found.status_code, headers, found.content)
