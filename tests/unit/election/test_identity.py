from __future__ import annotations

import pytest

from election.identity import Identity, from_json, to_json

SR1 = Identity("http", "sr1", 8081, eligible=True)


@pytest.mark.parametrize(
    ("host", "url"),
    [("sr1", "http://sr1:8081"), ("::1", "http://[::1]:8081"), ("[::1]", "http://[::1]:8081")],
)
def test_url(host: str, url: str) -> None:
    assert Identity("http", host, 8081, eligible=True).url == url


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "LocalHost.", "a.localhost"]
)
def test_loopback(host: str) -> None:
    assert Identity("http", host, 8081, eligible=True).loopback


@pytest.mark.parametrize("host", ["sr1", "10.0.0.1", "localhosts", "fe80::1", "0.0.0.0"])
def test_not_loopback(host: str) -> None:
    assert not Identity("http", host, 8081, eligible=True).loopback


def test_ours_is_the_same_to_confluent_whatever_else_it_says() -> None:
    ours = Identity("http", "sr1", 8081, eligible=True, peer="sr1:9000", node="n1")
    assert ours.same(SR1)
    assert ours != SR1
    assert not ours.same(Identity("http", "sr1", 8081, eligible=False))
    assert not ours.same(Identity("https", "sr1", 8081, eligible=True))


def test_reads_what_it_writes() -> None:
    ours = Identity("https", "::1", 1, eligible=False, version=1, peer="[::1]:9000", node="n1")
    assert from_json(to_json(ours)) == ours
    assert from_json(to_json(ours, plain=True)) == Identity("https", "::1", 1, eligible=False)


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        {},
        {"host": "a"},
        {"host": 1, "port": 1},
        {"host": "a", "port": "1"},
        {"host": "a", "port": True},
        {"host": "a", "port": 0},
        {"host": "a", "port": 65536},
        {"host": "a", "port": 1, "scheme": None},
        {"host": "a", "port": 1, "version": "1"},
        {"host": "a", "port": 1, "registrar_peer": 3},
    ],
)
def test_what_is_no_identity_is_refused(fields: object) -> None:
    with pytest.raises(ValueError, match="identity"):
        from_json(fields)
