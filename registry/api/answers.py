"""Answers: status, body and headers as data; and the one place where errors become answers."""

from __future__ import annotations

import asyncio
import gzip
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson
from starlette.types import Message, Scope, Send

from registry.domain.errors import RegistryError

from .media import PLAIN, PRODUCED

Header = tuple[bytes, bytes]

STANDARD_HEADERS: tuple[Header, ...] = (
    (b"cache-control", b"no-cache, no-store, must-revalidate"),
    (b"x-xss-protection", b"1; mode=block"),
)
"""On every answer that does not say otherwise (Confluent 8.x)."""

GZIP_BYTES_MIN = 1400  # a smaller body fits one packet, and compressing it saves nothing
_THREAD_BYTES_MIN = 64 * 1024  # compressing more takes longer than other requests should wait
_GZIP_LEVEL = 5
_RETRY_CODES = frozenset({503, 50003, 50004})


def request_id(headers: Iterable[Header]) -> bytes:
    """``X-Request-ID`` of the answer: the request's if there is exactly one, not blank, else a new UUID."""
    given = [value.strip() for name, value in headers if name == b"x-request-id"]
    return given[0] if len(given) == 1 and given[0] else str(uuid.uuid4()).encode()


def standing(request: Iterable[Header], offset: int) -> tuple[Header, ...]:
    """The headers that every answer to a request with these headers has; ``offset``: the applied one."""
    own = ((b"x-request-id", request_id(request)), (b"x-registry-offset", b"%d" % offset))
    return (*STANDARD_HEADERS, *own)


class Answer(NamedTuple):
    """What goes back to the client, but for the headers that every answer has."""

    body: bytes = b""
    status: int = 200
    headers: tuple[Header, ...] = ()
    media_type: bytes | None = None
    """``None``: the one that was negotiated."""
    offset: int | None = None
    """The offset at which a write is visible; ``None`` for reads."""


def json_answer(value: Any, status: int = 200, headers: tuple[Header, ...] = ()) -> Answer:
    """``value`` printed as compact JSON."""
    return Answer(orjson.dumps(value), status, headers)


def plain_answer(body: bytes) -> Answer:
    """Text for people, in UTF-8."""
    return Answer(body, media_type=PLAIN + b"; charset=utf-8")


def error_body(code: int, message: str) -> bytes:
    """Confluent's error object."""
    try:
        return orjson.dumps({"error_code": code, "message": message})
    except orjson.JSONEncodeError:  # a lone surrogate, which UTF-8 cannot carry
        return orjson.dumps({"error_code": code, "message": message.encode(errors="replace").decode()})


def refusal(error: RegistryError, headers: tuple[Header, ...] = ()) -> Answer:
    """The answer for ``error``."""
    if error.code in _RETRY_CODES:
        headers = (*headers, (b"retry-after", b"1"))
    return Answer(error_body(error.code, error.message), error.status, headers)


async def send_answer(answer: Answer, scope: Scope, send: Send, media_type: bytes = PRODUCED[0]) -> None:
    """Send ``answer``, as ``media_type`` unless it names its own; compressed where that helps."""
    body, headers = answer.body, [*answer.headers]
    if body:
        headers.append((b"content-type", answer.media_type or media_type))
        if len(body) >= GZIP_BYTES_MIN:
            headers.append((b"vary", b"accept-encoding"))
            if _takes_gzip(scope["headers"]):
                headers.append((b"content-encoding", b"gzip"))
                body = await _compressed(body)
    if answer.status not in (204, 304):
        headers.append((b"content-length", b"%d" % len(body)))
    start: Message = {"type": "http.response.start", "status": answer.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _takes_gzip(headers: Iterable[Header]) -> bool:
    accepted = b",".join(value for name, value in headers if name == b"accept-encoding").lower()
    for each in accepted.split(b","):
        coding, _, quality = each.replace(b" ", b"").partition(b";")
        if coding == b"gzip":
            return quality not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


async def _compressed(body: bytes) -> bytes:
    if len(body) < _THREAD_BYTES_MIN:
        return gzip.compress(body, _GZIP_LEVEL, mtime=0)
    return await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL, mtime=0)
