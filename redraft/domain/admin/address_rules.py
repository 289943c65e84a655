"""Rules against SSRF: requests to users' URLs may go only to public addresses and to those that the operator allows.

The tables are explicit, because `ipaddress` classifies some networks differently from one Python version to the next.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self

from redraft.setting_values import NUMERIC_NAME, networks_and_names

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_WORDS = {
    "means this machine": "0.0.0.0/8 ::/128",
    "is a loopback address": "127.0.0.0/8 ::1/128",
    "is private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7",
    "is shared by a provider's networks": "100.64.0.0/10",
    "belongs to the services of a cloud": "168.63.129.16/32",
    "is link-local": "169.254.0.0/16 fe80::/10",
    "is reserved": "192.0.0.0/24 192.88.99.0/24 240.0.0.0/4 2001::/23",
    "is for documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
    "is for benchmarks": "198.18.0.0/15",
    "is a multicast address": "224.0.0.0/4 ff00::/8",
    "leads into IPv4 (NAT64)": "64:ff9b::/96 64:ff9b:1::/48",
    "leads into IPv4 (6to4)": "2002::/16",
}
_NOT_PUBLIC = tuple((ip_network(each), words) for words, networks in _WORDS.items() for each in networks.split())
# IANA has assigned no public IPv6 address outside this block.
_PUBLIC_IPV6 = ip_network("2000::/3")
_OWN_NAME = re.compile(r"(?:.*\.)?localhost\.?", re.IGNORECASE)


def plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address contains (`::ffff:…`), or the address itself."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def why_not_public(address: Address) -> str | None:
    """Return why the address is refused, or None if it is public. The reason completes a sentence about the address."""
    address = plain(address)
    is_odd = address.version == 6 and (address not in _PUBLIC_IPV6 or address.scope_id)
    return next((words for network, words in _NOT_PUBLIC if address in network), "is not public" if is_odd else None)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The operator's allow-list of networks and host names. A listed host name may resolve to any address."""

    networks: tuple[Network, ...] = ()
    names: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a valid value of `REDRAFT_WEBHOOK_ALLOW_PRIVATE`."""
        return cls(*networks_and_names(text))

    def why_not(self, host: str, address: Address) -> str | None:
        """Return the reason for refusing an address of `host`, or None if requests to the address are allowed."""
        reached = plain(address)
        if host.lower().rstrip(".") in self.names or any(reached in network for network in self.networks):
            return None
        return why_not_public(reached)

    def why_not_host(self, host: str) -> str | None:
        """Return a sentence that says why a host is refused, or None. The name of the host is not resolved."""
        name = host.lower().rstrip(".")
        if name in self.names:
            return None
        literal = as_address(host)
        if literal is not None:
            words = self.why_not(host, literal)
            return words and f"{host} {words}."
        # The check above does not recognise `127.1` or `0x7f000001`, but resolvers read them as addresses.
        if NUMERIC_NAME.fullmatch(name):
            return f"{host} is an unusual spelling of an IPv4 address; write four decimal numbers."
        if _OWN_NAME.fullmatch(name):
            return f"{host} means this machine."
        return None


def as_address(host: str) -> Address | None:
    """Return the host of a URL as an address, or None if the host is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def all_addresses(texts: Sequence[str]) -> list[Address]:
    """Return the addresses of a resolver's answer in order, each once."""
    return list(dict.fromkeys(plain(ip_address(text)) for text in texts))
