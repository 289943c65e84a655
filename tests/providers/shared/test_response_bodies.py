"""Bodies of responses are read within a limit."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import httpx2
import pytest

from redraft.errors import ProviderError
from redraft.providers.shared.failures import Vendor
from redraft.providers.shared.response_bodies import BODY_BYTES_MAX, bytes_of


@pytest.mark.parametrize(
    ("encodings", "words"), [("gzip", "more than 64 MB"), ("gzip, gzip", "a body that is compressed more than once")]
)
def test_a_small_body_that_unpacks_to_a_large_one_is_refused(encodings: str, words: str):
    async def packed() -> AsyncIterator[bytes]:
        yield gzip.compress(bytes(BODY_BYTES_MAX + 1), 1)

    async def read() -> int:
        response = httpx2.Response(200, headers={"content-encoding": encodings}, content=packed())
        return sum([len(part) async for part in bytes_of(Vendor("the server", "KEY", "URL"), response)])

    with pytest.raises(ProviderError, match=rf"The server sent {words}\. Check URL\.") as refused:
        asyncio.run(read())
    assert not refused.value.retryable
