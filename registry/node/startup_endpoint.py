"""Endpoint that answers health checks and holds writes while the node is starting.

Starting usually takes a moment. If it takes longer, readers are notified and ``/health`` reports progress.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from registry.api.status import NodeStatus
from registry.config.loading import Settings
from registry.domain.admission import Room, size_of
from registry.domain.commands import Command, Outcome, refused
from registry.domain.errors import NOT_STARTED
from registry.ipc.messages import (
    AskSnapshots,
    AskStatus,
    Confirm,
    Confirmed,
    Decided,
    DeleteSnapshot,
    Framed,
    Hello,
    Metrics,
    Report,
    Snapshots,
    State,
    Status,
    Submit,
    decode_from_reader,
    encode,
)

from .startup.progress import StartProgress

if TYPE_CHECKING:
    from registry.api.backend import Backend

    from .ipc_server import IpcServer
    from .serving import Serving

QUICK_S = 1.0  # a start that takes no longer does without this endpoint
HOLD_S = 5.0  # time that a write waits for the node before it is refused
HELD_MAX = 1000  # writes of one reader that wait for the node; more are refused immediately


class StartupEndpoint:
    """Endpoint for readers and, on a host without readers, the public port, until :meth:`hand_over`."""

    def __init__(self, settings: Settings, starting: StartProgress) -> None:
        self._settings = settings
        self._server: asyncio.AbstractServer | None = None
        self.held_bytes_max = settings.queue_bytes_max
        self.starting = starting
        self.calls: set[StartupConnection] = set()
        # The server of the public port and its backend, on a host without readers.
        self.serving: Serving | None = None
        self.backend: StartupBackend | None = None

    async def start(self, path: Path) -> None:
        """Listen on the unix socket ``path`` and, without readers, the public port.

        Raises :class:`OSError`.
        """
        path.unlink(missing_ok=True)  # noqa: ASYNC240 (once, before anything is served)
        self._server = await asyncio.get_running_loop().create_unix_server(
            lambda: StartupConnection(self), str(path)
        )
        if self._settings.readers == 0:
            from .serving import Serving  # noqa: PLC0415 (only for hosts without readers)

            self.serving = Serving(self._settings)
            self.backend = StartupBackend(self.starting)
            await self.serving.over(self.backend, metrics=_no_metrics)

    def hand_over(self, endpoint: IpcServer) -> None:
        """Hand all connections over to the node's own endpoint, which must be listening already."""
        self.stop()
        while self.calls:
            self.calls.pop().hand_over(endpoint)

    def stop(self) -> None:
        """Stop listening; existing connections stay open."""
        if self._server is not None:
            self._server.close()


class StartupConnection(Framed):
    """Connection of one reader while the node is starting."""

    def __init__(self, early: StartupEndpoint) -> None:
        super().__init__()
        self._early = early
        self._loop = asyncio.get_running_loop()
        self._writes: dict[int, tuple[Submit, float, asyncio.TimerHandle]] = {}
        self._room = Room(HELD_MAX, early.held_bytes_max)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell the reader immediately that the node is still starting."""
        super().connection_made(transport)
        self._early.calls.add(self)
        self.tell(State(started=False, opening=True))

    def connection_lost(self, exc: Exception | None) -> None:
        """Discard the reader's waiting writes, none of which was started."""
        self._early.calls.discard(self)
        for _, _, timer in self._writes.values():
            timer.cancel()

    def heard(self, message: bytes) -> None:
        """Answer requests that need no node, hold writes until there is one, and refuse all others."""
        match said := decode_from_reader(message):
            case AskStatus(number):
                self.tell(Status(number, self._early.starting.status()))
            case Confirm(number):
                self.tell(Confirmed(number, False))
            case Submit(request=request) if self._room.fits(size := size_of(request.command)):
                self._room.add(size)
                deadline = self._loop.time() + request.remaining_s
                timer = self._loop.call_later(min(HOLD_S, request.remaining_s), self._refuse, said.number)
                self._writes[said.number] = said, deadline, timer
            case Submit(number):
                self.tell(Decided(number, refused(NOT_STARTED())))
            case AskSnapshots(number) | DeleteSnapshot(number):
                self.tell(Snapshots(number, [], refused(NOT_STARTED())))
            case Report(number=number) if number:
                self.tell(Metrics(number, b"", refused(NOT_STARTED())))
            case Hello() | Report():
                pass  # reports are cumulative, so the next one includes this one

    def _refuse(self, number: int) -> None:
        said, _, _ = self._writes.pop(number)
        self._room.remove(size_of(said.request.command))
        self.tell(Decided(number, refused(NOT_STARTED())))

    def hand_over(self, endpoint: IpcServer) -> None:
        """Hand the connection and its waiting writes over to the node's own endpoint."""
        call = endpoint.take(self)
        for submit, deadline, timer in self._writes.values():
            timer.cancel()
            request = replace(submit.request, remaining_s=deadline - self._loop.time())
            call.heard(encode(replace(submit, request=request)))


class StartupBackend:
    """Implementation of :class:`registry.api.backend.Backend` for a host without readers while it starts."""

    def __init__(self, starting: StartProgress) -> None:
        self._starting = starting
        self._next: asyncio.Future[Backend] = asyncio.get_running_loop().create_future()
        self._waiting = 0

    def hand_over(self, backend: Backend) -> None:
        """Pass waiting commands on to the node's own backend."""
        self._next.set_result(backend)

    def view(self) -> NoReturn:
        """Raise ``NOT_STARTED``, because there are no rows yet."""
        raise NOT_STARTED()

    async def submit(self, command: Command, *, request_id: str = "", forwarded: bool = False) -> Outcome:
        """Wait for the node and submit the command to it.

        Raises ``NOT_STARTED`` after :data:`HOLD_S`, or if :data:`HELD_MAX` commands are waiting already.
        """
        if self._waiting >= HELD_MAX:
            raise NOT_STARTED()
        self._waiting += 1
        try:
            backend = await asyncio.wait_for(asyncio.shield(self._next), HOLD_S)
        except TimeoutError:
            raise NOT_STARTED() from None
        finally:
            self._waiting -= 1
        return await backend.submit(command, request_id=request_id, forwarded=forwarded)

    async def confirm(self) -> bool:
        """Return false."""
        return False

    def applied(self) -> int:
        """Return 0."""
        return 0

    async def status(self) -> NodeStatus:
        """Return the progress of the start."""
        return self._starting.status()

    async def snapshots(self) -> NoReturn:
        """Raise ``NOT_STARTED``."""
        raise NOT_STARTED()

    async def delete_snapshot(self, id: str) -> NoReturn:
        """Raise ``NOT_STARTED``."""
        raise NOT_STARTED()


async def _no_metrics() -> NoReturn:
    raise NOT_STARTED()
