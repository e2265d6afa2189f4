"""Signatures of requests and answers between nodes that share a secret, which is never sent.

A request is signed over its method, path, body, a nonce, and the time on the *receiver's* own clock, which
begins anywhere and counts on; the sender has learned it from the receiver's signed identity. So clocks
need not be synchronised, changes of the wall clock do not matter, and replays are rejected: an old time, a
nonce seen within the window, the time of another node's clock, or of the same node's clock before a restart.
An answer is signed over the nonce of its request. The body enters the signature by its hash, so that an
unauthenticated request is rejected before its body is read.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from hashlib import sha256

Header = tuple[bytes, bytes]

# The maximum distance of a request's time from the receiver's clock.
WINDOW_MS = 30_000
# The time in requests for an identity, which are sent before the receiver's clock is known.
ANY_TIME = -1

_NONCE = b"x-registrar-nonce"
_TIME = b"x-registrar-time"
_BODY = b"x-registrar-body"
_SIGNATURE = b"x-registrar-signature"


# A random start, so that a request signed for one node, or one process of it, is invalid for any other.
_BEGAN_AT_MS = secrets.randbelow(1 << 52)


def clock_ms() -> int:
    """Return this process's clock for signatures, in ms from an arbitrary start."""
    return _BEGAN_AT_MS + time.monotonic_ns() // 1_000_000


class Signing:
    """Signs and verifies with a secret; an empty one signs nothing and accepts everything."""

    def __init__(self, secret: str, clock: Callable[[], int] = clock_ms) -> None:
        self.secret = secret
        self._secret = secret.encode()
        self._clock = clock
        self._seen: OrderedDict[bytes, int] = OrderedDict()

    def request(self, method: str, path: str, body: bytes, time_ms: int) -> tuple[list[Header], bytes]:
        """Return the headers that sign a request, and its nonce. ``time_ms`` is of the receiver's clock."""
        if not self._secret:
            return [], b""
        nonce, moment, digest = secrets.token_hex(16).encode(), b"%d" % time_ms, _digest(body)
        signature = self._sign(b"request", method.encode(), path.encode(), nonce, moment, digest)
        headers = [(_NONCE, nonce), (_TIME, moment), (_BODY, digest), (_SIGNATURE, signature)]
        return headers, nonce

    def accepts(self, method: str, path: str, headers: Iterable[Header], *, any_time: bool = False) -> bool:
        """Return True if a request is signed with the secret, recent, and not a replay."""
        if not self._secret:
            return True
        fields = dict(headers)
        nonce, moment, digest = fields.get(_NONCE, b""), fields.get(_TIME, b""), fields.get(_BODY, b"")
        signature = self._sign(b"request", method.encode(), path.encode(), nonce, moment, digest)
        if not hmac.compare_digest(signature, fields.get(_SIGNATURE, b"")):
            return False
        return (any_time and int(moment) == ANY_TIME) or self._is_new(nonce, int(moment))

    def _is_new(self, nonce: bytes, moment: int) -> bool:
        now = self._clock()
        while self._seen and next(iter(self._seen.values())) < now - 2 * WINDOW_MS:
            self._seen.popitem(last=False)
        if abs(moment - now) > WINDOW_MS or nonce in self._seen:
            return False
        self._seen[nonce] = now
        return True

    def holds(self, headers: Iterable[Header], body: bytes) -> bool:
        """Return True if ``body`` matches the signed hash of an accepted request or an answer."""
        return not self._secret or hmac.compare_digest(dict(headers).get(_BODY, b""), _digest(body))

    def answer(self, request: Iterable[Header], status: int, body: bytes) -> list[Header]:
        """Return the headers that sign the answer to a request with these headers."""
        if not self._secret:
            return []
        nonce, digest = dict(request).get(_NONCE, b""), _digest(body)
        return [(_BODY, digest), (_SIGNATURE, self._sign(b"answer", nonce, b"%d" % status, digest))]

    def answers(self, nonce: bytes, status: int, headers: Iterable[Header], body: bytes) -> bool:
        """Return True if an answer to the request with this nonce is signed with the secret."""
        if not self._secret:
            return True
        fields = dict(headers)
        signature = self._sign(b"answer", nonce, b"%d" % status, fields.get(_BODY, b""))
        signed = hmac.compare_digest(signature, fields.get(_SIGNATURE, b""))
        return signed and self.holds(fields.items(), body)

    @staticmethod
    def nonce(headers: Iterable[Header]) -> bytes:
        """Return the nonce of a request that was accepted."""
        return dict(headers).get(_NONCE, b"")

    def stream_key(self, nonce: bytes) -> bytes:
        """Return the key for the frames of a stream that began with this nonce; empty without a secret."""
        return self._sign(b"stream", nonce) if self._secret else b""

    def _sign(self, *parts: bytes) -> bytes:
        # Length prefixes keep the boundaries between parts unambiguous.
        message = b"".join(b"%d:%s" % (len(part), part) for part in parts)
        return hmac.new(self._secret, message, sha256).hexdigest().encode()


def _digest(body: bytes) -> bytes:
    return sha256(body).hexdigest().encode()
