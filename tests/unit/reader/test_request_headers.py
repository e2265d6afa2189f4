"""Headers of requests, as the fast path reads them."""

from __future__ import annotations

import pytest

from registry.api.browsers import PageGuard
from registry.base.observe.metrics import Headers
from registry.domain.principal import Principal
from registry.http1.messages import Client
from registry.reader.fast_path.preferences import RequestHeaders
from registry.security.gate import FULL_ACCESS, NO_ACCESS, OPEN_GATE, Admission, Credentials, Pass

ALICE, BOB = ((b"authorization", b"Basic " + name) for name in (b"alice", b"bob"))


class Gate:
    """A gate that admits everyone by their certificate, or else their header, until it changes."""

    def __init__(self) -> None:
        self.edition = object()
        self.asked: list[Credentials] = []
        self.closed = False

    def find_pass(self, credentials: Credentials) -> Pass | None:
        self.asked.append(credentials)
        name = credentials.certificate or credentials.authorization.decode()
        admission = Admission(Principal(name), FULL_ACCESS, "basic")
        return None if self.closed else Pass(admission, edition=self.edition)

    def holds(self, found: Pass) -> bool:
        return found.edition is self.edition


def principal(read: RequestHeaders, headers: Headers, certificate: str = "") -> str | None:
    found = read.preferences(headers, Client("192.0.2.1", 1, certificate))
    return None if found is None else found.principal


def test_the_gate_is_asked_once_for_the_headers_that_connections_repeat() -> None:
    gate = Gate()
    read = RequestHeaders(PageGuard(), gate)
    first, second = Headers([ALICE]), Headers([ALICE])
    for headers in (first, first, second, second, first):
        assert principal(read, headers) == "Basic alice"
    assert gate.asked == [Credentials(b"Basic alice")]


def test_the_gate_is_asked_again_once_a_pass_does_not_hold() -> None:
    gate = Gate()
    read = RequestHeaders(PageGuard(), gate)
    first, second = Headers([ALICE]), Headers([ALICE])
    assert [principal(read, each) for each in (first, second)] == ["Basic alice"] * 2
    gate.edition, gate.closed = object(), True
    assert [principal(read, each) for each in (first, second, Headers([ALICE]))] == [None] * 3
    gate.closed = False
    assert [principal(read, each) for each in (first, second)] == ["Basic alice"] * 2


@pytest.mark.parametrize(
    "other", [(Headers([BOB]), ""), (Headers([ALICE]), "CN=bob"), (Headers(), "CN=bob")], ids=range(3)
)
def test_connections_with_other_credentials_are_other_principals(other: tuple[Headers, str]) -> None:
    gate = Gate()
    read = RequestHeaders(PageGuard(), gate)
    first = Headers([ALICE])
    for _ in range(2):
        assert principal(read, first) == "Basic alice"
        assert principal(read, *other) in {"Basic bob", "CN=bob"}
    assert len(gate.asked) == 2


def test_everybody_may_do_everything_behind_an_open_gate() -> None:
    read = RequestHeaders(PageGuard(), OPEN_GATE)
    found = read.preferences(Headers([ALICE]), Client())
    assert found is not None
    assert found.access is FULL_ACCESS
    assert found.principal == ""
    closed = RequestHeaders(PageGuard(), Gate())._read(Headers([ALICE]))
    assert closed is not None
    assert closed.access is NO_ACCESS
