"""HTTP requests and their clients, the limits on them, and responses as bytes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

from registry.base.observe.metrics import Headers, Served
from registry.domain.errors import RegistryError

Header = tuple[bytes, bytes]
# Length of the targets of requests that share their headers: longer ones are left to the parser, which checks
# the limit of all headers.
SHARED_TARGET_BYTES_MAX = 512


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for one server; a client that exceeds one gets the status named here, or is disconnected."""

    # Request line and headers of one request: 431.
    header_bytes_max: int = 64 * 1024
    # Body of one request: 413. Its framing (chunk sizes, extensions and trailers) may take
    # ``header_bytes_max`` and a quarter of the body's own bytes.
    body_bytes_max: int = 5 * 1024 * 1024
    # Bodies of all connections together, from their first slice until their requests are answered. Further
    # bodies stay unread in their sockets until there is room.
    bodies_bytes_max: int = 80 * 1024 * 1024
    # Time that a body may wait for that room: 503.
    room_timeout_s: float = 120.0
    # Open connections: 503.
    connections_max: int = 10_000
    # From a request's first byte, or from the connection's start, to the end of its headers: 408.
    header_timeout_s: float = 15.0
    # Unread answers of all connections together; above it, clients are dropped that have gone longest without
    # reading. Data below a connection's high-water mark is not counted.
    unread_bytes_max: int = 256 * 1024 * 1024
    # For a body to arrive after its headers (408), and for an answer to be read. A client that sent or read
    # ``rate_bytes_min`` a second in that time gets as much time again; but while other bodies wait for room,
    # an admitted body must be half complete by then.
    body_timeout_s: float = 30.0
    # Minimum rate of a slow client, in bytes a second over ``body_timeout_s``.
    rate_bytes_min: int = 1024
    # Between an answer and the next request's first byte; then the connection is closed.
    idle_timeout_s: float = 75.0
    # How long input from a refused client is discarded, so that the client can read the refusal.
    linger_timeout_s: float = 2.0


class Client(NamedTuple):
    """The client at the other end of a connection."""

    host: str = ""  # its address; empty if it has none
    port: int = 0
    certificate: str = ""  # the principal's name from its verified certificate


class Request(NamedTuple):
    """A complete request."""

    method: bytes
    target: bytes  # path and query, percent-encoded as sent; see :func:`relative`
    headers: Headers
    body: bytes
    version: str  # ``1.1`` or ``1.0``
    keep_alive: bool  # the client wants to reuse the connection

    @property
    def path(self) -> bytes:
        """The target up to its query."""
        return self.target.partition(b"?")[0]

    @property
    def query(self) -> bytes:
        """The target after the question mark."""
        return self.target.partition(b"?")[2]


def relative(target: bytes) -> bytes:
    """Strip scheme and authority from a target; absolute ones are meant for proxies, but must be served."""
    scheme, found, rest = target.partition(b"://")
    if not found or b"/" in scheme or b"?" in scheme:
        return target
    slash = rest.find(b"/")
    query = rest.find(b"?")
    if slash >= 0 and (query < 0 or slash < query):
        return rest[slash:]
    return b"/" + (rest[query:] if query >= 0 else b"")


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
    kind: str = ""  # of the principal


def observe_answer(request: Request | None, client: str, answer: Answer, seconds: float) -> Served:
    """Return what is observed of an answer that did not come from the application."""
    status, _, body, route, request_id, principal, kind = answer
    return _new(Served, (request, client, status, seconds, len(body), route, request_id, principal, kind))


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


def encode_answer(answer: Answer, date: bytes, persistent: bytes = b"") -> bytes:
    """Encode a whole answer; ``date``, ``persistent``: further encoded headers."""
    status, headers, body, _, _, _, _ = answer
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
