"""OAuth 2.0 client credentials: one bounded request to a token endpoint."""

from __future__ import annotations

import base64
import http.client
import io
import json
import re
import socket
import ssl
import time
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from registry.base.processes.tls_connections import client_context

from .security import Security
from .tokens import Token, TokenRefused, TokenUnavailable

TIMEOUT_S = 10.0
_ANSWER_BYTES_MAX = 256 << 10
# Assumed if neither the endpoint nor the token says how long it is valid.
_LIFETIME_S = 60.0
_TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")
_SHOWN = 200
_REFUSALS = {400, 401, 403}
_URL, _CA = "kafka_sasl_oauthbearer_token_endpoint_url", "kafka_https_ca_location"
_CLIENT = "kafka_sasl_oauthbearer_client_id and kafka_sasl_oauthbearer_client_secret"


def fetch_token(security: Security, timeout_s: float = TIMEOUT_S) -> Token:
    """Fetch a token; blocks for at most about ``timeout_s``.

    Raises :class:`.tokens.TokenRefused` and :class:`.tokens.TokenUnavailable`.
    """
    url = security.sasl_oauthbearer_token_endpoint_url
    try:
        status, body = _post(security, time.monotonic() + timeout_s)
    except ssl.SSLCertVerificationError as error:
        text = f"the certificate of the token endpoint {url} is not trusted: {error.verify_message}"
        raise TokenUnavailable(f"{text}; see {_CA} and {_URL}") from error
    except (OSError, http.client.HTTPException) as error:
        said = "it did not answer in time" if isinstance(error, TimeoutError) else str(error)
        raise TokenUnavailable(f"the token endpoint {url} cannot be reached: {said}; see {_URL}") from error
    answer = _json(body)
    if status in _REFUSALS:
        raise TokenRefused(_refusal(url, status, answer))
    if status != http.client.OK:
        raise TokenUnavailable(f"the token endpoint {url} answered with status {status}; see {_URL}")
    token: object = answer.get("access_token")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise TokenUnavailable(f"the token endpoint {url} answered without an access_token; see {_URL}")
    return Token(token, _lifetime_s(answer, token))


def _post(security: Security, deadline: float) -> tuple[int, bytes]:
    url = urlsplit(security.sasl_oauthbearer_token_endpoint_url)
    assert url.hostname is not None
    port = (443 if url.scheme == "https" else 80) if url.port is None else url.port
    with socket.create_connection((url.hostname, port), _left_s(deadline)) as plain:
        if url.scheme != "https":
            return _exchange(plain, _request(security), deadline)
        context = client_context(security.https_ca_location)
        plain.settimeout(_left_s(deadline))
        with context.wrap_socket(plain, server_hostname=url.hostname) as encrypted:
            return _exchange(encrypted, _request(security), deadline)


def _request(security: Security) -> bytes:
    """Return the request of RFC 6749, section 4.4.2, with the credentials encoded as Kafka's client does."""
    url = urlsplit(security.sasl_oauthbearer_token_endpoint_url)
    client = f"{security.sasl_oauthbearer_client_id}:{security.secret('sasl_oauthbearer_client_secret')}"
    form = {"grant_type": "client_credentials"}
    if security.sasl_oauthbearer_scope:
        form["scope"] = security.sasl_oauthbearer_scope
    body = urlencode(form)
    lines = [
        f"POST {url._replace(scheme='', netloc='').geturl() or '/'} HTTP/1.1",
        f"Host: {url.netloc}",
        f"Authorization: Basic {base64.b64encode(client.encode()).decode()}",
        "Accept: application/json",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def _exchange(connected: socket.socket, request: bytes, deadline: float) -> tuple[int, bytes]:
    connected.settimeout(_left_s(deadline))
    connected.sendall(request)
    received = bytearray()
    while len(received) <= _ANSWER_BYTES_MAX:
        connected.settimeout(_left_s(deadline))
        piece = connected.recv(1 << 16)
        if not piece:
            break
        received += piece
    if len(received) > _ANSWER_BYTES_MAX:
        raise http.client.HTTPException(f"its answer is longer than {_ANSWER_BYTES_MAX} bytes")
    response = http.client.HTTPResponse(cast("socket.socket", _Received(bytes(received))), method="POST")
    response.begin()
    return response.status, response.read()


class _Received:
    """An answer that was received completely, as :class:`http.client.HTTPResponse` reads it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        """Return the answer as a file."""
        return io.BytesIO(self._data)


def _left_s(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _refusal(url: str, status: int, answer: dict[str, Any]) -> str:
    """Return the reason of RFC 6749, section 5.2, and the setting that it is about."""
    error, description = (str(answer.get(name) or "") for name in ("error", "error_description"))
    said = ": ".join(filter(None, [error or f"status {status}", description]))
    said = "".join(each if each.isprintable() else " " for each in said[:_SHOWN])
    setting = "kafka_sasl_oauthbearer_scope" if error == "invalid_scope" else _CLIENT
    return f"the token endpoint {url} refused the client: {said}; see {setting}"


def _lifetime_s(answer: dict[str, Any], token: str) -> float:
    """Return how long the token is valid: by the endpoint's answer, else by the token's own claims."""
    lifetime: object = answer.get("expires_in")
    if isinstance(lifetime, str) and lifetime.isascii() and lifetime.isdigit():
        lifetime = int(lifetime[:12])
    if isinstance(lifetime, int | float) and not isinstance(lifetime, bool) and lifetime > 0:
        return float(lifetime)
    expires = expiry_of(token)
    return _LIFETIME_S if expires is None else expires - time.time()


def expiry_of(token: str) -> float | None:
    """Return the claim ``exp`` of a JSON Web Token, in seconds since the epoch; ``None`` if it has none."""
    try:
        claims = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
        return float(found)
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        return None
