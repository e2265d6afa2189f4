"""Sessions of the console: signed tokens in a cookie, instead of passwords and tokens in the page.

A token is stateless: it says who signed in, how, and until when, and carries a MAC. Hosts with the same key
accept each other's. What ends a session early is a file for each session that was ended, which all processes
of a host look for; it is kept until the session would have expired anyway. The nodes of a cluster report
them to each other (``registry/node/ended_sessions.py``).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from registry.domain.errors import BAD_REQUEST, UNAVAILABLE
from registry.domain.principal import Principal
from registry.security.gate import SessionTime

# A session is renewed while a page is open, but not beyond this many seconds.
WHOLE_S: Final = 12 * 3600
# Browsers keep cookies of up to 4096 bytes with their names and attributes.
TOKEN_BYTES_MAX: Final = 3500
ENDED_MAX: Final = 10_000
# By so much the clock of a node that has renewed a session may be ahead of that of the one that ends it.
_AHEAD_S: Final = 300
_KEPT_LONGER_S = 60.0
_KEY_BYTES, _ID_BYTES, _MAC_BYTES = 32, 16, 32
_LABEL = b"registrar console session"
# Within the data folder.
FOLDER: Final = "sessions"


def folder_of_ended(data: Path) -> Path:
    """Return the folder of the sessions that were ended, within a data folder."""
    return data / FOLDER / "ended"


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    id: bytes
    name: str
    groups: list[str]
    method: str  # ``basic`` or ``bearer``
    # Of the stored password, so that another one ends the session; empty for tokens of an issuer.
    proof: bytes
    expires: int  # in seconds since 1970, as ``until``, beyond which it is not renewed
    until: int


class Session(NamedTuple):
    """A valid session."""

    principal: Principal
    method: str
    proof: bytes
    expires: float  # in seconds since 1970
    claims: _Claims


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Claims).decode


def session_keys(folder: Path, peer_secrets: Sequence[str]) -> list[bytes]:
    """Return the keys of a host, the one that signs first.

    In a cluster they are derived from the secrets that all nodes share. Without one, the key is a file in
    ``folder``, which the first process of the host makes. Raises ``OSError``.
    """
    if peer_secrets:
        return [hmac.digest(each.encode(), _LABEL, "sha256") for each in peer_secrets]
    path = folder / "key"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = folder / f"key.{os.getpid()}"
    try:
        if not path.exists():
            descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
            os.link(made, path)  # only the first of several processes
    except FileExistsError:
        pass
    finally:
        made.unlink(missing_ok=True)
    return [path.read_bytes()]


class EndedSessions:
    """The sessions that were ended early, known to all processes of a host: an empty file for each.

    A file's time of modification says until when it counts, in seconds since 1970.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock

    def __contains__(self, id: bytes) -> bool:
        return self._path(id).exists()

    def add(self, id: bytes, until: float) -> None:
        """Add a session. Raises 503 if too many were ended lately."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._remove_old() >= ENDED_MAX:
            raise UNAVAILABLE("Too many sessions were ended lately; this one expires soon")
        path = self._path(id)
        made = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        made.touch(mode=0o600)
        os.utime(made, (until, until))
        made.rename(path)  # others see it with its time

    def state(self) -> int:
        """Return a number that changes when a session is added."""
        try:
            return self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def current(self) -> dict[bytes, float]:
        """Return until when each one counts, by its id; without those that would have expired by now."""
        found, now = {}, self._clock()
        with suppress(FileNotFoundError), os.scandir(self._folder) as files:
            for each in files:
                with suppress(FileNotFoundError, ValueError):  # it has just been removed, or is being made
                    session, until = bytes.fromhex(each.name), each.stat().st_mtime
                    if until > now:
                        found[session] = until
        return found

    def _remove_old(self) -> int:
        """Remove those that would have expired some time ago; return how many there still are."""
        now, left = self._clock(), 0
        with os.scandir(self._folder) as found:
            for each in found:
                with suppress(FileNotFoundError):  # another process removes it, too
                    if each.stat().st_mtime < now - _KEPT_LONGER_S:
                        Path(each.path).unlink(missing_ok=True)
                    else:
                        left += 1
        return left

    def _path(self, id: bytes) -> Path:
        return self._folder / id.hex()


class Sessions:
    """Begins, verifies, renews and ends sessions."""

    def __init__(
        self, keys: Sequence[bytes], folder: Path, lasts_s: int, clock: Callable[[], float] = time.time
    ) -> None:
        """``keys``: the one that signs first. ``folder``: of the sessions that were ended.

        ``lasts_s``: how long a session lasts unless it is renewed. ``clock``: in seconds since 1970.
        """
        self._keys = list(keys)
        self._ended = EndedSessions(folder, clock)
        self._lasts_s = lasts_s
        self._clock = clock
        # Cookies are shared by all ports of a host, where several registries may serve.
        self.cookie = f"registrar-{hashlib.blake2b(self._keys[0], digest_size=4).hexdigest()}"

    def begin(self, principal: Principal, method: str, proof: bytes, until: float) -> tuple[bytes, int]:
        """Return a token, and the seconds that it lasts. Raises 400.

        ``until``: when the credentials expire, in seconds since 1970.
        """
        end = int(min(until, self._clock() + WHOLE_S))
        claims = _Claims(
            secrets.token_bytes(_ID_BYTES), principal.name, sorted(principal.groups), method, proof, 0, end
        )
        return self._sign(claims)

    def renew(self, session: Session) -> tuple[bytes, int]:
        """Return another token of the same session."""
        return self._sign(session.claims)

    def time_of(self, session: Session) -> SessionTime:
        """Return how long a session still lasts, and how long it would if it were renewed now."""
        now = int(self._clock())
        return SessionTime(max(0, session.claims.expires - now), max(0, self._end(session.claims, now) - now))

    def _end(self, claims: _Claims, now: int) -> int:
        return min(now + self._lasts_s, claims.until)

    def _sign(self, claims: _Claims) -> tuple[bytes, int]:
        now = int(self._clock())
        expires = self._end(claims, now)
        body = _encode(msgspec.structs.replace(claims, expires=expires))
        token = base64.urlsafe_b64encode(body + self._mac(self._keys[0], body)).rstrip(b"=")
        if len(token) > TOKEN_BYTES_MAX:
            raise BAD_REQUEST("The principal has too many groups for a session")
        return token, max(0, expires - now)

    def verify(self, token: bytes) -> Session | None:
        """Return the session of a token; ``None`` if it is not valid, has expired or was ended."""
        try:
            signed = base64.b64decode(token + b"=" * (-len(token) % 4), b"-_", validate=True)
        except binascii.Error:
            return None
        body, mac = signed[:-_MAC_BYTES], signed[-_MAC_BYTES:]
        if not any(hmac.compare_digest(mac, self._mac(key, body)) for key in self._keys):
            return None
        try:
            claims = _decode(body)
        except msgspec.DecodeError:  # of another version
            return None
        if self._clock() >= claims.expires or claims.id in self._ended:
            return None
        principal = Principal(claims.name, frozenset(claims.groups))
        return Session(principal, claims.method, claims.proof, claims.expires, claims)

    def end(self, session: Session) -> None:
        """End a session for all processes of this host. Raises 503 if too many were ended lately."""
        # Other tokens of it may have been made until now, in a cluster by other nodes.
        self._ended.add(session.claims.id, self._clock() + self._lasts_s + _AHEAD_S)

    def proof(self, password: object) -> bytes:
        """Return what identifies a stored password in tokens, from which it cannot be guessed."""
        return self._mac(self._keys[0], repr(password).encode())[:_ID_BYTES]

    def proves(self, session: Session, password: object) -> bool:
        """Return true if a session was begun with this stored password."""
        text = repr(password).encode()
        found = [hmac.compare_digest(session.proof, self._mac(key, text)[:_ID_BYTES]) for key in self._keys]
        return any(found)

    @staticmethod
    def _mac(key: bytes, body: bytes) -> bytes:
        return hmac.digest(key, body, "sha256")
