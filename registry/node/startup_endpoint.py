"""Endpoint that answers health checks and holds writes while the node is starting.

Mostly that takes a moment. If it takes longer, readers are told so, and ``/health`` reports the progress.
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

QUICK_S = 1.0
"""What takes no longer is not spoken of."""
HOLD_S = 5.0
"""How long a write waits for the node, which then is mostly there; after that it is refused."""

# Writes of one reader that wait for the node; more are refused at once.
HELD_MAX = 1000


class StartupEndpoint:
    """Answers until there is a node; then :meth:`hand_over`."""

    def __init__(self, settings: Settings, starting: StartProgress) -> None:
        self._settings = settings
        self._server: asyncio.AbstractServer | None = None
        self.held_bytes_max = settings.queue_bytes_max
        self.starting = starting
        self.calls: set[StartupConnection] = set()
        self.serving: Serving | None = None
        """The public port, on a host without readers."""
        self.backend: StartupBackend | None = None
        """What answers there."""

    async def start(self, path: Path) -> None:
        """Listen where the node will. Raises :class:`OSError`."""
        path.unlink(missing_ok=True)  # noqa: ASYNC240 (once, before anything is served)
        self._server = await asyncio.get_running_loop().create_unix_server(
            lambda: StartupConnection(self), str(path)
        )
        if self._settings.readers == 0:
            from .serving import Serving  # noqa: PLC0415 (where there are no readers)

            self.serving = Serving(self._settings)
            self.backend = StartupBackend(self.starting)
            await self.serving.over(self.backend, metrics=_no_metrics)

    def hand_over(self, endpoint: IpcServer) -> None:
        """Have the node's endpoint, which listens by now, go on with those who are on the line."""
        self.stop()
        while self.calls:
            self.calls.pop().hand_over(endpoint)

    def stop(self) -> None:
        """Listen no more; those who are on the line stay there."""
        if self._server is not None:
            self._server.close()


class StartupConnection(Framed):
    """One reader on the line."""

    def __init__(self, early: StartupEndpoint) -> None:
        super().__init__()
        self._early = early
        self._loop = asyncio.get_running_loop()
        self._writes: dict[int, tuple[Submit, float, asyncio.TimerHandle]] = {}
        self._room = Room(HELD_MAX, early.held_bytes_max)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say at once that there is no node yet."""
        super().connection_made(transport)
        self._early.calls.add(self)
        self.tell(State(started=False, opening=True))

    def connection_lost(self, exc: Exception | None) -> None:
        """What it asked for was not begun."""
        self._early.calls.discard(self)
        for _, _, timer in self._writes.values():
            timer.cancel()

    def heard(self, message: bytes) -> None:
        """Answer what needs no node, let writes wait for it, and refuse all else."""
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
                pass  # what is reported is the whole count, and comes again

    def _refuse(self, number: int) -> None:
        said, _, _ = self._writes.pop(number)
        self._room.remove(size_of(said.request.command))
        self.tell(Decided(number, refused(NOT_STARTED())))

    def hand_over(self, endpoint: IpcServer) -> None:
        """From here on the node's own end of the line hears and answers."""
        call = endpoint.take(self)
        for submit, deadline, timer in self._writes.values():
            timer.cancel()
            request = replace(submit.request, remaining_s=deadline - self._loop.time())
            call.heard(encode(replace(submit, request=request)))


class StartupBackend:
    """See :class:`registry.api.backend.Backend`: for a host without readers, before there is a node."""

    def __init__(self, starting: StartProgress) -> None:
        self._starting = starting
        self._next: asyncio.Future[Backend] = asyncio.get_running_loop().create_future()
        self._waiting = 0

    def hand_over(self, backend: Backend) -> None:
        """Have the node's own backend go on with what waits."""
        self._next.set_result(backend)

    def view(self) -> NoReturn:
        """There are no rows yet."""
        raise NOT_STARTED()

    async def submit(self, command: Command, *, request_id: str = "", forwarded: bool = False) -> Outcome:
        """Wait for the node, and refuse where that takes long or too many wait."""
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
        """Never."""
        return False

    def applied(self) -> int:
        """Nothing."""
        return 0

    async def status(self) -> NodeStatus:
        """How far the start is."""
        return self._starting.status()

    async def snapshots(self) -> NoReturn:
        """Refused."""
        raise NOT_STARTED()

    async def delete_snapshot(self, id: str) -> NoReturn:
        """Refused."""
        raise NOT_STARTED()


async def _no_metrics() -> NoReturn:
    raise NOT_STARTED()
