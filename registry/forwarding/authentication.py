"""Authentication of peers: by a shared secret that signs requests, by certificates, by both, or not at all.

A request is signed over its method, path, body, a nonce, and the time on the *receiver's* own clock, which
begins anywhere and counts on; the sender has learned it from the receiver's signed identity. So clocks
need not be synchronized, changes of the wall clock do not matter, and replays are rejected: an old time, a
nonce seen within the window, the time of another node's clock, or of the same node's clock before a restart.
An answer is signed over the nonce of its request. The body enters the signature by its hash, so that an
unauthenticated request is rejected before its body is read.

While the secret is replaced, a node has two: the new one, and the one before. It accepts both, and signs with
the new one until the other node refuses that. So the nodes can get the new secret one after another, in any
order, and then lose the former one in the same way.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from registry.security.tls.contexts import PeerTls


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


REFUSED_SHOWN_S: Final = 60.0
_REFUSED_HOSTS_MAX: Final = 100


class Signings:
    """The signings of the secrets that are in force; none of them if there is no secret."""

    def __init__(self, secrets: Sequence[str]) -> None:
        """``secrets``: that to sign with first, then others that are accepted too."""
        self.current = _signings(secrets, {})

    def replace(self, secrets: Sequence[str]) -> None:
        """Use other secrets from now on; those that stay still know which requests they have seen."""
        self.current = _signings(secrets, {each.secret: each for each in self.current})

    def accepting(
        self, method: str, path: str, headers: Sequence[Header], *, any_time: bool = False
    ) -> Signing | None:
        """Return the signing that accepts a request, as :meth:`Signing.accepts`; ``None`` if none does."""
        for signing in self.current:
            if signing.accepts(method, path, headers, any_time=any_time):
                return signing
        return None


def _signings(secrets: Sequence[str], known: dict[str, Signing]) -> tuple[Signing, ...]:
    return tuple(known.get(each) or Signing(each) for each in secrets or ("",))


class RefusedHosts:
    """The hosts of which a request was refused lately: nodes with another secret, or strangers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By the time, the earliest first.
        self._at: dict[str, float] = {}

    def add(self, host: str) -> None:
        """Note that a request of ``host`` was refused."""
        self._at.pop(host, None)
        self._at[host] = self._clock()
        if len(self._at) > _REFUSED_HOSTS_MAX:
            del self._at[next(iter(self._at))]

    def recent(self) -> list[str]:
        """Return the hosts of which a request was refused in the last :data:`REFUSED_SHOWN_S`."""
        since = self._clock() - REFUSED_SHOWN_S
        return [host for host, at in self._at.items() if at >= since]


@dataclass(frozen=True)
class Security:
    """The credentials of a cluster's nodes. The three files are all set or all empty."""

    # One secret a line: that to sign with, then those that are accepted too.
    secret: str = ""
    # Path, PEM; used with key both for serving and as a client.
    certificate: str = ""
    key: str = ""
    # Path, PEM: the authority of the nodes' certificates. Any holder of such a certificate is a peer.
    authority: str = ""

    def signings(self) -> Signings:
        """Return the signings of the secrets."""
        return Signings(self.secret.split("\n"))

    def tls(self) -> PeerTls | None:
        """Return the TLS of the node's connections; ``None`` without certificates. Raises :class:`FileError`.

        An expired certificate is only logged: the other nodes refuse it, but this one still serves reads.
        """
        if not self.certificate:
            return None
        from registry.security.tls.contexts import PeerTls, peer_tls_settings  # noqa: PLC0415 (takes memory)

        settings = peer_tls_settings(self.certificate, self.key, self.authority)
        return PeerTls(settings, allow_expired=True)
