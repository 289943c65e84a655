"""What an API key may do. A key has exactly the scopes that it was given: none implies another."""

from collections.abc import Iterable
from enum import StrEnum


class Scope(StrEnum):
    READ = "read"
    WRITE = "write"
    METRICS = "metrics"
    ADMIN = "admin"


DEFAULT_SCOPES = frozenset({Scope.READ, Scope.WRITE})


def spell(scopes: Iterable[Scope]) -> str:
    """As stored and shown: in the order of the definition, with spaces between."""
    wanted = set(scopes)
    return " ".join(scope.value for scope in Scope if scope in wanted)


def read(text: str) -> frozenset[Scope]:
    """The scopes in a spelling. A word that this version does not know opens nothing."""
    known = {scope.value for scope in Scope}
    return frozenset(Scope(word) for word in text.split() if word in known)
