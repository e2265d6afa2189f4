"""The bytes of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple

import orjson

from registry.domain.errors import RegistryError

from .request import Header, Request

_LINES = {
    int(status): b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode("ascii", "replace"))
    for status in HTTPStatus
}
_ERROR_TYPE = b"content-type: application/vnd.schemaregistry.v1+json\r\n"
_RETRY = b"retry-after: 1\r\n"


# Larger answers are written in slices of this size. Each slice is copied into the kernel while others wait.
LARGE_ANSWER_BYTES = 64 * 1024
# Of what is remembered of large answers: the requests, and the length of each.
_TARGETS_MAX, _TARGET_BYTES_MAX = 2048, 512


class Answer(NamedTuple):
    """A whole answer, ready to be sent; ``headers`` are printed lines without length, date and connection."""

    status: int
    headers: bytes
    body: bytes
    route: str = ""
    """The template of the path that served it, for metrics."""


class LargeAnswers:
    """Remembers which requests had large answers lately, because they will have such again."""

    def __init__(self) -> None:
        self._sizes: dict[bytes, int] = {}

    def size(self, target: bytes) -> int | None:
        """Return how large the answer was, if it was large."""
        return self._sizes.get(target)

    def note(self, target: bytes, size: int) -> None:
        """Remember the size of an answer to a request for ``target``."""
        self._sizes.pop(target, None)
        if size > LARGE_ANSWER_BYTES and len(target) <= _TARGET_BYTES_MAX:
            if len(self._sizes) >= _TARGETS_MAX:
                del self._sizes[next(iter(self._sizes))]
            self._sizes[target] = size


Answered = Callable[[Answer | None], None]
Later = Callable[[Answered], None]
"""An answer that has to be waited for: calls what it is given, once, with it or with ``None``."""


def status_line(status: int) -> bytes:
    """The first line of an answer."""
    return _LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def lines(headers: Iterable[Header]) -> bytes:
    """Headers as they stand on the wire. Line breaks inside them cannot pass."""
    return b"".join(
        b"%s: %s\r\n" % (name, value.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in value else value)
        for name, value in headers
    )


def refusal(error: RegistryError, standing: Iterable[Header] = ()) -> Answer:
    """``error`` in the documented shape; ``standing``: the headers that every answer has."""
    body = orjson.dumps({"error_code": error.code, "message": error.message})
    retry = _RETRY if error.status == 503 else b""
    return Answer(error.status, _ERROR_TYPE + retry + lines(standing), body)


def printed_head(answer: Answer, *more: bytes) -> bytes:
    """Return what goes over the wire ahead of the body; ``more``: printed headers."""
    return b"%s%s%scontent-length: %d\r\n\r\n" % (
        status_line(answer.status), answer.headers, b"".join(more), len(answer.body),
    )  # fmt: skip


def persistence(request: Request, last: bool) -> bytes:
    """Return the ``Connection`` header where it has to be said; ``last``: the connection ends."""
    if last:
        return b"connection: close\r\n"
    return b"connection: keep-alive\r\n" if request.version == "1.0" else b""


def date_line() -> bytes:
    """The ``Date`` header of this second."""
    return b"date: %s\r\n" % formatdate(usegmt=True).encode()
