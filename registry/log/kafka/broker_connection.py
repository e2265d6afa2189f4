"""A connection to a broker: login, renewal of the login (KIP-368), and errors that name settings.

The only module that extends aiokafka's connection, which changes between its releases.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
import time
from collections.abc import Awaitable, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed
from aiokafka.protocol.admin import ApiVersionRequest, SaslAuthenticateRequest, SaslHandShakeRequest

from registry.log.contract import LogError

from .refused_login import LoginRefused, describe_expiry, mismatch, probe, refusal_of
from .security import AWS_MSK_IAM, GSSAPI, OAUTHBEARER, Security, TlsContext
from .token_endpoint import expiry_of, fetch_token
from .tokens import TokenSource, check_signer, sign_token

# Share of a session's lifetime after which the connection logs in again.
_RENEW_PART = 0.8
# Time between two looks for the token with which to log in again.
_LOOK_S = 0.1
# A request's size, API, version, number and the length of the client's id.
_HEAD, _SIZE_BYTES = struct.Struct(">ihhih"), 4
_LOGIN_REQUESTS = (ApiVersionRequest, SaslHandShakeRequest, SaslAuthenticateRequest)
# How a refusal ends while it is unknown whether the settings are to blame.
IF_IT_PERSISTS = "if that persists"
# Errors of a peer that accepts a connection and closes it before it answers.
HANGS_UP = (KafkaConnectionError, ConnectionResetError, BrokenPipeError, EOFError, ssl.SSLError)


class Login:
    """The login of this process at the brokers, shared by its connections.

    Raises :class:`.contract.LogError` for unusable files and missing packages.
    """

    def __init__(self, security: Security) -> None:
        self.security = security
        self.tls = TlsContext(security)
        self.tokens = _token_source(security)
        # The listeners at which these settings have worked. One that hangs up later is probably stopping.
        self.proven: set[tuple[str, int]] = set()
        if security.mechanism == GSSAPI and find_spec("gssapi") is None:
            raise LogError(
                "kafka_sasl_mechanism = GSSAPI needs the Python package gssapi and Kerberos' library: "
                "install the extra kafka-registrar[kerberos], see docs/install.md"
            )

    def connection(self, host: str, port: int, *, timeout_s: float, client_id: str = "") -> BrokerConnection:
        """Return a connection that is not open yet; ``client_id`` replaces that of the settings."""
        return BrokerConnection(self, host, port, timeout_s, client_id or self.security.client_id)


@lru_cache(maxsize=16)
def login_with(security: Security) -> Login:
    """Return this process's login with these settings. Raises as :class:`Login`."""
    return Login(security)


def _token_source(security: Security) -> TokenSource | None:
    if security.mechanism == AWS_MSK_IAM:
        check_signer()
        return TokenSource(partial(sign_token, security), {})
    if security.mechanism == OAUTHBEARER:
        return TokenSource(partial(fetch_token, security), security.extensions)
    return None


