"""Signing keys from an issuer's URL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

import pytest

from registry.security.authentication.signing_keys import JWKS_BYTES_MAX, RETRY_S, KeyUrl
from tests.support.token_issuer import Issuer, IssuerKey

Answer = Callable[[BaseHTTPRequestHandler], None]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_unknown_key_id_refreshes_the_keys_once_in_a_while() -> None:
    async def main(issuer: Issuer) -> None:
        clock, changes = Clock(), list[int]()
        keys = KeyUrl(issuer.jwks, changed=lambda: changes.append(1), clock=clock)
        await asyncio.gather(*(keys.refresh() for _ in range(20)))
        assert keys.value.find("first")
        assert (keys.is_loaded, issuer.requests, len(changes)) == (True, 1, 1)
        issuer.rotate(IssuerKey("second"))
        await asyncio.gather(*(keys.refresh() for _ in range(20)))
        assert issuer.requests == 1
        clock.now += RETRY_S
        await asyncio.gather(*(keys.refresh() for _ in range(20)))
        assert keys.value.find("second")
        assert not keys.value.find("first")
        assert (issuer.requests, len(changes)) == (2, 2)
        clock.now += RETRY_S
        await keys.refresh()
        assert (issuer.requests, len(changes)) == (3, 2)
        keys.close()

    with Issuer() as issuer:
        asyncio.run(main(issuer))


def broken(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"nonsense")


def failing(handler: BaseHTTPRequestHandler) -> None:
    handler.send_error(500)


def elsewhere(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "/keys")
    handler.end_headers()


def no_keys(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b'{"keys": []}')


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" " * 65536)
    except OSError:
        pass


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (broken, "nonsense"),
        (failing, "the answer is HTTP 500"),
        (elsewhere, "the answer is HTTP 302"),
        (no_keys, "the answer has no public key for signatures"),
        (endless, f"the answer has more than {JWKS_BYTES_MAX} bytes"),
    ],
)
def test_a_bad_answer_keeps_the_keys_and_is_logged_once(
    answer: Answer, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(issuer: Issuer) -> None:
        clock = Clock()
        keys = KeyUrl(issuer.jwks, clock=clock)
        await keys.refresh()
        issuer.answer, before = answer, issuer.answer
        for _ in range(2):
            clock.now += RETRY_S
            await keys.refresh()
        assert keys.value.find("first")
        assert reason in keys.error
        issuer.answer = before
        clock.now += RETRY_S
        await keys.refresh()
        assert keys.error == ""
        keys.close()

    with Issuer() as issuer, caplog.at_level(logging.ERROR):
        asyncio.run(main(issuer))
    assert len(caplog.records) == 1
    assert "keeping the previous ones" in caplog.text


def test_an_issuer_that_cannot_be_reached_leaves_no_keys() -> None:
    async def main() -> None:
        keys = KeyUrl("http://127.0.0.1:1/keys")
        await keys.refresh()
        assert "Connection refused" in keys.error
        assert not keys.is_loaded
        keys.close()

    asyncio.run(main())
