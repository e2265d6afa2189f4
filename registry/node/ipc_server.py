"""Server for the readers of a host, on a unix socket, and its answers while the node is starting.

It listens from before the node is ready until the process ends. The service behind it is swapped once: from
the one that answers while the node starts to the node's (:mod:`.node_service`).

Starting usually takes a moment. If it takes longer, readers are notified and ``/health`` reports progress.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from registry.api.node_queries import STATUS
from registry.domain.admission import Room, size_of
from registry.domain.commands import refusal
from registry.domain.errors import NOT_STARTED
from registry.ipc.messages import (
    NO_ANSWER,
    Confirm,
    Confirmed,
    Decided,
    Framed,
    FromReader,
    Hello,
    Query,
    Reply,
    Report,
    State,
    Submit,
    decode_from_reader,
    encode,
)

from .startup.progress import StartProgress

_log = logging.getLogger(__name__)


class Session(Protocol):
    """A service's side of the connection of one reader."""

    def on_message(self, message: FromReader) -> None:
        """Handle a message from the reader."""
        ...

    def close(self) -> Sequence[Submit]:
        """End the session, because the reader has disconnected or the service was swapped.

        Return the writes that were held; the next service, if any, decides them.
        """
        ...


class Service(Protocol):
    """Handler of the requests of readers."""

    def open_session(self, connection: ReaderConnection) -> Session:
        """Begin to serve a reader and send it the current state."""
        ...


class IpcServer:
    """Accepts connections of readers and passes their messages to ``service``."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.connections: set[ReaderConnection] = set()
        self._server: asyncio.AbstractServer | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self, path: Path) -> None:
        """Listen on the unix socket ``path``, unless the server already does. Raises :class:`OSError`.

        The socket's directory must be accessible to this user only.
        """
        if self._server is None:
            path.unlink(missing_ok=True)  # noqa: ASYNC240 (once, before anything is served)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(lambda: ReaderConnection(self), str(path))

    def swap(self, service: Service) -> None:
        """Have ``service`` serve all connections from now on, and decide the writes held so far."""
        self.service = service
        for connection in tuple(self.connections):
            connection.swap(service)

    def add(self, connection: ReaderConnection) -> None:
        """Register a reader that has connected."""
        self.connections.add(connection)
        self._idle.clear()

    def remove(self, connection: ReaderConnection) -> None:
        """Remove a reader that has disconnected."""
        self.connections.discard(connection)
        if not self.connections:
            self._idle.set()

    async def drain(self, timeout_s: float) -> None:
        """Wait until all readers have disconnected, which they do when they have finished."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            _log.warning(
                "%d readers did not finish in time; closing their connections", len(self.connections)
            )

    def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self.connections):
            connection.transport.close()


class ReaderConnection(Framed):
    """Connection of one reader."""

    def __init__(self, server: IpcServer) -> None:
        super().__init__()
        self._server = server
        self._session: Session

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the reader and open its session."""
        super().connection_made(transport)
        self._server.add(self)
        self._session = self._server.service.open_session(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the session; writes that it held were not started, so they are dropped."""
        self._server.remove(self)
        self._session.close()

    def on_message(self, message: bytes) -> None:
        """Pass a message on to the session."""
        self._session.on_message(decode_from_reader(message))

    def swap(self, service: Service) -> None:
        """Replace the session by one of ``service``, which gets the writes that were held."""
        held = self._session.close()
        self._session = service.open_session(self)
        for submit in held:
            self._session.on_message(submit)


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

    def remove(self, connection: ReaderConnection) -> None:
        """Forget a reader that has disconnected, or talks to the node now."""
        self._connections.discard(connection)

    def _state(self) -> State:
        return State(started=False, opening=True, examined=self.progress.examined)


class StartingSession:
    """Answers one reader while the node is starting, and holds its writes."""

    def __init__(self, service: StartingService, connection: ReaderConnection) -> None:
        self._progress = service.progress
        self._left = service.remove
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
                send(Reply(number, NO_ANSWER, refusal(NOT_STARTED())))
            case Confirm(number):
                send(Confirmed(number, False))
            case Submit(request=request) if self._room.fits(size_of(request.command)):
                self._hold(message)
            case Submit(number):
                send(Decided(number, refusal(NOT_STARTED())))
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
        self._connection.send(Decided(number, refusal(NOT_STARTED())))

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
