"""Requests whose headers the client has sent before, byte for byte: only their first line is read.

Clients say the same with every request of a connection, so that parsing it again is most of what reading a
small request costs. What is remembered was read by the parser, and means the same again.
"""

from __future__ import annotations

import string

from .request import Header, Request

_BLOCK_BYTES_MAX = 1024
"""Of what a connection remembers."""
_PLAIN = b"-._~/?&=%:,+!*'();@$" + (string.ascii_letters + string.digits).encode()
"""All of a target that is surely one."""
_MORE = frozenset({b"content-length", b"transfer-encoding", b"expect", b"upgrade"})
"""A request with these may be more than its head."""
_START, _END = b"GET /", b" HTTP/1.1"


class Repeated:
    """What one connection's last plain request had behind its first line."""

    __slots__ = ("_block", "_headers")

    def __init__(self) -> None:
        self._block = b""
        self._headers: list[Header] = []

    def read(self, data: bytes) -> Request | None:
        """The request that ``data`` is, if it is one with the headers of the last."""
        block = self._block
        if not block or not data.endswith(block):
            return None
        line = data[: -len(block)]
        target = line[4:-9]
        if not line.startswith(_START) or not line.endswith(_END) or target.translate(None, _PLAIN):
            return None
        return Request(b"GET", target, self._headers, b"", "1.1", True)

    def remember(self, data: bytes, request: Request) -> None:
        """``request`` was read from ``data``, which has nothing else; keep its headers if they are plain."""
        method, target, headers, _, version, keep_alive = request
        line = b"%b %b HTTP/1.1" % (method, target)
        size = len(data) - len(line)
        if method != b"GET" or version != "1.1" or not keep_alive or size > _BLOCK_BYTES_MAX:
            return
        if not data.startswith(line) or data.find(b"\r\n\r\n") != len(data) - 4:
            return
        if _MORE.isdisjoint([name for name, _ in headers]):
            self._block, self._headers = data[len(line) :], headers
