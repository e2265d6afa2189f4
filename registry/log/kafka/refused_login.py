"""Errors of refused logins, each with the setting to look at."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from aiokafka.errors import IllegalSaslStateError, SaslAuthenticationFailed, UnsupportedSaslMechanismError

from .security import AWS_MSK_IAM, GSSAPI, OAUTHBEARER, Security
from .tokens import TokenRefused, TokenUnavailable

PROBE_TIMEOUT_S = 1.0
_SASL_HANDSHAKE, _VERSION, _CORRELATION = 17, 1, 1
_ILLEGAL_SASL_STATE = 34
_ANSWER_BYTES_MAX = 1 << 16


class Listener(NamedTuple):
    """The kind of a listener."""

    tls: bool
    # The SASL mechanisms that it offers; empty without SASL, None if it did not say.
    mechanisms: tuple[str, ...] | None

    @property
    def protocol(self) -> str:
        """The ``security.protocol`` that it takes."""
        protocol = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{protocol}" if self.mechanisms else protocol


async def probe(host: str, port: int) -> Listener | None:
    """Return what listens at this address; ``None`` if that is unknown. Sends nothing secret."""
    for tls in (False, True):
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                found = await _probe(host, port, tls=tls)
        except (OSError, EOFError, struct.error, UnicodeDecodeError):
            continue
        if found is not None:
            return found
    return None


async def _probe(host: str, port: int, *, tls: bool) -> Listener | None:
    reader, writer = await asyncio.open_connection(host, port, ssl=_any_certificate() if tls else None)
    try:
        mechanisms = await _mechanisms(reader, writer)
    except (OSError, EOFError, struct.error, UnicodeDecodeError):
        # TLS was spoken, but for example a client certificate is missing.
        return Listener(tls=True, mechanisms=None) if tls else None
    finally:
        writer.transport.abort()
    return Listener(tls, mechanisms)


def _any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing secret is sent, and the answer only helps to word an error
    return context


async def _mechanisms(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, ...]:
    """Send a SaslHandshake, which is allowed before any login, and return the mechanisms in the answer."""
    name = b"PLAIN"
    request = struct.pack(">hhih", _SASL_HANDSHAKE, _VERSION, _CORRELATION, -1)
    request += struct.pack(">h", len(name)) + name
    writer.write(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    if not 10 <= size <= _ANSWER_BYTES_MAX:
        raise EOFError("this is not Kafka's protocol")
    answer = await reader.readexactly(size)
    correlation, code, count = struct.unpack_from(">ihi", answer)
    if correlation != _CORRELATION:
        raise EOFError("this is not Kafka's protocol")
    if code == _ILLEGAL_SASL_STATE:
        return ()
    names, at = [], 10
    for _ in range(count):
        (length,) = struct.unpack_from(">h", answer, at)
        names.append(answer[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return tuple(names)


# X.509 verification errors of OpenSSL.
_EXPIRED, _NOT_YET_VALID, _OTHER_NAME, _OTHER_ADDRESS = 10, 9, 62, 64
_NAMES = {_OTHER_NAME, _OTHER_ADDRESS}
_DATES = {_EXPIRED, _NOT_YET_VALID}
_CERTIFICATE = "see kafka_ssl_certificate_location and kafka_ssl_key_location"
# By mechanism, if it has no password.
_SEE = {
    OAUTHBEARER: "see kafka_sasl_oauthbearer_token_endpoint_url, kafka_sasl_oauthbearer_scope and the clocks",
    AWS_MSK_IAM: "see kafka_sasl_aws_region, and the policy of the AWS credentials",
    GSSAPI: "see kafka_sasl_kerberos_service_name, and the ticket (kinit) or keytab (KRB5_CLIENT_KTNAME)",
}
# Alerts by which a broker refuses the client's certificate.
_ALERTS = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")


class LoginRefused(ConnectionError):
    """A broker refused the login; ``final``: a retry with the same settings would fail again."""

    def __init__(self, text: str, *, final: bool) -> None:
        super().__init__(text)
        self.final = final


def refusal_of(
    error: BaseException, security: Security, *, offered: Sequence[str] = (), detail: str = ""
) -> LoginRefused | None:
    """Return the error for a failed connection attempt; ``None`` if it is no matter of the login.

    ``offered`` are the broker's SASL mechanisms, ``detail`` is what it said about a refused token.
    """
    match error:
        case LoginRefused():
            return error
        case TokenUnavailable():
            return LoginRefused(str(error), final=isinstance(error, TokenRefused))
        case IllegalSaslStateError():
            return LoginRefused(mismatch(Listener(security.tls, ()), security), final=False)
        case UnsupportedSaslMechanismError():
            mechanism = f"it does not offer the SASL mechanism {security.mechanism} here"
            others = f", but {', '.join(offered)}" if offered else ""
            return LoginRefused(f"{mechanism}{others}; see kafka_sasl_mechanism", final=True)
        case SaslAuthenticationFailed():
            said = f"it refuses the token ({detail})" if detail else _text_of(error)
            return LoginRefused(f"{said}; {_see(security)}", final=True)
        case ssl.SSLCertVerificationError():
            return LoginRefused(_describe_certificate_error(error), final=True)
        case ssl.SSLError() if any(alert in (error.reason or "") for alert in _ALERTS):
            certificate = "its TLS refuses the client certificate"
            if not security.ssl_certificate_location:
                certificate = "its TLS demands a client certificate"
            return LoginRefused(f"{certificate} ({error.reason}); {_CERTIFICATE}", final=True)
    if type(error).__module__.startswith("gssapi"):
        # The codes of GSSAPI and of Kerberos come first.
        reason = _text_of(error).rpartition("): ")[2]
        return LoginRefused(f"Kerberos: {reason}; {_see(security)}", final=False)
    return refusal_of(error.__cause__, security) if error.__cause__ else None


def describe_expiry(token_expiry: float | None, now: float) -> str:
    """Return a sentence about a refused token that has expired by this host's clock; empty if it has not."""
    if token_expiry is None or token_expiry > now:
        return ""
    return f"the token expired at {datetime.fromtimestamp(token_expiry, UTC):%Y-%m-%dT%H:%M:%SZ}"