class BrokerConnection(AIOKafkaConnection):  # type: ignore[misc] # aiokafka has no types
    """A connection that logs in again before the broker ends its session, while no request is sent."""

    def __init__(self, login: Login, host: str, port: int, timeout_s: float, client_id: str) -> None:
        security = login.security
        mechanism = OAUTHBEARER if login.tokens else security.mechanism
        super().__init__(
            host,
            port,
            client_id=client_id,
            request_timeout_ms=round(timeout_s * 1000),
            ssl_context=login.tls.current(),
            security_protocol=security.security_protocol,
            sasl_mechanism=mechanism or None,
            sasl_plain_username=security.sasl_username,
            sasl_plain_password=security.secret("sasl_password"),
            sasl_kerberos_service_name=security.sasl_kerberos_service_name,
            sasl_oauth_token_provider=login.tokens,
        )
        self._login = login
        self._client = client_id.encode()
        self._logging_in = asyncio.Lock()
        self._offered: Sequence[str] = ()
        self._bearer: _Bearer | None = None
        # By the event loop's clock: when to log in again, and when the broker ends the session.
        self._renew_at = self._ends_at = float("inf")
        # True once the broker has answered a request after the login.
        self._proven = False

    @property
    def api_versions(self) -> Any:
        """The request versions that the broker supports."""
        return self._versions

    async def connect(self) -> Any:
        """Connect and log in. Raises :class:`LoginRefused`, ``OSError`` and aiokafka's errors."""
        try:
            return await super().connect()
        except Exception as error:
            await self._raise_refused(error)
            raise

    @property
    def is_ready(self) -> bool:
        """True if requests can be sent without logging in again."""
        return bool(self._loop.time() < self._renew_at)

    async def ready(self) -> None:
        """Wait until requests can be sent: log in again if that is due. Raises as :meth:`connect`."""
        if not self.is_ready:
            async with self._logging_in:
                if not self.is_ready:
                    await self._log_in_again()

    def send(self, request: Any, expect_response: bool = True) -> Any:
        """Send a request and return an awaitable for the answer."""
        if isinstance(request, _LOGIN_REQUESTS):
            return self._answered_login(super().send(request, expect_response))
        if not self.is_ready:
            return self._send_when_ready(request, expect_response)
        if self._proven and expect_response:
            return self._send_at_once(request)
        return self._first_answer(request, expect_response)

    def _send_at_once(self, request: Any) -> asyncio.Future[Any]:
        """Do what aiokafka does, without a coroutine and objects for the header."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self._writer is None:
            answer.set_exception(KafkaConnectionError(f"the connection to {self.host}:{self.port} is closed"))
            return answer
        prepared, number, client = request.prepare(self._versions), self._next_correlation_id(), self._client
        tail = client + b"\0" if prepared.FLEXIBLE_VERSION else client  # no tags
        message = tail + prepared.encode()
        key, version = prepared.API_KEY, prepared.API_VERSION
        head = _HEAD.pack(_HEAD.size - _SIZE_BYTES + len(message), key, version, number, len(client))
        self._writer.write(head + message)
        self._requests.append((number, prepared, answer))
        timer = self._loop.call_later(self._request_timeout, _time_out, answer)
        answer.add_done_callback(lambda _: timer.cancel())
        return answer

    async def _send_when_ready(self, request: Any, expect_response: bool) -> Any:
        await self.ready()
        return await super().send(request, expect_response)

    async def _first_answer(self, request: Any, expect_response: bool) -> Any:
        """Return the first answer. A listener that wants a login hangs up instead."""
        try:
            answer = await super().send(request, expect_response)
        except HANGS_UP as error:
            await self._raise_refused(error)
            raise
        self._proven = True
        self._login.proven.add((self.host, self.port))
        return answer

    async def _answered_login(self, answering: Awaitable[Any]) -> Any:
        """Return an answer during the login, and remember what it says about mechanisms and the session."""
        answer = await answering
        self._offered = getattr(answer, "enabled_mechanisms", self._offered)
        lifetime_ms = getattr(answer, "session_lifetime_ms", 0)
        if lifetime_ms > 0:
            now = self._loop.time()
            self._renew_at = now + _RENEW_PART * lifetime_ms / 1000
            self._ends_at = now + lifetime_ms / 1000
        return answer

    async def _log_in_again(self) -> None:
        tokens, now = self._login.tokens, self._loop.time()
        if tokens is not None and now < self._ends_at and not tokens.fresh():
            # Requests need not wait for the token while the session lasts.
            self._renew_at = min(self._ends_at, now + _LOOK_S)
            return
        try:
            if tokens is not None:
                # Fetched before the login begins, because between its requests nothing may wait long.
                await tokens.token(fresh=True)
            self._sasl_plain_password = self._login.security.secret("sasl_password")
            await self._do_sasl_handshake()
        except Exception as error:
            self.close(exc=error)
            await self._raise_refused(error)
            raise
        except BaseException:  # cancelled between two requests of the login
            self.close()
            raise

    def authenticator_oauth(self) -> _Bearer:
        """Return the client's side of OAUTHBEARER."""
        assert self._login.tokens is not None
        self._bearer = _Bearer(self._login.tokens)
        return self._bearer

    async def _raise_refused(self, error: Exception) -> None:
        """Raise the error that names the setting, unless ``error`` is no matter of the login."""
        security = self._login.security
        detail = "" if self._bearer is None else self._bearer.take_refusal()
        explained = refusal_of(error, security, offered=self._offered, detail=detail)
        if explained is None and detail and isinstance(error, HANGS_UP):
            # Some brokers accept an expired token, and end its session with the first request.
            explained = refusal_of(SaslAuthenticationFailed(), security, detail=detail)
        if explained is None and isinstance(error, HANGS_UP):
            explained = await self._hung_up(error)
        if explained is not None:
            raise explained from error

    async def _hung_up(self, error: Exception) -> LoginRefused:
        """Return the error for a listener that hangs up. A broker that is stopping does that, too."""
        security = self._login.security
        if (self.host, self.port) not in self._login.proven:
            text = mismatch(await probe(self.host, self.port), security)
            if text:
                return LoginRefused(text, final=False)
        advice = f"it hangs up on {security.security_protocol}: see kafka_security_protocol, {IF_IT_PERSISTS}"
        return LoginRefused(f"{_plain(error)} ({advice})", final=False)


def _time_out(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


class _Bearer:
    """The client's side of OAUTHBEARER (RFC 7628)."""

    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens
        self._token = ""
        # The broker's reason to refuse the token, as JSON; empty if it has not.
        self.error = ""

    async def step(self, received: bytes | None) -> tuple[bytes, bool] | None:
        """Return the next message and True; ``None`` after the last."""
        if not self._token:
            self._token = await self._tokens.token()
            pairs = {"auth": f"Bearer {self._token}", **self._tokens.extensions()}
            message = "n,,\x01" + "".join(f"{name}={value}\x01" for name, value in pairs.items()) + "\x01"
            return message.encode(), True
        if received:
            # After this acknowledgement, the broker answers with the error.
            self.error = received[:500].decode(errors="replace")
            return b"\x01", True
        return None

    def take_refusal(self) -> str:
        """Return why the token is refused, and have the next login fetch another one; empty if it is not."""
        reasons = [self.error, describe_expiry(expiry_of(self._token), time.time())]
        if any(reasons):
            self._tokens.discard(self._token)
        return ", ".join(filter(None, reasons))


def _plain(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if not error.__cause__ else f"{text} ({_plain(error.__cause__)})"
