"""Destinations of webhooks: only public addresses, unless the settings allow others."""

from __future__ import annotations

import socket

import pytest

from registry.webhooks.destinations import Destinations, NotAllowed

PUBLIC = Destinations([], plain_http=False)


def allows(destinations: Destinations, host: str, address: str) -> bool:
    try:
        destinations.check_address(host, address)
    except NotAllowed:
        return False
    return True


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::5db8:d822"]
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert allows(PUBLIC, "receiver.example", address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.255.0.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254",
        "100.64.0.1", "192.0.0.192", "198.18.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
        "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2002:7f00:1::", "2002:a00:1::1",
        "2001:0:7f00:1::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2001:db8::1",
        "fec0::1", "feff::1", "3fff::1",
    ],
)  # fmt: skip
def test_addresses_within_networks_are_refused(address: str) -> None:
    assert not allows(PUBLIC, "receiver.example", address)


@pytest.mark.parametrize("spelling", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0"])
def test_other_spellings_of_addresses_are_refused_once_they_are_resolved(spelling: str) -> None:
    resolved = {found[4][0] for found in socket.getaddrinfo(spelling, 80, type=socket.SOCK_STREAM)}
    assert resolved
    assert not any(allows(PUBLIC, spelling, str(address)) for address in resolved)


@pytest.mark.parametrize(
    "url",
    [
        "http://93.184.216.34/", "https://127.0.0.1/", "https://[::1]:8443/", "https://[::ffff:10.0.0.1]/",
        "https://169.254.169.254/latest/meta-data", "ftp://receiver.example/", "file:///etc/passwd",
        "https://", "/",
    ],
)  # fmt: skip
def test_urls_that_show_it_are_refused_at_once(url: str) -> None:
    with pytest.raises(NotAllowed):
        PUBLIC.check_url(url)


def test_urls_whose_host_has_to_be_resolved_are_not_judged_by_their_text() -> None:
    PUBLIC.check_url("https://receiver.example/events?x=1")
    Destinations([], plain_http=True).check_url("http://receiver.example/")


def test_settings_allow_networks_addresses_and_names() -> None:
    rules = Destinations(
        ["10.0.0.0/8", "fd00::/8", "192.168.0.7", "Hooks.example", "*.svc.local"], plain_http=False
    )
    for host, address in (
        ("a", "10.1.2.3"), ("a", "::ffff:10.1.2.3"), ("a", "fd00::1"), ("a", "192.168.0.7"),
        ("hooks.example", "127.0.0.1"), ("HOOKS.example.", "127.0.0.1"), ("a.svc.local", "172.16.0.1"),
        ("a.b.svc.local", "172.16.0.1"),
    ):  # fmt: skip
        assert allows(rules, host, address), (host, address)
    for host, address in (
        ("a", "192.168.0.8"), ("svc.local", "172.16.0.1"), ("asvc.local", "172.16.0.1"),
        ("x.hooks.example", "127.0.0.1"), ("a", "172.16.0.1"), ("a", "64:ff9b::ac10:1"),
    ):  # fmt: skip
        assert not allows(rules, host, address), (host, address)
