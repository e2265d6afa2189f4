"""Requests whose headers the client has sent before, byte for byte: only their first line is read.

Clients say the same with every request of a connection, so that parsing it again is most of what reading a
small request costs. What is remembered was read by the parser, and means the same again.
"""

from __future__ import annotations

import string
from typing import NamedTuple

from .request import Header, Request

_BLOCK_BYTES_MAX = 1024
"""Of what is remembered of one request."""
_BLOCKS_MAX = 4
"""Per connection: a client's bodies differ in length, and with them its headers."""
_TARGET_BYTES_MAX = 2048
"""A longer one is measured against the limit of all headers."""
_PLAIN = b"-._~/?&=%:,+!*'();@$" + (string.ascii_letters + string.digits).encode()
"""All of a target that is surely one."""
_MORE = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
"""A request with these may be more than its head and a body of known length."""
_GET, _POST, _END = b"GET /", b"POST /", b" HTTP/1.1\r\n"
_HEAD_END = b"\r\n\r\n"


class _Known(NamedTuple):
    """What headers said that the parser has read."""

    headers: list[Header]
    length: int
    """Of the body."""


class Repeated:
    """What one connection's last plain requests had between their first line and their body."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, _Known] = {}

    def read(self, data: bytes) -> Request | None:
        """The request that ``data`` is, if it is one with known headers."""
        if not self._known:
            return None
        line_end = data.find(_END)
        head_end = data.find(_HEAD_END, line_end + len(_END) - 2) + len(_HEAD_END)
        known = self._known.get(data[line_end + len(_END) : head_end])
        if known is None or line_end < 0 or len(data) != head_end + known.length:
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
        """``request`` was read from ``data``, which has nothing else; keep its headers if they are plain."""
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
        if _MORE.isdisjoint([name for name, _ in headers]):
            if len(self._known) >= _BLOCKS_MAX:
                del self._known[next(iter(self._known))]
            self._known[block] = _Known(headers, len(body))
