"""Where a request to a user's URL goes. It is read once, here: who checks it and who connects see the same host."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_CHARACTERS = re.compile(r"[!-\[\]-~]+")
# What all parsers of URLs read alike: a name or an IPv4 address, an IPv6 address, a port; no user, no escapes.
_AUTHORITY = re.compile(r"(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9._])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Goal:
    """A URL in the parts of a request; `target` is path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def receiver(self) -> str:
        """Host and port: who is spared when it is slow, and named in logs."""
        return f"{self.host}:{self.port}"


def read_goal(url: str) -> Goal:
    """The parts of a http or https URL.

    Raises:
        ValueError: it is none, or not one that every parser reads alike; the message follows the field's name.
    """
    if not _CHARACTERS.fullmatch(url):
        raise ValueError("must be in ASCII without spaces and backslashes: other letters in the xn-- form or escaped")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.netloc:
        raise ValueError("must begin with http:// or https:// and a host")
    if "@" in parts.netloc:
        raise ValueError("must hold no user and no password")
    if not _AUTHORITY.fullmatch(parts.netloc) or not parts.hostname or parts.port == 0:
        raise ValueError("must name a host by letters, digits, dots and hyphens, or an address, and a port if any")
    query = f"?{parts.query}" if parts.query else ""
    return Goal(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme], (parts.path or "/") + query)
