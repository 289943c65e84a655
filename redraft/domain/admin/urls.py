"""Parse the URLs that users give. No other module parses them, so that check and connection use the same host."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_CHARACTERS = re.compile(r"[!-\[\]-~]+")
# Matches only what all URL parsers read in the same way: a name or an IP address, and a port; no user, no escapes.
_AUTHORITY = re.compile(r"(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9._])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The parts of a URL; `target` is path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def receiver(self) -> str:
        """Host and port. Slow receivers are throttled by this name, and logs show it."""
        return f"{self.host}:{self.port}"


def url_error(url: str) -> str | None:
    """Return why a URL cannot be used, or None."""
    try:
        read_url(url)
    except ValueError as error:
        return str(error)
    return None


def read_url(url: str) -> RequestTarget:
    """Parse an http or https URL.

    Raises:
        ValueError: the text is no http or https URL, or URL parsers disagree about its parts. The message continues a
            sentence that begins with the field's name.
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
    return RequestTarget(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme], (parts.path or "/") + query)
