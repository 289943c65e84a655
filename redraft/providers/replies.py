"""What both wire formats share in reading an answer."""

from typing import TYPE_CHECKING, Any, cast

from redraft.errors import ProviderError
from redraft.providers.failures import Answer, Vendor, failure_of_answer, parse_json, unreadable

if TYPE_CHECKING:
    import httpx2


_TOKENS_MAX = 10**9
EMPTY = "The reply has no text."
TOOL_CALL_ONLY = "The reply has no text: a tool call only."
REASONING_ONLY = "The reply has no text: reasoning only."


def read_answer(vendor: Vendor, response: "httpx2.Response") -> Answer:
    """The answer with its body as JSON values.

    Raises:
        ProviderError: it has an error status, is no JSON object, or is an error in spite of its 200.
    """
    headers = dict(response.headers)
    if response.status_code >= 300:
        raise failure_of_answer(vendor, Answer(response.status_code, _json_or_text(response), headers))
    try:
        body = parse_json(response.content)
    except ValueError:
        raise unreadable(vendor, response.status_code, response.text, headers) from None
    if not isinstance(body, dict):
        raise unreadable(vendor, response.status_code, response.text, headers)
    return Answer(response.status_code, body, headers)


def _json_or_text(response: "httpx2.Response") -> Any:
    try:
        return parse_json(response.content)
    except ValueError:
        return response.text


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one: bodies are never what they should be."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """The value if it is an array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def count(value: Any) -> int | None:
    """A number of tokens, or None where there is none that can be true."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _TOKENS_MAX else None


def words(value: Any) -> str:
    """The value if it is text, else nothing: None never becomes "None"."""
    return value if isinstance(value, str) else ""


def content_text(content: Any) -> str:
    """A message's content, text or a list of parts, as text."""
    return words(content) or "".join(words(mapping(part).get("text")) for part in items(content))


def truncation(*, has_text: bool) -> str:
    if has_text:
        return "The reply was cut off at the output limit. Raise sampling.max_output_tokens."
    return (
        "The reply was truncated before text: all of the output limit went into reasoning."
        " Raise sampling.max_output_tokens."
    )


def sound_key(key: str, vendor: Vendor) -> str:
    """The key without blanks around it.

    Raises:
        ProviderError: it holds what no header can (code `provider_auth`).
    """
    trimmed = key.strip()
    if trimmed and not (trimmed.isascii() and trimmed.isprintable()):
        raise ProviderError("provider_auth", f"The key in {vendor.key_setting} holds characters that no key has.")
    return trimmed
