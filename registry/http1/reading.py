"""The receiving half of a connection: splits the input into requests."""

from __future__ import annotations

from collections import deque
from typing import Any

from registry.domain.errors import RegistryError

from .header_cache import HeaderCache
from .limits import Limits
from .parsing import RequestParser, Stage
from .request import Request

# Parsed at once: about a hundred of the smallest requests. Also the part of a body received before admission.
_SLICE_BYTES = 8 * 1024
# Of pipelined data only the next request is needed; a few hundred clients may pipeline at the same time.
_AHEAD_BYTES = 1024


class RequestReader:
    """Parses input in slices, and no further than the next complete request.

    ``requests`` are complete and wait to be served. A malformed request is queued as the error that refuses
    it, and nothing follows it. A body is received only if it is small or ``admitted``.
    """

    def __init__(self, limits: Limits) -> None:
        self.requests: deque[Request | RegistryError] = deque()
        self.parser = RequestParser(limits, self.requests)
        self.closed = False  # parse no more: error, end of input, or last answer sent
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

    def take(self, data: bytes) -> None:
        """Parse received data."""
        if self.closed:
            return
        whole = self.idle
        request = self._header_cache.read(data) if whole else None
        if request is not None:
            self.requests.append(request)
        elif len(data) <= _SLICE_BYTES and self._rest is None and not self.body_waits:
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
