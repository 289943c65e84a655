"""Checks the values of settings: URLs, keys, and the environment that HTTP clients read.

Each check returns a message for an invalid value, or else None. The message never repeats the value, which may contain
a password.
"""

import base64
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from pydantic import BaseModel, Field

_BROKER_FORM = (
    "must look like redis://user:password@host:6379/0, rediss://… with TLS, valkey://…, valkeys://… or "
    "unix:///path/to/socket"
)
_DATABASE_FORM = "must look like sqlite:////path/to/file or postgresql://user:password@host:5432/name"
_HTTP_FORM = "must look like https://host/path or http://host:port/path"
_ESCAPED = "; special characters in a password are written %40 for @, %2F for /, %3A for :"
_PLAIN_BROKERS = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss"}
_SOCKET_BROKERS = frozenset({"unix", "redis+socket", "redis+unix", "valkey+socket"})
_DATABASES = {
    **dict.fromkeys(("postgres", "postgresql", "postgresql+psycopg"), "postgresql+psycopg"),
    "sqlite": "sqlite",
}
_PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_PROXIES = frozenset({"http", "https", "socks5", "socks5h"})
_HEADER = re.compile(r"[\x21-\x7e]+")
# Resolvers read a name as an IPv4 address if its last part is a decimal, octal or hexadecimal number
NUMERIC_NAME = re.compile(r"(?:.*\.)?(?:0x[0-9a-f]*|[0-9]+)\.?", re.IGNORECASE)
_SWITCHES = frozenset({"true", "false", "yes", "no", "on", "off"})
_HOST_NAME = re.compile(r"[^\s/@?#%*]+")
# The maximum length of the path of a Unix socket is 107 bytes on Linux, and 103 on macOS
_SOCKET_PATH_BYTES = 100
# Standard Webhooks asks for 24 to 64 bytes
_SECRET_BYTES = range(24, 65)


def broker_error(url: str) -> str | None:
    parts = _split(url)
    if parts is None:
        return _BROKER_FORM + _ESCAPED
    if parts.scheme in _SOCKET_BROKERS:
        return None if len(parts.path) > 1 and not parts.netloc and _has_database(parts) else _BROKER_FORM
    if "://" not in url and re.fullmatch(r"[\w.-]+(:\d+)?", url):
        return f"{_BROKER_FORM}; did you mean redis://{url}?"
    if parts.scheme not in _PLAIN_BROKERS:
        return _BROKER_FORM
    if not parts.hostname or parts.fragment or not re.fullmatch(r"/?\d*", parts.path):
        return _BROKER_FORM + _ESCAPED
    strange = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if not name.startswith("ssl_")]
    return f"{_BROKER_FORM}; behind the ? only ssl_… parameters are known" if strange else None


def _has_database(parts: SplitResult) -> bool:
    return all(name in {"db", "virtual_host"} and value.isdigit() for name, value in parse_qsl(parts.query))


def kombu_url(url: str) -> str:
    return _broker_url(url, "redis+socket", "virtual_host")


def redis_url(url: str) -> str:
    return _broker_url(url, "unix", "db")


def _broker_url(url: str, socket_scheme: str, database_name: str) -> str:
    # kombu and redis-py use different schemes for Unix sockets, and different names for the number of the database
    parts = urlsplit(url)
    if parts.scheme in _SOCKET_BROKERS:
        numbers = [(database_name, value) for _, value in parse_qsl(parts.query)]
        return f"{socket_scheme}://{parts.path}" + (f"?{urlencode(numbers)}" if numbers else "")
    return f"{_PLAIN_BROKERS[parts.scheme]}{url[len(parts.scheme) :]}"


def database_error(url: str) -> str | None:
    scheme, separator, rest = url.partition("://")
    if scheme not in _DATABASES or not separator:
        return _DATABASE_FORM
    if scheme == "sqlite":
        return None if len(rest) > 1 and rest.startswith("/") and ":memory:" not in rest else _DATABASE_FORM
    parts = _split(url)
    if parts is None or parts.fragment:
        return _DATABASE_FORM + _ESCAPED
    return None


