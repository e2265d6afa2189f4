"""Protection of requests and replies by a shared secret."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from registry.forwarding.authentication import ANY_TIME, WINDOW_MS, Signing, clock_ms

PATH, BODY = "/peer/commands", b"a batch"


def signed(time_ms: int | None = None, secret: str = "a secret") -> list[tuple[bytes, bytes]]:
    moment = clock_ms() if time_ms is None else time_ms
    return Signing(secret).request("POST", PATH, BODY, moment)[0]


def changed(headers: list[tuple[bytes, bytes]], name: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    return [(each, value if each == name else given) for each, given in headers]


def test_the_secret_does_not_travel() -> None:
    assert all(b"a secret" not in value for _, value in signed())


def test_a_request_is_taken_once() -> None:
    server, headers = Signing("a secret"), signed()
    assert server.accepts("POST", PATH, headers)
    assert server.holds(headers, BODY)
    assert not server.accepts("POST", PATH, headers)
    assert server.accepts("POST", PATH, signed())


@pytest.mark.parametrize(
    "headers",
    [
        list,
        lambda: signed(secret="another"),
        lambda: changed(signed(), b"x-registrar-nonce", b"0" * 32),
        lambda: changed(signed(), b"x-registrar-time", b"%d" % (clock_ms() + 1)),
        lambda: changed(signed(), b"x-registrar-body", b"0" * 64),
        lambda: changed(signed(), b"x-registrar-signature", b""),
        lambda: changed(signed(), b"x-registrar-signature", "ü".encode()),
    ],
)
def test_what_was_changed_or_not_signed_is_refused(headers: Callable[[], list[tuple[bytes, bytes]]]) -> None:
    # Signed only now: a signature from before all tests began would be refused as too old.
    assert not Signing("a secret").accepts("POST", PATH, headers())


def test_a_signature_is_for_one_method_and_path() -> None:
    server, headers = Signing("a secret"), signed()
    assert not server.accepts("GET", PATH, headers)
    assert not server.accepts("POST", "/peer/watch", headers)


def test_another_body_is_not_held() -> None:
    server, headers = Signing("a secret"), signed()
    assert server.accepts("POST", PATH, headers)
    assert not server.holds(headers, b"another batch")


@pytest.mark.parametrize("away", [-2 * WINDOW_MS, 2 * WINDOW_MS])
def test_an_old_or_early_time_is_refused(away: int) -> None:
    assert not Signing("a secret").accepts("POST", PATH, signed(clock_ms() + away))


def test_what_was_signed_for_a_former_life_of_a_node_is_old_in_the_next() -> None:
    ask = [sys.executable, "-c", "from registry.forwarding.authentication import clock_ms; print(clock_ms())"]
    lives = [int(subprocess.run(ask, capture_output=True, check=True).stdout) for _ in range(2)]
    assert abs(lives[1] - lives[0]) > 2 * WINDOW_MS


def test_without_a_time_only_an_identity_is_reported() -> None:
    server = Signing("a secret")
    assert not server.accepts("POST", PATH, signed(ANY_TIME))
    assert server.accepts("POST", PATH, signed(ANY_TIME), any_time=True)


def test_nonces_are_forgotten_when_their_time_has_passed() -> None:
    times = iter((0, 3 * WINDOW_MS))
    server = Signing("a secret", lambda: next(times))
    assert server.accepts("POST", PATH, signed(0))
    assert server.accepts("POST", PATH, signed(3 * WINDOW_MS))
    assert len(server._seen) == 1


def test_an_answer_is_for_one_request_status_and_body() -> None:
    client = server = Signing("a secret")
    headers, nonce = client.request("POST", PATH, BODY, clock_ms())
    answer = server.answer(headers, 200, b"outcomes")
    assert client.answers(nonce, 200, answer, b"outcomes")
    assert not client.answers(nonce, 500, answer, b"outcomes")
    assert not client.answers(nonce, 200, answer, b"others")
    assert not client.answers(b"0" * 32, 200, answer, b"outcomes")
    assert not client.answers(nonce, 200, [], b"outcomes")


def test_without_a_secret_nothing_is_signed_and_everything_is_taken() -> None:
    nobody = Signing("")
    assert nobody.request("POST", PATH, BODY, 0) == ([], b"")
    assert nobody.accepts("POST", PATH, [])
    assert nobody.answers(b"", 200, [], BODY)
