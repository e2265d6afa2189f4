"""Requests to the servers of one registry: which one is asked, and what happens if it cannot answer."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from registry import VERSION

from .addresses import Address
from .resources import BadAddress, NotARegistry, NotSent, Unreachable


class TlsFiles(NamedTuple):
    """PEM files for https: the CA (empty: the system's), and the client's certificate and key."""

    ca: str = ""
    certificate: str = ""
    key: str = ""


# Stands for the ETag of what does not exist.
NOTHING = "none"


class Request(NamedTuple):
    """A request to whichever server answers."""

    method: str
    path: str  # below the address
    params: Mapping[str, str | int | bool | None] = {}
    body: Any = None
    accept: str = ""
    condition: str = ""  # the ETag of what it may change, or NOTHING; empty: whatever is there


class Answer(NamedTuple):
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    next_page: str  # the target of the Link header with rel="next", or empty
    address: Address

    @property
    def is_success(self) -> bool:
        """True for a 2xx."""
        return httpx.codes.is_success(self.status)

    @property
    def warning(self) -> str:
        """The text of a warning with code 299; empty: none."""
        found = _WARNING.match(self.headers.get("warning", ""))
        return found[1] if found else ""

    @property
    def media_type(self) -> str:
        """The type of the content, without parameters; empty if none is said."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


_WARNING = re.compile(r'299 \S+ "([^"\\]*)"')
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
        return f"{url} did not answer in time: check the host and the port, or set a longer --timeout"
    if isinstance(error, httpx.ConnectError):
        return _why_no_connection(url, causes, str(error))
    plain = urlsplit(url).scheme == "http"
    hint = "; if it serves TLS, write https://" if plain else ""
    return f"{url} closed the connection without an answer in HTTP: check the port{hint} ({_USUAL_PORT})"


def _why_no_tls(url: str, text: str) -> str:
    if any(word in text for word in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")):
        return f"{url} does not speak TLS at this port: write http://, or use its port for https"
    if "CERTIFICATE_REQUIRED" in text or "HANDSHAKE_FAILURE" in text or "BAD_CERTIFICATE" in text:
        return f"{url} requires a client certificate: pass one with --certificate and --key ({text})"
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
        return f" ({url} requires credentials: {given})"
    if answer.status == httpx.codes.FORBIDDEN:
        who = f"with {credentials.shown}" if credentials else "without credentials"
        return f" ({url} does not allow this {who})"
    if answer.status == httpx.codes.TOO_MANY_REQUESTS or answer.status >= 500:
        return f" ({url} answered {answer.status}; try again later)"
    return ""


MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_HEADERS = {
    "Accept": f"{MEDIA_TYPE}, application/json",
    "Content-Type": MEDIA_TYPE,
    "User-Agent": f"registrar/{VERSION}",
}
# Every address is tried so many times, with a pause of at most so many seconds between the rounds.
_ROUNDS = 2
_PAUSE_S = 1.0
_CONNECT_S = 10.0
_ANSWER_BYTES_MAX = 1 << 30


class Transport:
    """Sends a request to the server that answered last.

    If that one cannot be reached or answers 503, the next ones are asked.
    """

    def __init__(self, addresses: Sequence[Address], tls: TlsFiles, timeout_s: float) -> None:
        self._addresses = list(addresses)
        secure = any(each.url.startswith("https:") for each in addresses)
        self._http = httpx.Client(
            verify=_context(tls) if secure else False,
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S)),
            headers=_HEADERS,
            trust_env=False,  # its netrc would win over credentials that were given
        )

    @property
    def address(self) -> Address:
        """The server that is asked first."""
        return self._addresses[0]

    def send(self, request: Request) -> Answer:
        """Return the first usable answer, or else the last 503. Raises :class:`.resources.RegistryError`."""
        failures: list[str] = []
        unavailable: Answer | None = None
        for turn in range(_ROUNDS * len(self._addresses)):
            if turn and turn % len(self._addresses) == 0:
                time.sleep(_pause_s(unavailable))
            try:
                answer = self._send(request)
            except httpx.InvalidURL as error:
                raise BadAddress(f"{self.address.url} cannot be used: {error}") from None
            except httpx.DecodingError:
                text = f"{self.address.url} answered {request.path} with damaged content"
                raise NotARegistry(text) from None
            except httpx.TransportError as error:
                failures.append(why_unreachable(self.address.url, error))
                if not _may_repeat(request, error):
                    raise Unreachable(failures[-1]) from None
            else:
                if answer.status != httpx.codes.SERVICE_UNAVAILABLE:
                    return answer
                unavailable = answer
            # Later requests begin with the next server too.
            self._addresses.append(self._addresses.pop(0))
        if unavailable is not None:
            return unavailable
        raise Unreachable("; ".join(dict.fromkeys(failures)))

    def send_once(self, request: Request) -> Answer:
        """Return the answer of the first server, whatever it is. Raises :class:`.resources.RegistryError`.

        :class:`.resources.NotSent` says that the request was certainly not done.
        """
        try:
            return self._send(request)
        except httpx.DecodingError:
            raise NotARegistry(f"{self.address.url} answered with damaged content") from None
        except httpx.TransportError as error:
            kind = NotSent if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) else Unreachable
            raise kind(why_unreachable(self.address.url, error)) from None

    def _send(self, request: Request) -> Answer:
        address = self.address
        headers = {"Authorization": address.credentials.header} if address.credentials else {}
        if request.accept:
            headers["Accept"] = request.accept
        if request.condition == NOTHING:
            headers["If-None-Match"] = "*"
        elif request.condition:
            quoted = request.condition == "*" or '"' in request.condition
            headers["If-Match"] = request.condition if quoted else f'"{request.condition}"'
        given = request.params.items()
        params = {name: _word(value) for name, value in given if value is not None and value is not False}
        target = address.url + request.path
        with self._http.stream(
            request.method, target, params=params or None, json=request.body, headers=headers
        ) as answer:
            content = bytearray()
            for part in answer.iter_bytes():
                content += part
                if len(content) > _ANSWER_BYTES_MAX:
                    raise NotARegistry(f"{target} answered with more than {_ANSWER_BYTES_MAX} bytes")
        next_page = answer.links.get("next", {}).get("url", "").removeprefix(address.url)
        if not next_page.startswith("/"):
            next_page = ""  # of another server, which these credentials are not meant for
        return Answer(answer.status_code, answer.headers, bytes(content), next_page, address)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _context(tls: TlsFiles) -> ssl.SSLContext:
    named = tls.ca
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
        # As for all clients of this project: see registry.base.processes.tls_connections.client_context.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if tls.certificate:
            named = tls.certificate
            context.load_cert_chain(tls.certificate, tls.key or None)
    except OSError as error:
        raise BadAddress(f"{named} cannot be used for TLS: {error.strerror or error}") from None
    return context


def _may_repeat(request: Request, error: httpx.TransportError) -> bool:
    """Return true unless the request may have been done, and doing it again would answer something else."""
    again = request.method != "DELETE" and not request.condition
    return again or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)


def _pause_s(answer: Answer | None) -> float:
    given = "" if answer is None else answer.headers.get("retry-after", "")
    return min(_PAUSE_S, float(given)) if given.isdigit() else _PAUSE_S / 5


def _word(value: object) -> str:
    return "true" if value is True else str(value)
