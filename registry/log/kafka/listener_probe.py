"""Finding out what a broker's listener expects when it hangs up on a connection."""

from __future__ import annotations

import asyncio
import ssl
import struct
from typing import NamedTuple

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
    """Return what listens at this address; ``None`` if that cannot be told. Sends nothing secret."""
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
