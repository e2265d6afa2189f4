"""Requests to a registry, over any of its addresses, by the standard library alone: workers need no more.

A request goes to the address that answered last and moves on if that is unreachable or answers with a 5xx or
429. No redirect is followed, because it would take the credentials along.
"""

from __future__ import annotations

import json
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Final, cast
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

# A schema has at most some MiB; the list of a registry's subjects may have more.
_BYTES_MAX: Final = 64 << 20
_CHUNK: Final = 1 << 16
# Each address is tried so often before a request fails.
_ROUNDS: Final = 3
_PAUSE_S: Final = 0.2
_MEDIA: Final = "application/vnd.schemaregistry.v1+json"
_MESSAGE_MAX: Final = 500

# Header lines, or a function that returns them, for tokens that expire. Workers call it too.
HttpHeaders = Mapping[str, str] | Callable[[], Mapping[str, str]]


class RegistryError(Exception):
    """Raised if no address of the registry gave the answer; the text has no credentials."""


class Refused(RegistryError):
    """Raised for an answer that the other addresses would give too (4xx)."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(f"the registry answered {code or status}: {message[:_MESSAGE_MAX]}")
        # The status, Confluent's code (0: none), and the registry's own words.
        self.status, self.code, self.message = status, code, message

    def __reduce__(self) -> tuple[type[Refused], tuple[int, int, str]]:
        """Spark passes errors of workers on as pickles."""
        return Refused, (self.status, self.code, self.message)


class Registry:
    """A registry: its addresses and how to log in.

    ``urls``: one text with commas, or several; each may hold ``USER:PASSWORD@``. ``ca``, ``certificate`` and
    ``key``: PEM files, which workers need at the same path. ``timeout_s``: of one request, retries included.
    """

    def __init__(
        self, urls: str | Sequence[str], *, http_headers: HttpHeaders | None = None, ca: str = "",
        certificate: str = "", key: str = "", timeout_s: float = 30.0,
    ) -> None:  # fmt: skip
        """Raise :class:`ValueError` for addresses that are none."""
        listed = urls.split(",") if isinstance(urls, str) else [*urls]
        self._addresses = [_address(url.strip()) for url in listed if url.strip()]
        if not self._addresses:
            raise ValueError("name at least one address of the registry, such as http://127.0.0.1:8081")
        self._http_headers, self._timeout_s = http_headers, timeout_s
        self._tls = (ca, certificate, key)
        self._next = 0

    def __repr__(self) -> str:
        return f"Registry({','.join(url for url, _ in self._addresses)!r})"

    def identity(self) -> bytes:
        """Return a digest of the addresses and the login as it is now: who has the same may read the same."""
        given = [sorted(self._lines(login).items()) for _, login in self._addresses]
        return sha256(repr((repr(self), given, self._tls)).encode()).digest()

    def get(self, *path: str | int, **params: str | int | bool) -> Any:
        """Return the JSON at a path of segments. Raises :class:`RegistryError`."""
        return self._ask("GET", path, params, None)

    def post(self, *path: str | int, body: Mapping[str, Any], **params: str | int | bool) -> Any:
        """Send a JSON body and return the answer. Raises :class:`RegistryError`."""
        return self._ask("POST", path, params, json.dumps(body).encode())

    def _ask(
        self, method: str, path: Sequence[str | int], params: Mapping[str, Any], body: bytes | None
    ) -> Any:
        target = _target(path, params)
        deadline = time.monotonic() + self._timeout_s
        failures: dict[str, str] = {}
        for attempt in range(_ROUNDS * len(self._addresses)):
            url, login = self._addresses[self._next % len(self._addresses)]
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            try:
                request = Request(url + target, body, self._lines(login), method=method)  # noqa: S310 (checked)
                return self._try(request, left_s)
            except (OSError, HTTPException, ValueError) as error:
                failures[url] = str(error) or type(error).__name__
                self._next += 1
            if (attempt + 1) % len(self._addresses) == 0:
                time.sleep(min(_PAUSE_S, max(0.0, deadline - time.monotonic())))
        reasons = "; ".join(f"{url}: {reason}" for url, reason in failures.items())
        raise RegistryError(f"no answer to {method} {target} within {self._timeout_s:g} s: {reasons}")

    def _lines(self, login: str) -> dict[str, str]:
        given = self._http_headers() if callable(self._http_headers) else self._http_headers or {}
        lines = {"Accept": f"{_MEDIA}, application/json", "Content-Type": _MEDIA}
        return lines | ({"Authorization": login} if login else {}) | dict(given)

    def _try(self, request: Request, left_s: float) -> Any:
        """Return the answer of one address; raise :class:`Refused`, or what lets another one be asked."""
        deadline = time.monotonic() + left_s
        try:
            # An address that hangs must leave time for the others.
            with self._opener().open(request, timeout=max(0.1, left_s / len(self._addresses))) as answer:
                return json.loads(_read(answer, deadline))
        except HTTPError as error:
            with error:
                text = _read(error, deadline)
            code, message = _reason(text)
            if error.code >= 500 or error.code == 429:
                raise OSError(f"HTTP {error.code} {message[:_MESSAGE_MAX]}") from None
            raise Refused(error.code, code, message or error.reason) from None

    def _opener(self) -> OpenerDirector:
        ca, certificate, key = self._tls
        if not any(url.startswith("https:") for url, _ in self._addresses):
            return build_opener(_NoRedirect)
        context = ssl.create_default_context(cafile=ca or None)
        if certificate:
            context.load_cert_chain(certificate, key or None)
        return build_opener(_NoRedirect, HTTPSHandler(context=context))


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Return no request, so that the redirect is an error."""


def registry_at(urls: str | Sequence[str] | Registry) -> Registry:
    """Return the registry at these addresses."""
    return urls if isinstance(urls, Registry) else Registry(urls)


def _address(url: str) -> tuple[str, str]:
    """Return an address without credentials, and the value of ``Authorization`` for those that it held."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("an address of a registry begins with http:// or https:// and names a host")
    login = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = f"Basic {b64encode(pair.encode()).decode()}"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")), login


def _target(path: Sequence[str | int], params: Mapping[str, Any]) -> str:
    texts = {name: str(each).lower() if isinstance(each, bool) else each for name, each in params.items()}
    query = "&".join(f"{name}={quote(str(each), safe='')}" for name, each in texts.items())
    return "/".join(["", *(quote(str(segment), safe="") for segment in path)]) + (query and f"?{query}")


def _read(answer: IO[bytes], deadline: float) -> bytes:
    parts, size = [], 0
    while part := answer.read(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > _BYTES_MAX:
            raise OSError(f"the answer has more than {_BYTES_MAX >> 20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError("the answer took too long")
    return b"".join(parts)


def _reason(text: bytes) -> tuple[int, str]:
    """Return Confluent's code and message; 0 and the text if it is no such body."""
    try:
        body = cast("dict[str, Any]", json.loads(text))
        return int(body["error_code"]), str(body["message"])
    except (ValueError, TypeError, KeyError):
        return 0, text.decode(errors="replace")
