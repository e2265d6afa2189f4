"""Incremental parsing of requests, with the checks that need no complete request."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import Any, NoReturn

import httptools

from registry.base.observe.metrics import Headers
from registry.domain.errors import (
    BAD_REQUEST,
    BODY_TOO_LARGE,
    METHOD_NOT_ALLOWED,
    ErrorKind,
    RegistryError,
)

from .messages import Limits, Request, lines, relative

BROKEN = "HTTP 400 Bad Request: the request is not valid HTTP"
CODING_UNKNOWN = ErrorKind(501, "HTTP 501 Not Implemented: the only transfer coding served is chunked")
HEADERS_TOO_LARGE = ErrorKind(431, "The request's headers are larger than the limit of %d bytes")
FRAMING_TOO_LARGE = ErrorKind(413, "The request's chunk sizes and trailers take more than its body allows")
NO_UPGRADE = "HTTP 400 Bad Request: upgrades are not supported"
_OFFER = frozenset({b"upgrade", b"connection", b"http2-settings"})
_VERSIONS = frozenset({"1.0", "1.1"})


class Stage(Enum):
    """The part of a request that is currently received."""

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"


class _Stop(Exception):
    """Raised in the parser's callbacks to stop parsing."""


class RequestParser:
    """Parses the input of one connection slice by slice; appends complete requests to ``requests``."""

    def __init__(self, limits: Limits, requests: deque[Request | RegistryError]) -> None:
        self._limits = limits
        self._requests = requests
        self._parser: Any = httptools.HttpRequestParser(self)
        self._target = b""
        self._head_bytes = 0
        self._head_began = False
        self._declined = b""
        self._body: bytes | bytearray = b""
        self._framing_bytes = 0
        self._fault: RegistryError | None = None
        self.stage = Stage.IDLE
        # About the request that is being received, or the last one.
        self.headers = Headers()
        self.body_bytes = 0
        self.body_bytes_max = 0  # the announced length, or the limit without one
        self.continue_wanted = False  # the client waits for "100 Continue"
        self.ended = False  # the connection closes after the last request

    def feed(self, piece: bytes | memoryview) -> RegistryError | None:
        """Parse one slice; return why no more can be parsed, or ``None``."""
        limits, stage, body_bytes = self._limits, self.stage, self.body_bytes
        self._head_began = False
        self._parse(piece)
        if self._fault is not None:
            return self._fault
        if self.stage is Stage.HEAD:
            # Count only heads that span slices, because the parser buffers an unfinished line. A slice in
            # which the head began may hold other requests before it.
            if stage is Stage.HEAD and not self._head_began:
                self._head_bytes += len(piece)
            if self._head_bytes > limits.header_bytes_max:
                return HEADERS_TOO_LARGE(limits.header_bytes_max)
        elif stage is Stage.BODY and self.stage is Stage.BODY and not self._head_began:
            self._framing_bytes += len(piece) - (self.body_bytes - body_bytes)
            if self._framing_bytes > limits.header_bytes_max + self.body_bytes // 4:
                return FRAMING_TOO_LARGE()
        return None

    def end(self) -> None:
        """Drop the incomplete request but keep its headers, which the refusal needs."""
        self.stage = Stage.IDLE
        self.continue_wanted = False
        self._drop_body()

    def close(self) -> None:
        """Free everything, since httptools refers to this object and keeps pieces of headers."""
        self.end()
        self._parser = None
        self.headers, self._target, self._declined = Headers(), b"", b""

    def _parse(self, data: bytes | memoryview) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # An h2c upgrade is only an offer, and may be ignored (RFC 9110, 7.8). The parser would treat the
            # body as the other protocol, so it gets the request again without the offer.
            self._parser = httptools.HttpRequestParser(self)
            if self._fault is None:
                head, self._declined = self._declined, b""
                self._parse(b"".join((head, data[upgrade.args[0] :])))
        except httptools.HttpParserError:
            self._fault = self._fault or BAD_REQUEST(BROKEN)

    def _stop(self, fault: RegistryError) -> NoReturn:
        self._fault = fault
        raise _Stop

    # --- called by httptools

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._target = b""
        self.headers = Headers()
        self._head_bytes = 0
        self._head_began = True
        self.stage = Stage.HEAD

    def on_url(self, url: bytes) -> None:
        """Add a piece of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; trailers are dropped."""
        if self.stage is not Stage.BODY:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Make the checks that do not need the body."""
        self.stage = Stage.IDLE
        limits, size = self._limits, len(self._target)
        length = expected = upgrade = None
        codings: list[bytes] = []
        hosts = 0
        for name, value in self.headers:
            size += len(name) + len(value) + 4
            if name == b"content-length":
                length = value
            elif name == b"transfer-encoding":
                codings.append(value)
            elif name == b"host":
                hosts += 1
            elif name == b"expect":
                expected = value.lower()
            elif name == b"upgrade":
                upgrade = value.strip().lower()
        if size > limits.header_bytes_max:
            self._stop(HEADERS_TOO_LARGE(limits.header_bytes_max))
        version = self._parser.get_http_version()
        if version not in _VERSIONS:
            self._stop(BAD_REQUEST(BROKEN))
        if hosts != 1 and (hosts or version == "1.1"):
            self._stop(BAD_REQUEST("HTTP 400 Bad Request: exactly one Host header is required"))
        if self._parser.should_upgrade() and upgrade != b"h2c":
            connect = self._parser.get_method() == b"CONNECT"
            self._stop(METHOD_NOT_ALLOWED() if connect else BAD_REQUEST(NO_UPGRADE))
        if self._parser.should_upgrade():
            self._declined = self._without_offer()
            return
        if codings:
            fault = _coding_fault(codings, version)
            if fault is not None:
                self._stop(fault)
            length = b""
        if length is not None:
            self._expect_body(length)
            self.continue_wanted = expected == b"100-continue"

    def _without_offer(self) -> bytes:
        kept = [each for each in self.headers if each[0] not in _OFFER]
        line = b"%s %s HTTP/1.1\r\n" % (self._parser.get_method(), self._target)
        return b"%s%s\r\n" % (line, lines(kept))

    def _expect_body(self, length: bytes) -> None:
        most = self._limits.body_bytes_max
        announced = int(length) if length.isdigit() else most
        if announced > most:
            self._stop(BODY_TOO_LARGE(announced, most))
        self.body_bytes_max = announced
        self.stage = Stage.BODY
        self._framing_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Add a piece of the body."""
        if not self._body:
            self._body = body
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body
        self.body_bytes += len(body)
        if self.body_bytes > self._limits.body_bytes_max:
            self._stop(BODY_TOO_LARGE(self.body_bytes, self._limits.body_bytes_max))

    def on_message_complete(self) -> None:
        """Append the complete request."""
        if self._declined:
            return
        self.stage = Stage.IDLE
        self.continue_wanted = False
        parser, target = self._parser, self._target
        if not target.startswith(b"/"):
            target = relative(target)
        request = Request(
            parser.get_method(), target, self.headers, bytes(self._body),
            parser.get_http_version(), parser.should_keep_alive(),
        )  # fmt: skip
        if self._body:
            self._drop_body()
        self._requests.append(request)
        self.ended = not request.keep_alive

    def _drop_body(self) -> None:
        self._body, self.body_bytes = b"", 0


def _coding_fault(codings: Iterable[bytes], version: str) -> RegistryError | None:
    """Return why a body with these ``Transfer-Encoding`` headers is refused, or ``None``.

    See RFC 9112, section 6. The parser (llhttp) refuses the rest: two lengths, a length together with a
    coding, codings that do not end with ``chunked``, and unusual spellings of either.
    """
    names = [each.strip().lower() for each in b",".join(codings).split(b",")]
    names = [each for each in names if each]
    if version != "1.1" or names[-1:] != [b"chunked"] or names.count(b"chunked") > 1:
        return BAD_REQUEST(BROKEN)
    return CODING_UNKNOWN() if len(names) > 1 else None
