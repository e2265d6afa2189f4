"""Endpoint that answers health checks and holds writes while the node is starting.

Starting usually takes a moment. If it takes longer, readers are notified and ``/health`` reports progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from registry.api.node_queries import STATUS
from registry.domain.admission import Room, size_of
from registry.domain.commands import refused
from registry.domain.errors import NOT_STARTED
from registry.ipc.messages import (
    NO_ANSWER,
    Confirm,
    Confirmed,
    Decided,
    FromReader,
    Hello,
    Query,
    Reply,
    Report,
    State,
    Submit,
    encode,
)

from .ipc_server import IpcServer, ReaderConnection
from .startup.progress import StartProgress

QUICK_S = 1.0  # Seconds: a start that takes no longer does without this endpoint.
HOLD_S = 5.0  # Seconds that a write waits for the node before it is refused.
HELD_MAX = 1000  # Writes of one reader that wait for the node; more are refused immediately.


def starting_server(progress: StartProgress, held_bytes_max: int) -> IpcServer:
    """Return the server for readers that answers while the node is starting; it does not listen yet.

    ``held_bytes_max`` limits the writes of one reader that wait. Must be called on the event loop.
    """
    service = StartingService(progress, held_bytes_max)
    loop = asyncio.get_running_loop()
    progress.when_examined = lambda: unless_ended(loop, service.send_state)
    return IpcServer(service)


class StartingService:
    """Service for readers while the node is starting; ``held_bytes_max`` limits the writes of one reader."""

    def __init__(self, progress: StartProgress, held_bytes_max: int) -> None:
        self.progress = progress
        self.held_bytes_max = held_bytes_max
        self._connections: set[ReaderConnection] = set()

    def open_session(self, connection: ReaderConnection) -> StartingSession:
        """Begin to serve a reader, and report that the node is still starting."""
        self._connections.add(connection)
        connection.send(self._state())
        return StartingSession(self, connection)

    def send_state(self) -> None:
        """Notify all readers that they may serve the rows, if they still talk to this service."""
        for connection in self._connections:
            connection.send(self._state())

    def left(self, connection: ReaderConnection) -> None:
        """Forget a reader that has disconnected, or talks to the node now."""
        self._connections.discard(connection)

    def _state(self) -> State:
        return State(started=False, opening=True, examined=self.progress.examined)


class StartingSession:
    """Answers one reader while the node is starting, and holds its writes."""

    def __init__(self, service: StartingService, connection: ReaderConnection) -> None:
        self._progress = service.progress
        self._left = service.left
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._held: dict[int, tuple[Submit, float, asyncio.TimerHandle]] = {}
        self._room = Room(HELD_MAX, service.held_bytes_max)

    def on_message(self, message: FromReader) -> None:
        """Answer requests that need no node, hold writes until there is one, and refuse all others."""
        send = self._connection.send
        match message:
            case Query(number, query) if query == STATUS.number:
                send(Reply(number, msgspec.Raw(encode(self._progress.status()))))
            case Query(number):
                send(Reply(number, NO_ANSWER, refused(NOT_STARTED())))
            case Confirm(number):
                send(Confirmed(number, False))
            case Submit(request=request) if self._room.fits(size_of(request.command)):
                self._hold(message)
            case Submit(number):
                send(Decided(number, refused(NOT_STARTED())))
            case Hello() | Report():
                pass  # reports are cumulative, so the next one includes this one

    def _hold(self, submit: Submit) -> None:
        request = submit.request
        self._room.add(size_of(request.command))
        deadline = self._loop.time() + request.remaining_s
        timer = self._loop.call_later(min(HOLD_S, request.remaining_s), self._refuse, submit.number)
        self._held[submit.number] = submit, deadline, timer

    def _refuse(self, number: int) -> None:
        submit, _, _ = self._held.pop(number)
        self._room.remove(size_of(submit.request.command))
        self._connection.send(Decided(number, refused(NOT_STARTED())))

    def close(self) -> list[Submit]:
        """Return the writes that are held, none of which was started."""
        self._left(self._connection)
        held, self._held = self._held, {}
        now = self._loop.time()
        for _, _, timer in held.values():
            timer.cancel()
        return [
            replace(submit, request=replace(submit.request, remaining_s=deadline - now))
            for submit, deadline, _ in held.values()
        ]


def unless_ended(loop: asyncio.AbstractEventLoop, call: Callable[[], Any]) -> None:
    """Call ``call`` on an event loop, from any thread, unless the loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
