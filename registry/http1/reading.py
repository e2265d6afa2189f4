"""The receiving half of a connection: splits the input into requests.

Most clients send the same headers with every request of a connection, and parsing them is most of the cost of
reading a small request. Therefore the header blocks that the parser accepted last are cached.
"""

from __future__ import annotations

import string
from collections import deque
from typing import Any, NamedTuple

from registry.base.observe.metrics import Headers
from registry.domain.errors import RegistryError

from .messages import SHARED_TARGET_BYTES_MAX, Limits, Request
from .parsing import RequestParser, Stage

_BLOCKS_BYTES_MAX = 4096  # Of all blocks of a connection; one with a bearer token may take most of it.
_BLOCKS_MAX = 4  # Per connection: a client's headers differ by the length of its bodies.
# Characters that need no validation in a target. Translated, only a target of nothing else is of digits.
_PLAIN = b"-._~/?&=%:,+!*'();@$" + (string.ascii_letters + string.digits).encode()
_PLAIN_AS_DIGITS = bytes(ord("1") if each in _PLAIN else 0 for each in range(256))
# A request with one of these may be more than its head and a body of known length.
_UNCACHEABLE = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
_GET, _POST, _END = b"GET /", b"POST /", b" HTTP/1.1\r\n"
_HEAD_END = b"\r\n\r\n"
_IDLE = Stage.IDLE  # Read with every request, and looking up a member of an enumeration takes longer.
_new = tuple.__new__
# Parsed at once: about a hundred of the smallest requests. Also the part of a body received before admission.
_SLICE_BYTES = 8 * 1024
# Of pipelined data only the next request is needed; a few hundred clients may pipeline at the same time.
_AHEAD_BYTES = 1024


class _Block(NamedTuple):
    """A parsed header block."""

    text: bytes  # from the end of the target to the body
    size: int  # with the body
    headers: Headers
    body_length: int


class HeaderCache:
    """The header blocks of one connection's last plain requests."""

    __slots__ = ("_bytes", "_known")

    def __init__(self) -> None:
        self._known: list[_Block] = []  # the newest first
        self._bytes = 0

    def read(self, data: bytes) -> Request | None:
        """Return the request in ``data`` if it is exactly one, with a known header block."""
        for text, size, headers, body_length in self._known:
            end = len(data) - size  # Where the target ends, if this is the block.
            # Compared where it has to be: hashing a block with a token takes four times as long.
            if end <= 0 or not data.startswith(text, end):
                continue
            if data.startswith(_GET):
                method, target = b"GET", data[len(_GET) - 1 : end]
            elif data.startswith(_POST):
                method, target = b"POST", data[len(_POST) - 1 : end]
            else:
                return None
            if len(target) > SHARED_TARGET_BYTES_MAX or not target.translate(_PLAIN_AS_DIGITS).isdigit():
                return None
            body = data[-body_length:] if body_length else b""
            # The named tuple's own constructor takes three times as long.
            return _new(Request, (method, target, headers, body, "1.1", True))
        return None

    def remember(self, data: bytes, request: Request) -> None:
        """Cache the headers of ``request``, which the parser read from all of ``data``, if they are plain."""
        method, target, headers, body, version, keep_alive = request
        line = b"%b %b" % (method, target)
        text = data[len(line) : len(data) - len(body)]
        if method not in (b"GET", b"POST") or version != "1.1" or not keep_alive:
            return
        if len(text) > _BLOCKS_BYTES_MAX or not (data.startswith(line) and text.startswith(_END)):
            return
        if text.find(_HEAD_END) != len(text) - len(_HEAD_END) or not data.endswith(body):
            return
        lengths = [value for name, value in headers if name == b"content-length"]
        if lengths not in ([], [b"%d" % len(body)]) or not (lengths or not body):
            return
        if _UNCACHEABLE.isdisjoint([name for name, _ in headers]):
            self._add(_Block(text, len(text) + len(body), headers, len(body)))

    def _add(self, block: _Block) -> None:
        known = self._known
        if any(each.text == block.text for each in known):
            return
        while len(known) >= _BLOCKS_MAX or self._bytes + len(block.text) > _BLOCKS_BYTES_MAX:
            self._bytes -= len(known.pop().text)
        known.insert(0, block)
        self._bytes += len(block.text)


class RequestReader:
    """Parses input in slices, and no further than the next complete request.

    ``requests`` are complete and wait to be served. A malformed request is queued as the error that refuses
    it, and nothing follows it. A body is received only if it is small or ``admitted``.
    """

    def __init__(self, limits: Limits) -> None:
        self.requests: deque[Request | RegistryError] = deque()
        self.parser = RequestParser(limits, self.requests)
        self.closed = False  # Nothing more is parsed: error, end of input, or last answer sent.
        self.admitted = False
        self._header_cache: Any = HeaderCache()
        self._rest: memoryview | None = None

    @property
    def ahead_bytes(self) -> int:
        """Number of bytes that the client has sent ahead and that are not parsed yet."""
        return 0 if self._rest is None else len(self._rest)

    @property
    def body_waits(self) -> bool:
        """True if the rest of a body has to be admitted before it is received."""
        parser = self.parser
        return parser.stage is Stage.BODY and parser.body_bytes >= _SLICE_BYTES and not self.admitted

    @property
    def idle(self) -> bool:
        """True if all that was received has been taken from ``requests``."""
        return not self.requests and self._rest is None and self.parser.stage is Stage.IDLE

    def read_whole(self, data: bytes) -> Request | None:
        """Return the request in received data if it is exactly one, with known headers, and none waits."""
        if self.closed or self.requests or self._rest is not None or self.parser.stage is not _IDLE:
            return None
        return self._header_cache.read(data)  # type: ignore[no-any-return]

    def take(self, data: bytes) -> None:
        """Parse received data that :meth:`read_whole` does not take."""
        if self.closed:
            return
        whole = self.idle
        if len(data) <= _SLICE_BYTES and self._rest is None and not self.body_waits:
            self._parse(data)
            if whole and self.requests and isinstance(self.requests[0], Request):
                self._header_cache.remember(data, self.requests[0])
        else:
            rest = data if self._rest is None else b"".join((self._rest, data))
            self._parse_slices(memoryview(rest))

    def go_on(self) -> None:
        """Parse data that was sent ahead, unless a request or a body waits."""
        if self._rest is not None:
            self._parse_slices(self._rest)

    def refuse(self, error: RegistryError) -> None:
        """End the input with an error, queued behind the requests that came before."""
        self.end()
        self.requests.append(error)

    def end(self) -> None:
        """Stop parsing."""
        self.closed = True
        self.admitted = False
        self._rest = None
        self.parser.end()

    def close(self) -> None:
        """Free everything; the connection is gone."""
        self.end()
        self.requests.clear()
        self.parser.close()
        self._header_cache = None

    def _parse_slices(self, data: memoryview) -> None:
        self._rest = None
        start = 0
        while start < len(data) and not self.closed:
            if self.requests or self.body_waits:
                self._rest = data[start:]
                return
            end = start + (_SLICE_BYTES if self.parser.stage is Stage.BODY else _AHEAD_BYTES)
            self._parse(data[start:end])
            start = end

    def _parse(self, piece: bytes | memoryview) -> None:
        fault = self.parser.feed(piece)
        if fault is not None:
            self.refuse(fault)
        if self.requests:
            self.admitted = False
        if self.parser.ended:
            self.closed = True
