"""Responses as bytes: status line, headers and errors."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

from registry.base.observe.metrics import Served
from registry.domain.errors import RegistryError

from .request import Header, Request

_LINES = {
    int(status): b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode("ascii", "replace"))
    for status in HTTPStatus
}
_ERROR_TYPE = b"content-type: application/vnd.schemaregistry.v1+json\r\n"
_new = tuple.__new__
_RETRY = b"retry-after: 1\r\n"


# Larger answers are written in slices of this size, since copying one into the kernel blocks the event loop.
LARGE_ANSWER_BYTES = 64 * 1024
# Number and length of the request targets remembered for large answers.
_TARGETS_MAX, _TARGET_BYTES_MAX = 2048, 512


class Answer(NamedTuple):
    """A complete answer; ``headers`` are encoded lines without length, date and connection."""

    status: int
    headers: bytes
    body: bytes
    # For metrics and the access log.
    route: str = ""
    request_id: bytes = b""
    principal: str = ""


def served(request: Request | None, client: str, answer: Answer, seconds: float) -> Served:
    """Return what is observed of an answer that did not come from the application."""
    status, _, body, route, request_id, principal = answer
    return _new(Served, (request, client, status, seconds, len(body), route, request_id, principal))


class LargeAnswers:
    """Remembers which requests had large answers recently, because they will probably have them again."""

    def __init__(self) -> None:
        self._sizes: dict[bytes, int] = {}
        # Maps a target to the size of its last answer if that was large.
        self.size = self._sizes.get

    def note(self, target: bytes, size: int) -> None:
        """Remember the size of an answer to a request for ``target``."""
        self._sizes.pop(target, None)
        if size > LARGE_ANSWER_BYTES and len(target) <= _TARGET_BYTES_MAX:
            if len(self._sizes) >= _TARGETS_MAX:
                del self._sizes[next(iter(self._sizes))]
            self._sizes[target] = size


# An answer that the application finds: a coroutine, to be run in a task.
Running = Coroutine[Any, Any, Answer]
Answered = Callable[[Answer | Running | None], None]
# A deferred answer: calls its argument once, with the answer; ``None`` leaves it to the application.
Later = Callable[[Answered], None]
# A request's answer, ``None`` to leave it to the application.
Found = Answer | Later | Running | None


def status_line(status: int) -> bytes:
    """Return the first line of an answer."""
    return _LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def lines(headers: Iterable[Header]) -> bytes:
    """Encode headers; line breaks in values are replaced by spaces."""
    return b"".join(
        b"%s: %s\r\n" % (name, value.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in value else value)
        for name, value in headers
    )


def refusal(error: RegistryError, common_headers: Iterable[Header] = ()) -> Answer:
    """Return ``error`` as an answer in the documented format, with the headers that every answer has."""
    body = orjson.dumps({"error_code": error.code, "message": error.message})
    retry = _RETRY if error.status == 503 else b""
    return Answer(error.status, _ERROR_TYPE + retry + lines(common_headers), body)


def printed_head(answer: Answer, *more: bytes) -> bytes:
    """Encode status line and headers; ``more``: further encoded headers."""
    return b"%s%s%scontent-length: %d\r\n\r\n" % (
        status_line(answer.status), answer.headers, b"".join(more), len(answer.body),
    )  # fmt: skip


def printed(answer: Answer, date: bytes, persistent: bytes = b"") -> bytes:
    """Encode a whole answer; ``date``, ``persistent``: further encoded headers."""
    status, headers, body, *_ = answer
    return b"%s%s%s%scontent-length: %d\r\n\r\n%s" % (
        _LINES.get(status) or status_line(status), headers, date, persistent, len(body), body,
    )  # fmt: skip


def persistence(request: Request, last: bool) -> bytes:
    """Return the ``Connection`` header if one is needed; ``last``: the connection closes."""
    if last:
        return b"connection: close\r\n"
    return b"connection: keep-alive\r\n" if request.version == "1.0" else b""


def date_line() -> bytes:
    """Return the ``Date`` header for the current second."""
    return b"date: %s\r\n" % formatdate(usegmt=True).encode()
