"""Sends the requests of the tools to the API, and turns its problem documents into texts."""

import json
from collections.abc import Mapping
from typing import Any, cast

import httpx2


class ToolError(Exception):
    """A tool cannot do what was asked. The message says what is wrong, where, and what to do."""


class ApiClient:
    """Sends requests to the API with the headers of one caller."""

    def __init__(self, client: httpx2.AsyncClient, headers: Mapping[str, str] | None = None) -> None:
        self._client = client
        self._headers = headers or {}

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a request and return its response. Raises ToolError if the API refuses it, or cannot be reached."""
        sent = {**self._headers, **(headers or {})}
        try:
            response = await self._client.request(method, path, json=body, params=query, headers=sent)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            words = f"Redraft at {self._client.base_url} cannot be reached ({type(error).__name__})."
            raise ToolError(f"{words} Check that its server runs, and the address in REDRAFT_SERVER.") from error
        if response.status_code >= 400:
            raise ToolError(_words_of(response))
        return response


def _words_of(response: httpx2.Response) -> str:
    """Return the text of a problem document (RFC 9457): its detail, its code, and each wrong field."""
    try:
        found: Any = response.json()
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or "detail" not in found:
        return f"The server answered with status {response.status_code}, but not in the format of Redraft."
    problem = cast("dict[str, Any]", found)
    lines = [f"{problem['detail']} ({problem.get('code')})"]
    lines += [f"{each['pointer'] or '(body)'}: {each['detail']}" for each in problem.get("errors") or ()]
    if problem.get("retryable"):
        lines.append("The same call may succeed later.")
    return "\n".join(lines)
