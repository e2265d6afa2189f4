"""Endpoint that answers health checks and holds writes while the node is starting.

Starting usually takes a moment. If it takes longer, readers are notified and ``/health`` reports progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec.structs import replace

from registry.api.backend import NodeStatus
from registry.base.config.settings import Settings
from registry.domain.admission import Room, size_of
from registry.domain.commands import Command, Outcome, refused
from registry.domain.errors import NOT_STARTED
from registry.domain.history.moment import Moment
from registry.domain.log_format.lineage import Mismatch
from registry.domain.pending_command import NO_ORIGIN, Origin
from registry.feed.contract import NO_EVENTS
from registry.host.tracing.contract import NO_TRACING, Tracing
from registry.ipc.messages import (
    AskCluster,
    AskEvents,
    AskPast,
    AskSnapshots,
    AskStatus,
    Cluster,
    Confirm,
    Confirmed,
    Decided,
    DeleteSnapshot,
    Events,
    FromReader,
    Hello,
    Metrics,
    Past,
    Report,
    Snapshots,
    State,
    Status,
    Submit,
)

from .governance import Governance
from .ipc_server import IpcServer, ReaderConnection
from .startup.progress import StartProgress

if TYPE_CHECKING:
    from registry.api.backend import Backend

    from .serving import Serving

QUICK_S = 1.0  # Seconds: a start that takes no longer does without this endpoint.
HOLD_S = 5.0  # Seconds that a write waits for the node before it is refused.
HELD_MAX = 1000  # Writes of one reader that wait for the node; more are refused immediately.


class StartupEndpoint:
    """Endpoint for readers and, on a host without readers, the public port; the node takes both over."""

    def __init__(
        self,
        settings: Settings,
        progress: StartProgress,
        governance: Governance,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._settings = settings
        self._tracing = tracing
        self._governance = governance
        self.progress = progress
        service = StartingService(progress, settings.queue_bytes_max)
        self.ipc = IpcServer(service)
        loop = asyncio.get_running_loop()
        progress.when_examined = lambda: unless_ended(loop, service.send_state)
        # The server of the public port and its backend, on a host without readers.
        self.serving: Serving | None = None
        self.backend: StartupBackend | None = None

    async def start(self, path: Path) -> None:
        """Listen on the unix socket ``path`` and, without readers, the public port.

        Raises :class:`OSError`.
        """
        await self.ipc.start(path)
        if self._settings.readers == 0:
            from .serving import Serving  # noqa: PLC0415 (only for hosts without readers)

            governance = self._governance
            self.serving = Serving(self._settings, governance.policies, governance.audit, self._tracing)
            self.backend = StartupBackend(self.progress)
            await self.serving.over(self.backend, metrics=_no_metrics)


class StartingService:
    """Service for readers while the node is starting; ``held_bytes_max`` limits the writes of one reader."""

    def __init__(self, progress: StartProgress, held_bytes_max: int) -> None:
        self.progress = progress
        self.held_bytes_max = held_bytes_max
        self._connections: set[ReaderConnection] = set()

    def open_session(self, connection: ReaderConnection) -> StartingSession:
        """Begin to serve a reader and tell it that the node is still starting."""
        self._connections.add(connection)
        connection.send(self._state())
        return StartingSession(self, connection)

    def send_state(self) -> None:
        """Tell all readers that they may serve the rows, if they still talk to this service."""
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
            case AskStatus(number):
                send(Status(number, self._progress.status()))
            case Confirm(number):
                send(Confirmed(number, False))
            case Submit(request=request) if self._room.fits(size_of(request.command)):
                self._hold(message)
            case Submit(number):
                send(Decided(number, refused(NOT_STARTED())))
            case AskCluster(number):
                send(Cluster(number, None, refused(NOT_STARTED())))
            case AskPast(number):
                send(Past(number, None, refused(NOT_STARTED())))
            case AskSnapshots(number) | DeleteSnapshot(number):
                send(Snapshots(number, [], refused(NOT_STARTED())))
            case AskEvents(number=number):
                send(Events(number, NO_EVENTS, refused(NOT_STARTED())))
            case Report(number=number) if number:
                send(Metrics(number, b"", refused(NOT_STARTED())))
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


class StartupBackend:
    """Implementation of :class:`registry.api.backend.Backend` for a host without readers while it starts."""

    mismatch: Mismatch | None = None

    def __init__(self, progress: StartProgress) -> None:
        self._progress = progress
        self._node: asyncio.Future[Backend] = asyncio.get_running_loop().create_future()
        self._waiting = 0

    def swap(self, backend: Backend) -> None:
        """Pass waiting commands on to the node's own backend."""
        self._node.set_result(backend)

    def view(self) -> NoReturn:
        """Raise ``NOT_STARTED``, because there are no rows yet."""
        raise NOT_STARTED()

    async def submit(self, command: Command, origin: Origin = NO_ORIGIN) -> Outcome:
        """Wait for the node and submit the command to it.

        Raises ``NOT_STARTED`` after :data:`HOLD_S`, or if :data:`HELD_MAX` commands are waiting already.
        """
        if self._waiting >= HELD_MAX:
            raise NOT_STARTED()
        self._waiting += 1
        try:
            backend = await asyncio.wait_for(asyncio.shield(self._node), HOLD_S)
        except TimeoutError:
            raise NOT_STARTED() from None
        finally:
            self._waiting -= 1
        return await backend.submit(command, origin)

    async def confirm(self) -> bool:
        """Return false."""
        return False

    def applied(self) -> int:
        """Return 0."""
        return 0

    async def status(self) -> NodeStatus:
        """Return the progress of the start."""
        return self._progress.status()

    async def cluster(self) -> NoReturn:
        """Raise ``NOT_STARTED``."""
        raise NOT_STARTED()

    async def past(self, moment: Moment, owners: list[bytes], asker: str = "") -> NoReturn:
        """Raise ``NOT_STARTED``."""
        raise NOT_STARTED()

    async def snapshots(self) -> NoReturn:
        """Raise ``NOT_STARTED``."""
        raise NOT_STARTED()

    async def events(self, position: int, wait_s: float) -> NoReturn:
        """Raise ``NOT_STARTED``."""
        raise NOT_STARTED()

    async def delete_snapshot(self, id: str) -> NoReturn:
        """Raise ``NOT_STARTED``."""
        raise NOT_STARTED()


async def _no_metrics() -> NoReturn:
    raise NOT_STARTED()


def unless_ended(loop: asyncio.AbstractEventLoop, call: Callable[[], Any]) -> None:
    """Call ``call`` on an event loop, from any thread, unless the loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
