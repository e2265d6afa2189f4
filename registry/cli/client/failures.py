"""One sentence for each way in which a server cannot be reached or is no registry."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx

from .messages import Answer

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_USUAL_PORT = "Confluent's and this registry listen at 8081 by default"


def why_unreachable(url: str, error: httpx.TransportError) -> str:
    """Return what happened to a request to ``url``, and what to do."""
    causes = list(_causes(error))
    if found := next((each for each in causes if isinstance(each, ssl.SSLCertVerificationError)), None):
        return (
            f"{url}: its certificate is not accepted ({found.verify_message}): name the CA that signed it by "
            "--ca FILE or REGISTRAR_CA, and use a host name that the certificate holds"
        )
    if any(isinstance(each, ssl.SSLError) for each in causes):
        return _why_no_tls(url, str(error))
    if isinstance(error, httpx.TimeoutException):
        return f"{url} did not answer in time: check the host and the port, or give more time by --timeout"
    if isinstance(error, httpx.ConnectError):
        return _why_no_connection(url, causes, str(error))
    plain = urlsplit(url).scheme == "http"
    hint = "; if it serves TLS, write https://" if plain else ""
    return f"{url} closed the connection without an answer in HTTP: check the port{hint} ({_USUAL_PORT})"


def _why_no_tls(url: str, text: str) -> str:
    if any(word in text for word in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")):
        return f"{url} does not speak TLS at this port: write http://, or use its port for https"
    if "CERTIFICATE_REQUIRED" in text or "HANDSHAKE_FAILURE" in text or "BAD_CERTIFICATE" in text:
        return f"{url} wants a certificate of the client: name one by --certificate and --key ({text})"
    return f"{url}: the TLS handshake failed: {text}"


def _why_no_connection(url: str, causes: list[BaseException], text: str) -> str:
    if any(isinstance(each, ConnectionRefusedError) for each in causes) or "refused" in text.lower():
        return f"nothing listens at {url}: check the port, or start the registry ({_USUAL_PORT})"
    if (
        "Name or service not known" in text
        or "nodename" in text
        or "No address" in text
        or "resolution" in text
    ):
        return f"the host of {url} is unknown: check its name"
    return f"cannot reach {url}: {text or 'no connection'}: check the host, the port and the network"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def not_a_registry(path: str, answer: Answer, reason: str = "") -> str:
    """Return a sentence about an answer that no registry gives; ``reason``: what is wrong with its JSON."""
    url = answer.address.url
    if httpx.codes.is_redirect(answer.status):
        where = answer.headers.get("location", "nowhere")[:200]
        return f"{url} redirects to {where!r}: use the URL of the registry itself"
    if answer.status == httpx.codes.BAD_REQUEST and b"HTTPS" in answer.content[:1000].upper():
        return f"{url} serves TLS at this port: write https://"
    if answer.is_success and _SURROGATE.search(answer.content):
        return f"{url} answered {path} with text that is not Unicode: half of a surrogate pair"
    if reason:
        return (
            f"{url} is not a schema registry, or damaged: it answered {path} with unexpected JSON: {reason}"
        )
    kind = answer.media_type[:60] or "no content type"
    return (
        f"{url} is not a schema registry: it answered {path} with status {answer.status} and {kind}; "
        f"check the port and the path of the URL ({_USUAL_PORT})"
    )


def advice(path: str, answer: Answer, code: int) -> str:
    """Return what to do about an error that the registry answered with, to put behind its message."""
    url, credentials, side = answer.address
    if code == httpx.codes.NOT_FOUND:
        return (
            f" ({url} has no {path.partition('?')[0]}: check the path of the URL, and which registry it is)"
        )
    if answer.status == httpx.codes.UNAUTHORIZED:
        if credentials:
            return f" ({url} refused {credentials.shown})"
        given = f"set REGISTRAR_USER{side}=NAME:PASSWORD or REGISTRAR_TOKEN{side}, or use ~/.netrc"
        return f" ({url} wants credentials: {given})"
    if answer.status == httpx.codes.FORBIDDEN:
        who = f"with {credentials.shown}" if credentials else "without credentials"
        return f" ({url} does not allow this {who})"
    if answer.status == httpx.codes.TOO_MANY_REQUESTS or answer.status >= 500:
        return f" ({url} answered {answer.status}; try again later)"
    return ""
