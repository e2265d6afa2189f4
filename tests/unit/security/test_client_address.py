"""Addresses of clients behind proxies."""

from __future__ import annotations

import pytest

from registry.security.client_address import TrustedProxies, wide_network

PROXIES = TrustedProxies(["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("198.51.100.9", ["203.0.113.5"], "198.51.100.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.5"], "203.0.113.5"),
        ("::ffff:10.0.0.1", ["203.0.113.5"], "203.0.113.5"),
        ("192.0.2.1", ["203.0.113.5:4711"], "203.0.113.5"),
        ("10.0.0.1", ["[2001:db9::7]:4711"], "2001:db9::7"),
        # A client can put anything in front of what proxies append.
        ("10.0.0.1", ["1.2.3.4, 203.0.113.5, 10.9.9.9"], "203.0.113.5"),
        ("10.0.0.1", ["1.2.3.4", "203.0.113.5", "2001:db8::1"], "203.0.113.5"),
        ("10.0.0.1", ["203.0.113.5, nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.5, \xff, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["10.0.0.3"], "10.0.0.3"),
        ("", ["203.0.113.5"], ""),
    ],
)
def test_the_client_is_the_last_that_is_no_trusted_proxy(
    peer: str, forwarded: list[str], client: str
) -> None:
    headers = [(b"x-forwarded-for", each.encode("latin-1")) for each in forwarded]
    assert PROXIES.client(peer, headers) == client


def test_nobody_is_trusted_by_default() -> None:
    assert TrustedProxies().client("10.0.0.1", [(b"x-forwarded-for", b"203.0.113.5")]) == "10.0.0.1"


def test_a_long_header_is_read_from_its_end() -> None:
    hops = b",".join([b"203.0.113.5"] + [b"10.0.0.1"] * 100_000)
    assert PROXIES.client("10.0.0.1", [(b"x-forwarded-for", hops)]) == "10.0.0.1"


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.5", "203.0.113.0/24"),
        ("::ffff:203.0.113.5", "203.0.113.0/24"),
        ("2001:db8:1:2345::7", "2001:db8:1:2300::/56"),
        ("fe80::1%eth0", "fe80::/56"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_clients_take_turns_by_networks(address: str, network: str) -> None:
    assert wide_network(address) == network
