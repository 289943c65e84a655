"""Reads the bodies of responses within a limit, because a small compressed body can become gigabytes."""

import codecs
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from redraft.errors import ProviderError
from redraft.providers.shared.failures import Vendor

if TYPE_CHECKING:
    import httpx2

BODY_BYTES_MAX = 64 * 1024 * 1024


async def bytes_of(vendor: Vendor, response: "httpx2.Response") -> AsyncIterator[bytes]:
    """Yield the decompressed body.

    Raises:
        ProviderError: if the body is longer than the limit, or compressed more than once.
    """
    size = 0
    async for part in parts_of(vendor, response):
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise _refusal(vendor, response, f"more than {BODY_BYTES_MAX // 1024**2} MB")
        yield part


async def parts_of(vendor: Vendor, response: "httpx2.Response") -> AsyncIterator[bytes]:
    """Yield the decompressed parts of a body of any length, for a caller that keeps none of them in memory.

    Raises:
        ProviderError: if the body is compressed more than once.
    """
    # If a body is compressed twice, even one part of it can become gigabytes
    if "," in response.headers.get("content-encoding", ""):
        raise _refusal(vendor, response, "a body that is compressed more than once")
    async for part in response.aiter_bytes():
        yield part


def _refusal(vendor: Vendor, response: "httpx2.Response", what: str) -> ProviderError:
    words = f"{vendor.capital} sent {what}. Check {vendor.url_setting}."
    return ProviderError("provider_bad_request", words, http_status=response.status_code)


async def texts_of(vendor: Vendor, response: "httpx2.Response") -> AsyncIterator[str]:
    """Yield the decompressed body as text. JSON is UTF-8, whatever charset the server names."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async for part in bytes_of(vendor, response):
        yield decoder.decode(part)
    yield decoder.decode(b"", final=True)