def mismatch(found: Listener | None, security: Security) -> str:
    """Return in which way a listener differs from the settings; empty if it does not, or is unknown."""
    if found is None:
        return ""
    given = f"kafka_security_protocol = {security.security_protocol}"
    if found.tls != security.tls:
        uses = "uses TLS" if found.tls else "uses no TLS"
    elif found.mechanisms is not None and bool(found.mechanisms) != bool(security.mechanism):
        uses = f"uses SASL ({', '.join(found.mechanisms)})" if found.mechanisms else "uses no SASL"
    else:
        return ""
    here = f"see kafka_security_protocol ({found.protocol} is its protocol)"
    return f"this listener {uses}, but {given}; {here}"


def _see(security: Security) -> str:
    return _SEE.get(security.mechanism, "see kafka_sasl_username and kafka_sasl_password")


def _describe_certificate_error(error: ssl.SSLCertVerificationError) -> str:
    """Return why a broker's certificate was rejected, and the setting that matters."""
    if error.verify_code in _NAMES:
        return (
            f"its certificate is for another host: {error.verify_message}; "
            "see kafka and kafka_ssl_endpoint_identification_algorithm"
        )
    if error.verify_code in _DATES:
        return f"its certificate is not valid now: {error.verify_message}; renew it, or set the clock"
    return f"its certificate is not trusted: {_text_of(error)}; see kafka_ssl_ca_location"


def _text_of(error: BaseException) -> str:
    """Return the text of an error without aiokafka's prefix."""
    text = error.args[0] if isinstance(error, SaslAuthenticationFailed) and error.args else error
    return str(text) or type(error).__name__
