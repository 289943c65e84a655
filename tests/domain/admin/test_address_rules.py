"""Addresses that requests to users' URLs may reach: no spelling of a private address is allowed."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redraft.domain.admin.address_rules import Allowed, all_addresses, as_address, plain, why_not_public

PRIVATE_IPV4 = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
)  # fmt: skip
PRIVATE_IPV6 = ("::1/128", "::/128", "fc00::/7", "fe80::/10", "ff00::/8", "64:ff9b::/96", "2002::/16", "2001::/32")
PUBLIC = ("1.1.1.1", "8.8.8.8", "93.184.215.14", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111", "2a00:1450::1")
OTHER_SPELLINGS = (
    "2130706433",
    "0177.0.0.1",
    "0x7f000001",
    "0x7f.1",
    "127.1",
    "0",
    "017700000001",
    "10.1",
    "127.0.0.1.",
)


def within(networks: tuple[str, ...]):
    """Addresses of any of the networks, their ends more often than by chance."""

    def of(network: str):
        found = ip_network(network)
        ends = st.sampled_from([found[0], found[-1]])
        return ends | st.integers(0, found.num_addresses - 1).map(lambda n: found[n])

    return st.sampled_from(networks).flatmap(of)


@given(within(PRIVATE_IPV4))
def test_no_inner_ipv4_address_is_public_nor_its_ipv6_forms(address: IPv4Address):
    mapped, nat64 = (int(IPv6Address(prefix)) + int(address) for prefix in ("::ffff:0:0", "64:ff9b::"))
    six_to_four = int(IPv6Address("2002::")) + (int(address) << 80)
    for each in (address, IPv6Address(mapped), IPv6Address(nat64), IPv6Address(six_to_four)):
        assert why_not_public(each)


@given(within(PRIVATE_IPV6))
def test_no_inner_ipv6_address_is_public(address: IPv6Address):
    assert why_not_public(address)


@given(st.ip_addresses(v=4))
@example(IPv4Address("168.63.129.16"))
def test_each_public_address_is_global_for_the_standard_library(address: IPv4Address):
    if why_not_public(address) is None:
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=6))
def test_no_more_ipv6_addresses_are_public_than_there_are(address: IPv6Address):
    if why_not_public(address) is None:
        assert address.is_global or address.ipv4_mapped


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_public(text: str):
    assert why_not_public(ip_address(text)) is None
    assert Allowed().why_not_host(text) is None


def test_a_zone_is_never_public():
    assert why_not_public(ip_address("2606:4700:4700::1111%eth0"))


@pytest.mark.parametrize("host", [*OTHER_SPELLINGS, "localhost", "LOCALHOST.", "a.localhost", "::1", "169.254.169.254"])
def test_an_inner_host_is_refused_before_any_name_is_resolved(host: str):
    assert host in (Allowed().why_not_host(host) or "")


@pytest.mark.parametrize("host", ["example.com", "1.example", "xn--mnchen-3ya.de", "127.0.0.1.nip.io", "0x7f.example"])
def test_names_wait_for_their_addresses(host: str):
    assert Allowed().why_not_host(host) is None
    assert as_address(host) is None


def test_only_addresses_that_the_operator_allows_can_be_reached():
    allowed = Allowed.parse("127.0.0.0/8, 10.1.2.3 fd00::/8  hooks.Internal.")
    for host, address, is_fine in (
        ("any.example", "127.0.0.1", True),
        ("any.example", "::ffff:127.0.0.1", True),
        ("any.example", "10.1.2.3", True),
        ("any.example", "10.1.2.4", False),
        ("any.example", "fd12::1", True),
        ("Hooks.internal", "192.168.0.9", True),
        ("x.hooks.internal", "192.168.0.9", False),
    ):
        assert (allowed.why_not(host, ip_address(address)) is None) is is_fine, (host, address)
    assert allowed.why_not_host("127.0.0.1") is None
    assert allowed.why_not_host("hooks.internal") is None
    assert Allowed.parse("") == Allowed()


def test_a_resolvers_answers_are_read_once_each():
    assert all_addresses(["1.1.1.1", "::ffff:1.1.1.1", "::1", "1.1.1.1"]) == [ip_address("1.1.1.1"), ip_address("::1")]
    assert plain(ip_address("::1")) == ip_address("::1")
