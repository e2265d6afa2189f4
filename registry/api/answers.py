"""Answers: status, headers and body as data, errors as answers, and sending them."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any, NamedTuple

import orjson
from starlette.types import Message, Receive, Scope, Send

from registry.domain.errors import RegistryError
from registry.feed.contract import Stream

from .media_types import PLAIN, PRODUCED
from .request_context import GZIP_TAG, request_id

Header = tuple[bytes, bytes]


class Disconnected(Exception):
    """The client disconnected before the exchange was complete."""


# On every answer unless it has its own value (Confluent 8.x; the last one there only if it is turned on).
STANDARD_HEADERS: tuple[Header, ...] = (
    (b"cache-control", b"no-cache, no-store, must-revalidate"),
    (b"x-xss-protection", b"1; mode=block"),
    (b"x-content-type-options", b"nosniff"),
)

# On every answer that may be compressed.
VARY: tuple[Header, ...] = ((b"vary", b"accept-encoding"),)

GZIP_BYTES_MIN = 1400  # a smaller body fits one packet, and compressing it saves nothing
_THREAD_BYTES_MIN = 64 * 1024  # compressing more takes longer than other requests should wait
_GZIP_LEVEL = 5
_GZIP_WINDOW = 31  # the largest window, and gzip's header and trailer
_RETRY_CODES = frozenset({503, 50003, 50004})


def with_standard(headers: Iterable[Header], request_id: bytes, offset: int) -> list[Header]:
    """Return the headers of an answer with those that every answer has; ``offset``: the applied one."""
    own = list(headers)
    names = {name for name, _ in own}
    own += [each for each in STANDARD_HEADERS if each[0] not in names]
    own += ((b"x-request-id", request_id), (b"x-registry-offset", b"%d" % offset))
    return own


def common_headers(request: Iterable[Header], offset: int) -> list[Header]:
    """Return the headers of every answer to a request with these headers; ``offset``: the applied one."""
    return with_standard((), request_id(request), offset)


class Answer(NamedTuple):
    """An answer without the headers that every answer has."""

    body: bytes = b""
    status: int = 200
    headers: tuple[Header, ...] = ()
    media_type: bytes | None = None  # ``None``: the negotiated one
    offset: int | None = None  # offset at which a write is visible; ``None`` for reads
    rest: AsyncGenerator[bytes] | None = None  # the rest of a streamed body, of unknown length
    lasting: bool = False  # the rest comes over a long time
    hold: Callable[[Stream], None] | None = None  # gets the open answer, and writes its body at any time


def json_answer(value: Any, status: int = 200, headers: tuple[Header, ...] = ()) -> Answer:
    """Return an answer with ``value`` as compact JSON."""
    return Answer(orjson.dumps(value), status, headers)


def plain_answer(body: bytes) -> Answer:
    """Return an answer in plain text; ``body`` is UTF-8."""
    return Answer(body, media_type=PLAIN + b"; charset=utf-8")


def error_body(code: int, message: str) -> bytes:
    """Return Confluent's error object as JSON."""
    try:
        return orjson.dumps({"error_code": code, "message": message})
    except orjson.JSONEncodeError:  # a lone surrogate, which UTF-8 cannot carry
        return orjson.dumps({"error_code": code, "message": message.encode(errors="replace").decode()})


def refusal(error: RegistryError, headers: tuple[Header, ...] = ()) -> Answer:
    """Return the answer for ``error``."""
    if error.code in _RETRY_CODES or error.retry_after_s:
        headers = (*headers, (b"retry-after", b"%d" % (error.retry_after_s or 1)))
    return Answer(error_body(error.code, error.message), error.status, headers)


async def compress(answer: Answer, request: Iterable[Header]) -> Answer:
    """Return a whole answer compressed, if that is worth it and the client takes it."""
    body = answer.body
    if len(body) < GZIP_BYTES_MIN:
        return answer
    headers = answer.headers + VARY
    if _takes_gzip(request):
        headers = tuple((name, _gzip_tag(value) if name == b"etag" else value) for name, value in headers)
        body, headers = await _compress(body), (*headers, (b"content-encoding", b"gzip"))
    return answer._replace(body=body, headers=headers)


def _gzip_tag(tag: bytes) -> bytes:
    """Return the entity tag of the compressed body; weak ones are the same."""
    return tag if tag.startswith(b"W/") else b'%s%s"' % (tag[:-1], GZIP_TAG.encode())


async def send_answer(
    answer: Answer, scope: Scope, send: Send, media_type: bytes = PRODUCED[0], receive: Receive | None = None
) -> None:
    """Send ``answer``, as ``media_type`` unless it has its own, compressed if that is worth it.

    A streamed answer needs ``receive`` to notice that the client has disconnected.
    """
    if answer.rest is None:
        answer = await compress(answer, scope["headers"])
    body, rest, headers = answer.body, answer.rest, [*answer.headers]
    packer = None
    if body:
        headers.append((b"content-type", answer.media_type or media_type))
        if rest is not None:
            headers += VARY
            if _takes_gzip(scope["headers"]):
                headers.append((b"content-encoding", b"gzip"))
                packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    if answer.hold is not None:
        headers.append((b"content-type", answer.media_type or media_type))
    elif answer.status not in (204, 304) and rest is None:
        headers.append((b"content-length", b"%d" % len(body)))
    start: Message = {"type": "http.response.start", "status": answer.status, "headers": headers}
    if answer.lasting:
        start["lasting"] = True
    await send(start)
    if scope["method"] == "HEAD":
        if rest is not None:
            await rest.aclose()
        if answer.hold is not None or rest is not None:
            # The length is not known; without this, the server would take it for 0.
            await send({"type": "http.response.body", "body": b"", "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    elif answer.hold is not None:
        await send({"type": "http.response.hold", "hold": answer.hold})
    elif rest is None:
        await send({"type": "http.response.body", "body": body})
    else:
        assert receive is not None
        await _send_pieces(body, rest, packer, send, receive)


async def _send_pieces(
    body: bytes, rest: AsyncGenerator[bytes], packer: zlib._Compress | None, send: Send, receive: Receive
) -> None:
    """Stream a body as fast as the client reads it."""
    gone = asyncio.create_task(_until_gone(receive))
    try:
        async with aclosing(rest):
            await send({"type": "http.response.body", "body": await _pack(packer, body), "more_body": True})
            async for piece in rest:
                if gone.done():
                    raise Disconnected
                part = await _pack(packer, piece)
                if part:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": packer.flush() if packer else b""})
    finally:
        gone.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _pack(packer: zlib._Compress | None, part: bytes) -> bytes:
    if packer is None or not part:
        return part
    if len(part) < _THREAD_BYTES_MIN:
        return _flush(packer, part)
    return await asyncio.to_thread(_flush, packer, part)


def _flush(packer: zlib._Compress, part: bytes) -> bytes:
    """Return all of a part compressed, so that the client gets it without waiting for the next one."""
    return packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH)


def _takes_gzip(headers: Iterable[Header]) -> bool:
    accepted = b",".join(value for name, value in headers if name == b"accept-encoding").lower()
    for each in accepted.split(b","):
        coding, _, quality = each.replace(b" ", b"").partition(b";")
        if coding == b"gzip":
            return quality not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


async def _compress(body: bytes) -> bytes:
    if len(body) < _THREAD_BYTES_MIN:
        return gzip.compress(body, _GZIP_LEVEL, mtime=0)
    return await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL, mtime=0)
