"""TLS for connections to ZooKeeper, and the reason why its servers cannot be reached."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, NamedTuple

_TIMEOUT_S = 1.0
_HANGS_UP_WITHIN_S = 0.5
_PORT = 2181


class Tls(NamedTuple):
    """PEM files for TLS; an empty name means unset. They are read for each connection."""

    ca: str = ""
    certificate: str = ""
    key: str = ""

    def arguments(self) -> dict[str, Any]:
        """Return the settings as arguments of kazoo's client."""
        return {
            "use_ssl": True,
            "ca": self.ca or None,
            "certfile": self.certificate or None,
            "keyfile": self.key or self.certificate or None,
            "check_hostname": True,
        }

    def context(self) -> ssl.SSLContext:
        """Return the context of one connection."""
        context = ssl.create_default_context(cafile=self.ca or None)
        if self.certificate:
            # Without a password, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(self.certificate, self.key or None, lambda: "")
        return context


async def unreachable(hosts: str, tls: Tls | None) -> str:
    """Return a sentence: none of ``hosts`` (``HOST:PORT,…``) can be reached, why, and the setting."""
    reasons = {}
    for address in hosts.split(","):
        host, _, port = address.rpartition(":")
        reasons[address] = await _reason(host.strip("[]"), int(port or _PORT), tls)
    reason = next(filter(None, reasons.values()), "")
    return f"ZooKeeper at {hosts} cannot be reached{': ' if reason else ''}{reason}"


async def _reason(host: str, port: int, tls: Tls | None) -> str:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            if tls is not None:
                return await _reason_with_tls(host, port, tls)
            return "it uses TLS; see zookeeper_tls" if await _speaks_tls(host, port) else ""
    except TimeoutError:
        return f"no answer in {_TIMEOUT_S:g} s"
    except OSError as error:
        return str(error)


async def _reason_with_tls(host: str, port: int, tls: Tls) -> str:
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=tls.context())
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not trusted: {error.verify_message}; see zookeeper_tls_ca"
    except (ssl.SSLError, ConnectionResetError) as error:
        if await _speaks_tls(host, port):
            return f"its TLS refuses this client: {error}; see zookeeper_tls_certificate"
        return "it uses no TLS; see zookeeper_tls"
    try:
        # In TLS 1.3 a server examines the client's certificate after the client has finished.
        async with asyncio.timeout(_HANGS_UP_WITHIN_S):
            hangs_up = not await reader.read(1)
    except (ssl.SSLError, ConnectionResetError):
        hangs_up = True
    except TimeoutError:
        hangs_up = False
    finally:
        writer.transport.abort()
    if not tls.certificate:
        return "it hangs up; see zookeeper_tls_certificate, if it demands one"
    return "it refuses the certificate of this client; see zookeeper_tls_certificate" if hangs_up else ""


async def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent, and the answer only helps to word an error
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=context)
    except (ssl.SSLError, ConnectionResetError):
        return False
    writer.transport.abort()
    return True
