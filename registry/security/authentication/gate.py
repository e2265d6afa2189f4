"""The gate of a registry with authentication: passwords, bearer tokens and client certificates."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import math
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from registry.domain.errors import BAD_REQUEST, UNAVAILABLE
from registry.domain.principal import Principal
from registry.security.client_address import wide_network
from registry.security.gate import (
    KIND_OF_METHOD,
    SESSION,
    Access,
    Admission,
    Credentials,
    NoCredentials,
    NotAdmitted,
    Pass,
    SessionTime,
    SignedIn,
)

from .sessions import Session, Sessions
from .tokens import TokenError, TokenVerifier, UnknownKey
from .users import User, Users
from .verification import Recent, Throttle, Verifier

# Seconds for which verified credentials are remembered after their last use, and at most in all. All are
# forgotten at once when users or keys change.
UNUSED_S = 60.0
PASSWORD_S = 3600.0
TOKEN_S = 60.0
SESSION_S = 1.0  # so that the end of a session is noticed
REMEMBERED_MAX = 20_000
HEADER_BYTES_MAX = 20 * 1024
# No name and no password: some clients send it if none are configured, also with a certificate.
_NO_CREDENTIALS = b"Basic Og=="
_REALM = b'realm="registrar"'
_TAG_BYTES = 16
_TRIES = 3  # of one request, while users change


class UserSource(Protocol):
    """The current users."""

    @property
    def value(self) -> Users:
        """The users."""
        ...


class KeyRefresh(Protocol):
    """Keys that can be fetched again."""

    @property
    def is_loaded(self) -> bool:
        """True once keys are available."""
        ...

    async def refresh(self) -> None:
        """Fetch the keys, unless that was done a short time ago."""
        ...


class _Remembered(NamedTuple):
    admission: Admission
    until: float
    rules: int  # the revision of the rules that gave the access


class AuthenticationGate:
    """Verifies credentials and remembers them for a short time.

    Of credentials it remembers tags that are made with a random key of the process, and the last header.
    """

    def __init__(
        self,
        access: Callable[[Principal, str], Access],
        *,
        users: UserSource | None = None,
        tokens: TokenVerifier | None = None,
        keys: KeyRefresh | None = None,
        certificates: bool = False,
        processes: int = 1,
        sessions: Sessions | None = None,
    ) -> None:
        """Every method of authentication is disabled by default.

        ``access`` returns what a principal of a kind may do. ``keys``: those of ``tokens``, if they come
        from a URL. ``processes``: how many of this host serve clients, each with a gate of its own.
        ``sessions``: of the console, for those with passwords or tokens.
        """
        self._access = access
        self._users = users
        self._tokens = tokens
        self._keys = keys
        self._certificates = certificates
        self._sessions = sessions
        self._reads_header = users is not None or tokens is not None
        self._verifier = Verifier()
        self._throttle = Throttle(processes)
        self._key = secrets.token_bytes(32)
        self._last = self._last_tag = b""
        # Of users and keys, and of the rules.
        self._revision = self._rules_revision = 0
        # A new one whenever an admission ends or changes before its time.
        self._edition = object()
        self._known: Recent[_Remembered] = Recent(UNUSED_S, REMEMBERED_MAX)
        self._wrong: Recent[bool] = Recent(UNUSED_S, REMEMBERED_MAX)
        # Passwords that were right once: no guesses, also when they are verified again because files changed.
        self._proven: Recent[bool] = Recent(PASSWORD_S, REMEMBERED_MAX)
        self._verifying: dict[bytes, asyncio.Event] = {}

    def forget(self) -> None:
        """Forget all verified credentials, because users or keys have changed."""
        self._revision += 1
        self._edition = object()
        self._known.clear()
        self._wrong.clear()

    def rules_changed(self) -> None:
        """Find the access of each principal again; verified credentials stay verified."""
        self._rules_revision += 1
        self._edition = object()

    def cached_admission(self, credentials: Credentials) -> Admission | None:
        """Return the admission of credentials that were verified a short time ago."""
        found = self._recall(credentials)
        return None if found is None else found.admission

    def find_pass(self, credentials: Credentials) -> Pass | None:
        """Return a pass for credentials that were verified a short time ago."""
        found = self._recall(credentials)
        if found is None:
            return None
        # It ends in time for the credentials to be looked up again while they are remembered.
        return Pass(found.admission, min(found.until, self._known.turns_at), self._edition)

    def holds(self, found: Pass) -> bool:
        """Return true if :meth:`find_pass` would admit as before."""
        return found.edition is self._edition and time.monotonic() < found.until

    def _recall(self, credentials: Credentials) -> _Remembered | None:
        last = credentials.authorization is self._last and self._last != b""
        key, now = self._last_tag if last else self._name(credentials), time.monotonic()
        found = self._known.get(key, now)
        if found is None:
            return None
        if found.until < now:
            self._known.drop(key)
            return None
        if found.rules != self._rules_revision:
            self._remember(key, found.admission.principal, found.admission.method, found.until)
            found = self._known.get(key, now)
        return found

    async def admit(self, credentials: Credentials) -> Admission:
        """Verify credentials. Raises :class:`NotAdmitted` (401, 429), or 503 if they cannot be verified."""
        authorization = credentials.authorization
        if not self._counts(authorization):
            return self._admit_without_header(credentials)
        scheme, _, value = authorization.partition(b" ")
        if len(authorization) <= HEADER_BYTES_MAX:
            if scheme.lower() == b"basic" and self._users is not None:
                return await self._admit_password(
                    self._tag(authorization), value.strip(), credentials.address
                )
            if scheme.lower() == b"bearer" and self._tokens is not None:
                return await self._admit_token(self._tag(authorization), value.strip())
            if authorization.startswith(SESSION) and self._sessions is not None:
                return self._admit_session(self._tag(authorization), value)
        raise self._unauthorized_error()

    def close(self) -> None:
        """End the threads."""
        self._verifier.close()

    def _name(self, credentials: Credentials) -> bytes | str:
        """Return the key of credentials in the cache: a tag (bytes), or a certificate's principal (text)."""
        authorization = credentials.authorization
        if self._counts(authorization):
            return self._tag(authorization)
        return credentials.certificate if self._certificates else ""

    def _counts(self, authorization: bytes) -> bool:
        """Return true if a header decides who the client is, and not its certificate."""
        return self._reads_header and authorization not in (b"", _NO_CREDENTIALS)

    def _tag(self, authorization: bytes) -> bytes:
        # Connections keep the headers that they have parsed, so a client that repeats its headers shows the
        # same object again. Comparing contents instead would take a time that depends on the secret.
        if authorization is not self._last:
            self._last = authorization
            self._last_tag = hashlib.blake2b(authorization, key=self._key, digest_size=_TAG_BYTES).digest()
        return self._last_tag

    def _remember(self, key: bytes | str, principal: Principal, method: str, until: float) -> Admission:
        admission = Admission(principal, self._access(principal, KIND_OF_METHOD[method]), method)
        self._known.put(key, _Remembered(admission, until, self._rules_revision))
        return admission

    def _admit_without_header(self, credentials: Credentials) -> Admission:
        name = credentials.certificate if self._certificates else ""
        if name:
            return self._remember(name, Principal(name), "certificate", math.inf)
        raise NoCredentials(401, "Unauthorized", self._challenges())

    # --- passwords

    async def _admit_password(self, tag: bytes, encoded: bytes, address: str) -> Admission:
        name, password = self._decode(encoded)
        for _ in range(_TRIES):
            verifying = self._verifying.get(tag)
            if verifying is None:
                await self._verify(tag, name, password, address)
            else:  # A client opens many connections at once.
                await verifying.wait()
            found = self._known.get(tag)
            if found is not None:
                return found.admission
            if self._wrong.get(tag):
                raise self._unauthorized_error()
        raise UNAVAILABLE("The users are changing")

    def _decode(self, encoded: bytes) -> tuple[bytes, bytes]:
        try:
            decoded = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            decoded = b""
        name, colon, password = decoded.partition(b":")
        if not colon:
            raise self._unauthorized_error()
        return name, password

    async def _verify(self, tag: bytes, name: bytes, password: bytes, address: str) -> None:
        """Verify a password and note the result, unless the users have changed meanwhile."""
        if self._wrong.get(tag):
            return  # A repetition: no further guess.
        is_guess = not self._proven.get(tag)
        if is_guess and (wait_s := self._throttle.begin(address)):
            raise _too_many(wait_s)
        assert self._users is not None
        done = self._verifying[tag] = asyncio.Event()
        users, revision, failed = self._users.value, self._revision, False
        try:
            network = wide_network(address)
            user = await self._verifier.verify(users, name, password, network, proven=not is_guess)
            failed = user is None
        finally:
            if is_guess:
                self._throttle.end(address, failed=failed)
            del self._verifying[tag]
            done.set()
        if revision != self._revision:
            return
        if user is None:
            self._wrong.put(tag, True)
        else:
            self._proven.put(tag, True)
            self._remember(tag, user.principal, "basic", time.monotonic() + PASSWORD_S)

    # --- tokens

    async def _admit_token(self, tag: bytes, token: bytes) -> Admission:
        assert self._tokens is not None
        try:
            try:
                found = self._tokens.verify(token)
            except UnknownKey:
                if self._keys is None:
                    raise
                await self._keys.refresh()
                if not self._keys.is_loaded:
                    raise UNAVAILABLE("The keys of the tokens' issuer cannot be fetched") from None
                found = self._tokens.verify(token)
        except TokenError as error:
            raise self._unauthorized_error(str(error)) from None
        remaining_s = min(TOKEN_S, found.expires - time.time())
        return self._remember(tag, found.principal, "bearer", time.monotonic() + remaining_s)

    # --- sessions of the console

    @property
    def cookie(self) -> str:
        """The name of the cookie that holds tokens of sessions."""
        return "" if self._sessions is None else self._sessions.cookie

    def begin(self, credentials: Credentials, admission: Admission) -> SignedIn:
        """Begin a session of who was admitted by these credentials, or renew theirs. Raises 400, 401."""
        sessions, authorization = self._sessions, credentials.authorization
        if sessions is None or not self._counts(authorization):
            raise BAD_REQUEST("Sessions are for those who sign in with a password or a token")
        _, _, value = authorization.partition(b" ")
        if authorization.startswith(SESSION):
            session = self._session_of(value)
            if session is None:
                raise self._unauthorized_error()
            return SignedIn(sessions.cookie, *sessions.renew(session))
        until, proof = math.inf, b""
        if admission.method == "bearer":
            assert self._tokens is not None
            try:
                until = self._tokens.verify(value.strip()).expires
            except TokenError as error:  # it has just expired
                raise self._unauthorized_error(str(error)) from None
        else:
            user = self._user(admission.principal.name)
            if user is None:
                raise self._unauthorized_error()
            proof = sessions.proof(user.password)
        return SignedIn(sessions.cookie, *sessions.begin(admission.principal, admission.method, proof, until))

    def end(self, credentials: Credentials) -> None:
        """End the session of these credentials, if they have one. Raises 503."""
        session = self._session_in(credentials)
        if session is not None:
            assert self._sessions is not None
            self._sessions.end(session)
            self._edition = object()
            self._known.drop(self._tag(credentials.authorization))

    def time_of(self, credentials: Credentials) -> SessionTime | None:
        """Return the time of the session of these credentials; ``None`` if they have none."""
        session = self._session_in(credentials)
        return None if session is None or self._sessions is None else self._sessions.time_of(session)

    def _session_in(self, credentials: Credentials) -> Session | None:
        scheme, _, token = credentials.authorization.partition(b" ")
        return self._session_of(token) if self._sessions is not None and scheme + b" " == SESSION else None

    def _admit_session(self, tag: bytes, token: bytes) -> Admission:
        session = self._session_of(token)
        if session is None:
            raise self._unauthorized_error()
        principal, method = session.principal, session.method
        if method == "basic":
            user = self._user(principal.name)
            if user is None:
                raise self._unauthorized_error()
            principal = user.principal  # with the groups of today
        remaining_s = min(SESSION_S, session.expires - time.time())
        return self._remember(tag, principal, method, time.monotonic() + remaining_s)

    def _session_of(self, token: bytes) -> Session | None:
        """Return the session of a token, unless its user is gone or has another password."""
        assert self._sessions is not None
        session = self._sessions.verify(token)
        if session is None or session.method != "basic":
            return session
        user = self._user(session.principal.name)
        return session if user is not None and self._sessions.proves(session, user.password) else None

    def _user(self, name: str) -> User | None:
        if self._users is None:
            return None
        users = self._users.value
        # Files of others may have names in another encoding.
        return users.get(name.encode()) or next((each for each in users if each.principal.name == name), None)

    # --- refusals

    def _unauthorized_error(self, reason: str = "") -> NotAdmitted:
        """Return the error 401; ``reason``: why a token is not valid."""
        return NotAdmitted(401, "Unauthorized", self._challenges(reason))

    def _challenges(self, reason: str = "") -> tuple[tuple[bytes, bytes], ...]:
        challenges = []
        if self._users is not None:
            challenges.append(b"Basic " + _REALM + b', charset="UTF-8"')
        if self._tokens is not None:
            why = b', error="invalid_token", error_description="%b"' % reason.encode() if reason else b""
            challenges.append(b"Bearer " + _REALM + why)
        return tuple((b"www-authenticate", each) for each in challenges)


def _too_many(wait_s: float) -> NotAdmitted:
    seconds = b"%d" % math.ceil(wait_s)
    return NotAdmitted(429, "Too many failed attempts to authenticate", ((b"retry-after", seconds),))
