"""Computes the hashes of rows and datasets from their values, so that the format of the file does not matter.

The hash of a row is the SHA-256 of its canonical JSON. This is one object with the request fields that the columns of
the row fill, and with `custom_id`, `human_score`, `human_pass`, `vars` and `unused` (the columns that fill no field).
Aliases, mapping and dotted names are resolved. Names are sorted, and there is no white space. Numbers without a
fraction are integers (1.0 is 1). Texts are UTF-8 with only the escapes that JSON requires. The hash of a row that
cannot be read is the hash of its text.

The hash of a dataset is its version: the SHA-256 of the 32 bytes of each row hash in order. Blank lines, encoding, line
ends, order of columns and delimiter do not change the version.
"""

import hashlib
import json
from array import array
from collections.abc import Mapping
from typing import Any, cast

_SLOTS_AT_FIRST = 1024
_EMPTY = 0


def canonical(row: Mapping[str, Any]) -> str:
    """Return the canonical JSON of a row. Raises ValueError if a number is not finite, which JSON cannot express."""
    return json.dumps(_whole(row), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_whole(each) for each in cast("list[Any]", value)]
    return value


def hash_of(text: str) -> str:
    """Return the SHA-256 of a text in hex. The text may have lone surrogates."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class DatasetHash:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, row_hash: str) -> None:
        self._hash.update(bytes.fromhex(row_hash))

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


class FirstLines:
    """The first line of each id, in a hash table with open addressing.

    The table needs 32 to 64 bytes per id, half as much as a dict. It stores 8 bytes of a hash of each id. The
    probability that two of a million ids have the same 8 bytes is 3 in 100 million.
    """

    def __init__(self) -> None:
        self._keys = array("Q", bytes(8 * _SLOTS_AT_FIRST))
        self._lines = array("Q", bytes(array("Q").itemsize * _SLOTS_AT_FIRST))
        self._count = 0

    def add(self, name: str, line: int) -> int | None:
        """Return the first line with the same id, or store a new id and return None."""
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        # 0 is the key of a free slot
        key = int.from_bytes(digest) or 1
        slot = self._slot_of(key)
        if self._keys[slot] == key:
            return self._lines[slot]
        self._keys[slot], self._lines[slot] = key, line
        self._count += 1
        # At least half of the slots stay free, so that the search for a slot stays short
        if 2 * self._count > len(self._keys):
            self._grow()
        return None

    def _slot_of(self, key: int) -> int:
        """Return the slot of a key, or the free slot for a new key."""
        keys, last = self._keys, len(self._keys) - 1
        slot = key & last
        while keys[slot] not in (_EMPTY, key):
            slot = (slot + 1) & last
        return slot

    def _grow(self) -> None:
        keys, lines = self._keys, self._lines
        self._keys = array("Q", bytes(2 * 8 * len(keys)))
        self._lines = array("Q", bytes(2 * lines.itemsize * len(lines)))
        for key, line in zip(keys, lines, strict=True):
            if key != _EMPTY:
                slot = self._slot_of(key)
                self._keys[slot], self._lines[slot] = key, line
