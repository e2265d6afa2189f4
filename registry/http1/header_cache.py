"""Cache of parsed header blocks: when a client repeats its headers, only the first line is parsed.

Most clients send the same headers with every request of a connection, and parsing them is most of the cost of
reading a small request. Only blocks that the parser has accepted are cached.
"""

from __future__ import annotations

import string
from typing import NamedTuple

from .request import Header, Request

_BLOCK_BYTES_MAX = 1024
_BLOCKS_MAX = 4  # per connection: a client's headers differ by the length of its bodies
_TARGET_BYTES_MAX = 2048  # longer ones are left to the parser, which checks the limit of all headers
# Characters that need no validation in a target.
_PLAIN = b"-._~/?&=%:,+!*'();@$" + (string.ascii_letters + string.digits).encode()
# A request with one of these may be more than its head and a body of known length.
_UNCACHEABLE = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
_GET, _POST, _END = b"GET /", b"POST /", b" HTTP/1.1\r\n"
_HEAD_END = b"\r\n\r\n"


class _Block(NamedTuple):
    """A parsed header block."""

    headers: list[Header]
    body_length: int


class HeaderCache:
    """The header blocks of one connection's last plain requests."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, _Block] = {}

    def read(self, data: bytes) -> Request | None:
        """Return the request in ``data`` if it is exactly one, with a known header block."""
        if not self._known:
            return None
        line_end = data.find(_END)
        head_end = data.find(_HEAD_END, line_end + len(_END) - 2) + len(_HEAD_END)
        known = self._known.get(data[line_end + len(_END) : head_end])
        if known is None or line_end < 0 or len(data) != head_end + known.body_length:
            return None
        if data.startswith(_GET):
            method, target = b"GET", data[len(_GET) - 1 : line_end]
        elif data.startswith(_POST):
            method, target = b"POST", data[len(_POST) - 1 : line_end]
        else:
            return None
        if len(target) > _TARGET_BYTES_MAX or target.translate(None, _PLAIN):
            return None
        return Request(method, target, known.headers, data[head_end:], "1.1", True)

    def remember(self, data: bytes, request: Request) -> None:
        """Cache the headers of ``request``, which the parser read from all of ``data``, if they are plain."""
        method, target, headers, body, version, keep_alive = request
        line = b"%b %b%b" % (method, target, _END)
        block = data[len(line) : len(data) - len(body)]
        if method not in (b"GET", b"POST") or version != "1.1" or not keep_alive:
            return
        if len(block) > _BLOCK_BYTES_MAX or not data.startswith(line):
            return
        if block.find(_HEAD_END) != len(block) - len(_HEAD_END) or not data.endswith(body):
            return
        lengths = [value for name, value in headers if name == b"content-length"]
        if lengths not in ([], [b"%d" % len(body)]) or not (lengths or not body):
            return
        if _UNCACHEABLE.isdisjoint([name for name, _ in headers]):
            if len(self._known) >= _BLOCKS_MAX:
                del self._known[next(iter(self._known))]
            self._known[block] = _Block(headers, len(body))
