"""Tokens for OAUTHBEARER."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib.util import find_spec

from aiokafka.abc import AbstractTokenProvider

from registry.log.contract import LogError

from .security import Security
from .timestamps import boot_s

# Share of a token's lifetime after which the next one is fetched.
RENEW_PART = 0.7
# A login that extends a session takes a token that is at most this old; an older one would extend it little.
_FRESH_PART = 0.5
_RETRY_MIN_S, _RETRY_MAX_S = 1.0, 30.0
_log = logging.getLogger(__name__)


class TokenUnavailable(Exception):
    """No token could be fetched; a retry may succeed. The text names the settings."""


class TokenRefused(TokenUnavailable):
    """The token endpoint refused the client; it takes other settings."""


@dataclass(frozen=True)
class Token:
    """A token and its lifetime from now on."""

    text: str = field(repr=False)
    lifetime_s: float
    received_at: float = field(default_factory=boot_s)

    @property
    def valid(self) -> bool:
        """True until it expires."""
        return boot_s() < self.received_at + self.lifetime_s

    @property
    def renewal_in_s(self) -> float:
        """Time until the next token should be fetched."""
        return max(0.0, self.received_at + RENEW_PART * self.lifetime_s - boot_s())

    @property
    def fresh(self) -> bool:
        """True for the first half of its lifetime."""
        return boot_s() < self.received_at + _FRESH_PART * self.lifetime_s


class TokenSource(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types
    """The current token of a process; any event loop may ask for it.

    The thread that fetches a token goes on to renew it, as long as it was used meanwhile.
    """

    def __init__(self, fetch: Callable[[], Token], extensions: dict[str, str]) -> None:
        self._fetch = fetch
        self._extensions = extensions
        self._changing = threading.Lock()
        self._token: Token | None = None
        self._fetching: Future[Token] | None = None
        self._failed_at = float("-inf")
        self._renewer: threading.Thread | None = None
        self._used = False

    def fresh(self) -> bool:
        """Return True if the token is fresh; otherwise begin to fetch the next one."""
        self._used = True
        token = self._token
        if token is not None and token.fresh:
            return True
        if boot_s() >= self._failed_at + _RETRY_MIN_S:
            self._next(token)
        return False

    async def token(self, *, fresh: bool = False) -> str:
        """Return a valid token, if possible a fresh one. Raises :class:`TokenUnavailable`."""
        self._used = True
        token = self._token
        if token is not None and token.valid:
            good = token.fresh if fresh else self._renewer is not None or token.renewal_in_s > 0
            if good:
                return token.text
        try:
            # Others may wait for the same token, so a caller that is cancelled does not cancel the fetch.
            return (await asyncio.shield(asyncio.wrap_future(self._next(token)))).text
        except TokenUnavailable:
            if token is None or not token.valid:
                raise
            return token.text

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions that are sent with the token."""
        return self._extensions

    def discard(self, text: str) -> None:
        """Forget a token that a broker has refused, so that the next login fetches another one."""
        with self._changing:
            if self._token is not None and self._token.text == text:
                self._token = None

    def _next(self, former: Token | None) -> Future[Token]:
        """Return the fetch of the token after ``former``, which ends at once if there is a newer one."""
        with self._changing:
            if self._token is not former and self._token is not None:
                done: Future[Token] = Future()
                done.set_result(self._token)
                return done
            if self._fetching is None:
                self._fetching = Future()
                threading.Thread(
                    target=self._run, args=(self._fetching,), name="kafka-token", daemon=True
                ).start()
            return self._fetching

    def _run(self, first: Future[Token]) -> None:
        try:
            token = self._fetch()
        except Exception as error:
            self._settle(None)
            first.set_exception(
                error if isinstance(error, TokenUnavailable) else TokenUnavailable(f"no token: {error!r}")
            )
            return
        self._settle(token)
        first.set_result(token)
        try:
            self._renew(token)
        finally:
            with self._changing:
                if self._renewer is threading.current_thread():
                    self._renewer = None

    def _settle(self, token: Token | None) -> None:
        with self._changing:
            self._fetching = None
            if token is None:
                self._failed_at = boot_s()
            else:
                self._token, self._renewer = token, threading.current_thread()

    def _renew(self, token: Token) -> None:
        """Replace ``token`` and its successors before they expire, until one was not used or is discarded."""
        pause = threading.Event()
        retry_s, logged = _RETRY_MIN_S, ""
        pause.wait(token.renewal_in_s)
        while token.valid and self._used and self._token is token:
            try:
                renewed = self._fetch()
            except Exception as error:
                if str(error) != logged:
                    _log.warning("%s; the current token is used until it expires", error)
                logged = str(error)
                pause.wait(retry_s)
                retry_s = min(2 * retry_s, _RETRY_MAX_S)
                continue
            with self._changing:
                if self._token is not token:
                    return
                self._token = token = renewed
            retry_s, logged = _RETRY_MIN_S, ""
            self._used = False
            pause.wait(token.renewal_in_s)


_SEE = "see kafka_sasl_aws_region, and the AWS credentials of this host (environment, profile or role)"


def check_signer() -> None:
    """Raise :class:`.contract.LogError` if the signer is not installed."""
    if find_spec("aws_msk_iam_sasl_signer") is None:
        raise LogError(
            "kafka_sasl_mechanism = AWS_MSK_IAM needs the Python package aws-msk-iam-sasl-signer-python: "
            "install the extra kafka-registrar[aws], see docs/install.md"
        )


def sign_token(security: Security) -> Token:
    """Return a token: a presigned URL. Raises :class:`.tokens.TokenUnavailable`.

    It may take long, because AWS's library can fetch credentials over the network.
    """
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 (an extra)

    region = (
        security.sasl_aws_region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
    )
    if not region:
        raise TokenUnavailable(f"no AWS region is known for AWS_MSK_IAM; {_SEE}")
    try:
        text, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except Exception as error:  # botocore's errors have no common base
        raise TokenUnavailable(f"no token for AWS_MSK_IAM: {error}; {_SEE}") from error
    return Token(text, expires_ms / 1000 - time.time())
