"""What hypercorn leaves open between itself and the application, for one request.

Hypercorn waits for the application to take a body that it may not want, for ever. So a client whose body was
not read to its end is told that its connection ends, its answer is sent whole, and what it still sends is
thrown away for a short time: closing at once would reset the connection, and lose the answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry.api.answers import refusal, send_answer
from registry.api.app import route_of
from registry.domain.errors import BAD_REQUEST, METHOD_NOT_ALLOWED, RegistryError
from registry.http1.connection import HEADERS_TOO_LARGE, NO_UPGRADE
from registry.http1.framing import BROKEN
from registry.http1.limits import Limits
from registry.http1.request import Request, relative
from registry.observe.observed import Observed

Header = tuple[bytes, bytes]
Standing = Callable[[Iterable[Header]], Iterable[Header]]

# True once the connection that a task serves is closed; hypercorn itself drops what is sent after that.
GONE: ContextVar[Callable[[], bool]] = ContextVar("GONE", default=lambda: False)

_LIMITS = Limits()
_SLICE_BYTES = 64 * 1024
_VERSIONS = frozenset({"1.0", "1.1", "2"})


class Border:
    """Around the application: refuses what it need not see, watches each exchange, and counts."""

    def __init__(
        self, app: ASGIApp, *, observed: Observed, standing: Standing, stopping: Callable[[], bool]
    ) -> None:
        self._app = app
        self._observed = observed
        self._standing = standing
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "websocket":
            await self._refuse_websocket(receive, send)
            return
        began = time.perf_counter()
        target = _target(scope)
        exchange = _Exchange(scope, receive, send, self._stopping)
        try:
            fault = _fault(scope)
            if fault is None:
                await self._app(scope, exchange.receive, exchange.send)
                # Without an answer: the body has ended too early, and perhaps the client still listens.
                fault = None if exchange.status else BAD_REQUEST(BROKEN)
            if fault is not None:
                answer = refusal(fault, tuple(self._standing(scope["headers"])))
                await send_answer(answer, scope, exchange.refuse)
        except ConnectionResetError:
            return
        finally:
            method, version = scope["method"].encode(), scope["http_version"]
            request = Request(method, target, scope["headers"], b"", version, keep_alive=True)
            seconds = time.perf_counter() - began
            self._observed(request, exchange.status, seconds, exchange.size, route_of(scope))

    async def _refuse_websocket(self, receive: Receive, send: Send) -> None:
        await receive()

        async def as_websocket(message: Message) -> None:
            await send({**message, "type": f"websocket.{message['type']}"})

        answer = refusal(BAD_REQUEST(NO_UPGRADE), tuple(self._standing(())))
        await send_answer(answer, {"type": "websocket", "method": "GET", "headers": []}, as_websocket)
        self._observed(None, answer.status, 0.0, len(answer.body), "")


class _Exchange:
    """What the application receives and sends, watched."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, stopping: Callable[[], bool]) -> None:
        self._receive = receive
        self._send = send
        self._stopping = stopping
        self._closable = scope["http_version"] != "2"
        self._whole = _is_bodiless(scope)
        self._ended = False  # the client has sent all it wants to, and will not ask again
        self._gone = GONE.get()
        self.status = 0
        self.size = 0
        """Bytes of the answer's body."""

    async def receive(self) -> Message:
        """The application's ``receive``."""
        message = await self._receive()
        self._ended = self._ended or message["type"] == "http.disconnect"
        if not message.get("more_body", False):
            self._whole = True
        return message

    async def refuse(self, message: Message) -> None:
        """Send a part of an answer after which the connection ends: what follows may not be a request."""
        self._ended = True
        await self.send(message)

    async def send(self, message: Message) -> None:
        """The application's ``send``: waits until the client has read, and raises when it has gone."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            await self._take_what_is_there()
            if self._closable and (self._stopping() or self._ended or not self._whole):
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await self._pass(message)
            return
        body: bytes = message.get("body", b"")
        self.size += len(body)
        last = max(0, (len(body) - 1) // _SLICE_BYTES) * _SLICE_BYTES
        for start in range(0, last, _SLICE_BYTES):
            piece = body[start : start + _SLICE_BYTES]
            await self._pass({"type": message["type"], "body": piece, "more_body": True})
        message = {**message, "body": body[last:]}
        if self._whole or message.get("more_body", False):
            await self._pass(message)
            return
        await self._pass({**message, "more_body": True})
        rest = asyncio.get_running_loop().create_task(self._throw_away())
        await asyncio.wait({rest}, timeout=_LIMITS.linger_timeout_s)
        await self._pass({"type": "http.response.body", "body": b"", "more_body": False})
        await asyncio.wait({rest}, timeout=_LIMITS.linger_timeout_s)
        rest.cancel()

    async def _pass(self, message: Message) -> None:
        await self._send(message)
        if self._gone():
            raise ConnectionResetError("the client has closed its connection")

    async def _take_what_is_there(self) -> None:
        try:
            while not (self._ended or self._whole):
                async with asyncio.timeout(0):
                    await self.receive()
        except TimeoutError:
            return

    async def _throw_away(self) -> None:
        while not self._whole:
            await self.receive()


def _is_bodiless(scope: Scope) -> bool:
    if scope["http_version"] == "2":
        return False  # its end is a flag, not a length
    return all(
        name != b"transfer-encoding" and (name != b"content-length" or value.strip() == b"0")
        for name, value in scope["headers"]
    )


def _target(scope: Scope) -> bytes:
    """The target as it was sent; the path in ``scope`` loses scheme and authority."""
    path, query = scope["raw_path"], scope["query_string"]
    if not path.startswith(b"/"):
        scope["raw_path"] = relative(path)
    return b"%s?%s" % (path, query) if query else path


def _fault(scope: Scope) -> RegistryError | None:
    """Why a request is refused before it is looked at."""
    given = {name: value.strip().lower() for name, value in scope["headers"]}
    ambiguous = b"content-length" in given and b"transfer-encoding" in given
    if scope["http_version"] not in _VERSIONS or ambiguous:
        return BAD_REQUEST(BROKEN)
    if scope["method"] == "CONNECT":
        return METHOD_NOT_ALLOWED()
    size = len(scope["raw_path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if size > _LIMITS.header_bytes_max:
        return HEADERS_TOO_LARGE(_LIMITS.header_bytes_max)
    offered = given.get(b"upgrade", b"h2c") if b"upgrade" in given.get(b"connection", b"") else b"h2c"
    return None if offered == b"h2c" else BAD_REQUEST(NO_UPGRADE)
