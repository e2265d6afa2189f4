"""Requests to the servers of one registry: which one is asked, and what happens if it cannot answer."""

from __future__ import annotations

import ssl
import time
from collections.abc import Sequence

import httpx

from registry import VERSION

from .addresses import Address
from .errors import BadAddress, NotARegistry, Unreachable
from .failures import why_unreachable
from .messages import Answer, Request, TlsFiles

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
        """Return the first usable answer, or else the last 503. Raises :class:`.errors.RegistryError`."""
        failures: list[str] = []
        unavailable: Answer | None = None
        for turn in range(_ROUNDS * len(self._addresses)):
            if turn and turn % len(self._addresses) == 0:
                time.sleep(_pause_s(unavailable))
            try:
                answer = self._send(request)
            except httpx.InvalidURL as error:
                raise BadAddress(f"{self.address.url} cannot be asked: {error}") from None
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

    def _send(self, request: Request) -> Answer:
        address = self.address
        headers = {"Authorization": address.credentials.header} if address.credentials else {}
        if request.accept:
            headers["Accept"] = request.accept
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
        if tls.certificate:
            named = tls.certificate
            context.load_cert_chain(tls.certificate, tls.key or None)
    except OSError as error:
        raise BadAddress(f"{named} cannot be used for TLS: {error.strerror or error}") from None
    return context


def _may_repeat(request: Request, error: httpx.TransportError) -> bool:
    """Return true unless the request may have been done, and doing it again would answer something else."""
    return request.method != "DELETE" or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)


def _pause_s(answer: Answer | None) -> float:
    given = "" if answer is None else answer.headers.get("retry-after", "")
    return min(_PAUSE_S, float(given)) if given.isdigit() else _PAUSE_S / 5


def _word(value: object) -> str:
    return "true" if value is True else str(value)