def sqlalchemy_url(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{_DATABASES[scheme]}://{rest}"


def http_error(url: str) -> str | None:
    parts = _split(url)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        return _HTTP_FORM
    if "@" in parts.netloc:
        return f"{_HTTP_FORM}, without a user and a password"
    return None


def key_error(key: str) -> str | None:
    """Check a key that is sent in an HTTP header. Blanks around the key are allowed, since they are not sent."""
    stripped = key.strip()
    if not stripped or _HEADER.fullmatch(stripped):
        return None
    strange = next(each for each in stripped if not _HEADER.fullmatch(each))
    words = f"holds the character U+{ord(strange):04X}, which no HTTP header can carry; copy the key again, without"
    return f"{words} quotation marks and line breaks"


def secrets_error(secrets: str) -> str | None:
    if all(len(key) in _SECRET_BYTES for key in webhook_keys(secrets)):
        return None
    return "must be whsec_ and the base64 of 24 to 64 random bytes"


def webhook_keys(secrets: str) -> list[bytes]:
    """Decode the keys of webhook secrets. A secret with another form gives an empty key."""
    return [
        _decoded(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else b"" for secret in secrets.split()
    ]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def password_of(url: str) -> str:
    """Return the password of a URL in its encoded form, or an empty text."""
    before_host = url.partition("://")[2].rpartition("@")[0]
    return before_host.partition(":")[2]


def socket_of(folder: Path) -> Path:
    """Return the path of the socket in a folder, or, if that is too long, in a private folder of the user."""
    if len(os.fsencode(folder / "valkey.sock")) <= _SOCKET_PATH_BYTES:
        return folder / "valkey.sock"
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"redraft-{os.getuid()}" / f"{name}.sock"


def headers_of(text: str) -> dict[str, str]:
    """Read headers from `name=value` pairs with percent-encoded values, as OpenTelemetry specifies them."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}


def places_error(text: str) -> str | None:
    if switch := next((part for part in _parts(text) if part in _SWITCHES), None):
        return f"holds {switch!r}, which names no host: name networks and hosts, such as 10.0.0.0/8 hooks.internal"
    try:
        _, names = networks_and_names(text)
    except ValueError as error:
        return f"holds a part that is neither a network nor a name: {error}"
    strange = next((name for name in sorted(names) if not _HOST_NAME.fullmatch(name)), None)
    return f"holds {strange!r}, which is neither a network nor a name" if strange else None


def networks_and_names(text: str) -> tuple[tuple[IPv4Network | IPv6Network, ...], frozenset[str]]:
    """Return the networks and names in a text, separated by spaces or commas. Raises ValueError for a bad network."""
    numeric = [part for part in _parts(text) if "/" in part or ":" in part or NUMERIC_NAME.fullmatch(part)]
    names = frozenset(part.rstrip(".") for part in _parts(text) if part not in numeric)
    return tuple(ip_network(part) for part in numeric), names


def _parts(text: str) -> list[str]:
    return text.replace(",", " ").lower().split()


def environment_errors(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that HTTP clients read but cannot use, each with the reason."""
    for name in (*_PROXY_NAMES, *(name.lower() for name in _PROXY_NAMES)):
        value = environment.get(name)
        # HTTP clients read a value without a scheme as http://
        parts = _split(value if "://" in value else f"http://{value}") if value else None
        if value and (parts is None or parts.scheme not in _PROXIES or not parts.hostname):
            yield name, "must look like http://host:port, https://host:port or socks5://host:port"
    folder, file = environment.get("SSL_CERT_DIR"), environment.get("SSL_CERT_FILE")
    if folder and not Path(folder).is_dir():
        yield "SSL_CERT_DIR", f"names {folder}, which is no folder"
    if file and not _holds_certificates(file):
        yield "SSL_CERT_FILE", f"names {file}, which is no file with certificates"


def _holds_certificates(file: str) -> bool:
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except OSError:
        return False
    return True


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL, or None if the URL or its port is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return None if re.search(r"[\s\x00-\x1f]", url) else parts


class BatchSettings(BaseModel):
    """The settings of runs that are delivered by batches. This is a base class of `Settings`."""

    batch_min_rows: int = Field(
        default=100, ge=1, description="Runs with the delivery auto and at least this many items use batches."
    )
    batch_poll_s: float = Field(default=60.0, gt=0, description="Pause between two requests for the state of a batch.")
    batch_resubmit_s: float = Field(
        default=900.0,
        gt=0,
        description="Time after an interrupted submission in which workers search for the batch at its provider, and "
        "do not submit it again.",
    )
    batch_attempts_max: int = Field(
        default=3, ge=1, le=20, description="Batches in which a call is tried before a transient failure is final."
    )
    batch_fallback: Literal["live", "fail"] = Field(
        default="live", description="After these batches: live continues the job with live calls, fail ends it."
    )
