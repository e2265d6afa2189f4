"""A client that sends exactly the bytes it is given, and reads the answers."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self


class Reply(NamedTuple):
    """One answer."""

    status: int
    headers: dict[str, str]
    body: bytes


class RawClient:
    """One connection."""

    def __init__(self, port: int, timeout_s: float = 10.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self.socket.close()

    def send(self, data: bytes) -> Self:
        self.socket.sendall(data)
        return self

    def close_sending(self) -> Self:
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def reply(self, *, bodiless: bool = False) -> Reply:
        """Return the next answer, which must have a length or be chunked."""
        line = self._file.readline()
        assert line, "the connection was closed without an answer"
        status = int(line.split()[1])
        headers: dict[str, str] = {}
        while (header := self._file.readline().strip()) != b"":
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        if bodiless or status < 200:
            return Reply(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Reply(status, headers, b"".join(self._chunks()))
        return Reply(status, headers, self._file.read(int(headers["content-length"])))

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._file.readline(), 16):
            yield self._file.read(size)
            self._file.readline()
        self._file.readline()

    def rest(self) -> bytes:
        """Return everything until the server closes."""
        return self._file.read()

    def seconds_until_closed(self) -> float:
        began = time.monotonic()
        self.rest()
        return time.monotonic() - began


def get(target: str, *headers: str) -> bytes:
    """Return a GET request."""
    return "\r\n".join((f"GET {target} HTTP/1.1", "Host: localhost", *headers, "", "")).encode()


def post(target: str, body: bytes, *headers: str) -> bytes:
    """Return a POST request with its length."""
    lines = (f"POST {target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body
