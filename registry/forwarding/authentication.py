"""Authentication of peers: by a shared secret, by certificates of one authority, by both, or not at all.

While the secret is replaced, a node has two: the new one, and the one before. It accepts both, and signs with
the new one until the other node refuses that. So the nodes can get the new secret one after another, in any
order, and then lose the former one in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .signing import Header, Signing

if TYPE_CHECKING:
    from registry.security.tls.peer_tls import PeerTls


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

    def lately(self) -> list[str]:
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
        from registry.security.tls.peer_tls import PeerTls, peer_tls_settings  # noqa: PLC0415 (takes memory)

        settings = peer_tls_settings(self.certificate, self.key, self.authority)
        return PeerTls(settings, allow_expired=True)
