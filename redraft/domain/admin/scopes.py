"""Scopes of API keys. A key has exactly the scopes that it was created with. No scope implies another scope."""

from collections.abc import Iterable
from enum import StrEnum


class Scope(StrEnum):
    READ = "read"
    WRITE = "write"
    METRICS = "metrics"
    ADMIN = "admin"


DEFAULT_SCOPES = frozenset({Scope.READ, Scope.WRITE})


def spell(scopes: Iterable[Scope]) -> str:
    """Format scopes as they are stored and shown: in the order of their definition, separated by spaces."""
    wanted = set(scopes)
    return " ".join(scope.value for scope in Scope if scope in wanted)


def read(text: str) -> frozenset[Scope]:
    """Parse scopes from their stored form. Unknown words are ignored, so they grant nothing."""
    known = {scope.value for scope in Scope}
    return frozenset(Scope(word) for word in text.split() if word in known)
