"""The node of one host: assembles log, store, follower, writer, snapshots and, in a cluster, the election.

Threads: the caller's event loop, and one each for following, writing, maintenance and snapshots; in a cluster
also one for the election and one that queries the log's end. Their steps are plain functions; only
:meth:`Node.start` creates threads. An unrecoverable failure ends the process: the parent restarts it, and a
start checks everything.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from election.contract import Election, Identity
from registry.config.loading import Settings
from registry.domain.commands import Outcome, RequestSnapshot
from registry.domain.log_format.records import Record
from registry.domain.pending_command import PendingCommand
from registry.domain.queries.sensitive_metadata import NOT_CONFIGURED, has_encoded
from registry.log.contract import Log
from registry.log.embedded.log import EmbeddedLog, now_ms
from registry.observe.metrics import Processes
from registry.observe.pulse import Pauses, Pulse
from registry.store.lmdb import Store
from registry.wiring import defaults
from registry.workers.pool import Pool

from .leadership.claim import Barrier, claim_log, newest_barrier
from .leadership.election_thread import ElectionThread
from .leadership.id_counter import IdCounter
from .leadership.identity import own_identity
from .leadership.role import Role, Stage
from .leadership.role_holder import RoleHolder
from .maintenance import Maintenance
from .replication.dedup import DedupCache
from .replication.follower import Follower
from .replication.loop import FollowLoop
from .replication.read_barrier import ReadBarrier
from .replication.staleness import Staleness
from .snapshots.coordinator import SnapshotCoordinator
from .startup.progress import StartProgress
from .write.loop import RENEW_S, WriteLoop
from .write.postponed import Workers
from .write.writer import Writer, Writing

if TYPE_CHECKING:
    from registry.encoder.ciphers import NodeCipher

RESIGN_S = 1.0  # Seconds for leaving the election.
STOP_S = 1.0  # Seconds for a thread's last step.
_log = logging.getLogger(__name__)


class Node:
    """The node of one host; created, started and stopped by the thread of the event loop."""

    def __init__(
        self,
        settings: Settings,
        opened: tuple[Log, Store],
        *,
        failed: Callable[[str], None],
        refused: Callable[[str], None],
        cipher: NodeCipher | None = None,
    ) -> None:
        """Assemble the node from the ``opened`` log and store.

        ``failed`` is called, from any thread, with the reason why the node must end; ``refused`` likewise, if
        a restart would not help. ``cipher`` encrypts sensitive metadata.
        """
        self._loop = asyncio.get_running_loop()
        self._failed = failed
        self._settings = settings
        self._threads: list[threading.Thread] = []
        self._on_started: list[Callable[[], None]] = []
        self._on_role: list[Callable[[], None]] = []
        self._role_pending = False
        self.log, self.store = opened
        self.cipher = cipher
        # True for a standalone node: no other node reads or writes the log, so there is no election.
        self.standalone = isinstance(self.log, EmbeddedLog)
        # The identity of this node in the cluster; includes the peer endpoint after start().
        self.identity = own_identity(settings)
        # Called, on another event loop, before a node is elected; returns "" or why it cannot be reached.
        self.reachable: Callable[[Identity], Awaitable[str]] = _taken_as_reachable
        staleness = None if self.standalone else Staleness(
            self.store, retention_ms=lambda: self.log.tombstone_retention_ms,
            margin_ms=int(settings.end_age_margin_s * 1000), now=now_ms,
        )  # fmt: skip
        # Without fencing, an append whose outcome is unknown may still succeed at any time, so a missing key
        # does not prove that a command was not done.
        unfenced = self.standalone or settings.fencing == "off"
        self._memory = None if unfenced else DedupCache(self.store.applied)
        self.follower = Follower(
            self.log, self.store, barrier=self._barrier_applied, memory=self._memory,
            seen=_nothing_seen if cipher is None else cipher.seen,
        )  # fmt: skip
        self.following = FollowLoop(
            self.log, self.store, self.follower,
            caught_up=self._caught_up, advanced=self._advanced, stuck=self._stuck, staleness=staleness,
        )  # fmt: skip
        self.read_barrier = ReadBarrier(
            self.log, self.store, ask_s=settings.confirm_timeout_s,
            nudge=self.following.nudge, on_reply=self.following.on_reply,
            stuck=lambda: bool(self.following.store_error),
        )  # fmt: skip
        # Workers that parse and compare large schemas, for the writer and for requests served here.
        self.pool = Pool(settings.compatibility_budget_s)
        self.writer = Writer(
            self.log,
            self.store,
            Writing(
                defaults(settings), settings.queue_max, settings.queue_bytes_max,
                timeout_s=max(0.5, settings.request_timeout_s - 1.0),
            ),
            follow=self.following.reach,
            deliver=self._deliver,
            now=now_ms,
            clock=time.monotonic,
            workers=Workers(self.pool, partial(self._soon, self._loop.call_later)),
            memory=self._memory,
            cipher=cipher,
        )  # fmt: skip
        # Pauses between two heartbeats that Kafka's group coordinator has confirmed.
        self.heartbeats = Pauses()
        self.role_holder = RoleHolder(switched=self._switched, changed=self._role_changed)
        with self.store.view() as view:
            newest = newest_barrier(view)
        if newest is not None:
            self._barrier_applied(newest)
        self._election_thread = ElectionThread(
            self._make_election,
            self.role_holder.on_event,
            last_error=self._cannot_write,
            # No other node can take over from a primary that is configured statically.
            own=lambda: bool(self.following.store_error) and settings.election != "static",
            reading=lambda: not (self.started or settings.election == "static"),
            timeout_s=math.inf if settings.election == "static" else settings.session_timeout_s,
        )
        self._id_counter = IdCounter(self.store.view, self._election_thread.advance)
        self._ready_to_claim = threading.Event()
        self._write_loop = WriteLoop(
            self.writer, self.role_holder,
            started=self._ready_to_claim, confirm=self._election_thread.confirm,
            claim=self._claim, fencing=lambda: self.log.fencing,
            renew_s=None if self.standalone else RENEW_S, refused=refused,
            wrote=self._id_counter.wrote if settings.election == "zookeeper" else _nothing,
        )  # fmt: skip
        self.maintenance = Maintenance(self.log, self.store, self.following, settings)
        self.snapshots = SnapshotCoordinator(
            settings, self.store, self.log.identity,
            situation=self, submit=self.writer.submit, soon=self._soon, now=now_ms,
        )  # fmt: skip
        self.when_role_changes(self.snapshots.wake)
        self.processes = Processes()
        # Lag of the event loop that serves readers and peers.
        self.pulse = Pulse()
        # Progress of the start, which tells whether the rows came from a snapshot.
        self.starting: StartProgress | None = None
        # Number of restarts by the parent, by kind of process.
        self.restarts: dict[str, int] = {}

    @property
    def started(self) -> bool:
        """True once the log was read up to its end; a standalone node's writer is open then."""
        return self.following.started and self._ready_to_claim.is_set()

    @property
    def role(self) -> str:
        """Return ``primary``, ``secondary``, or ``following`` while no primary is known."""
        return self.role_holder.role.name

    @property
    def primary(self) -> Identity | None:
        """Return the identity of the primary, which may be this node; ``None`` while none is known."""
        role = self.role_holder.role
        return self.identity if role.stage is Stage.PRIMARY else role.other

    @property
    def readable(self) -> bool:
        """True if the rows may be read: the node has started, or the log is unavailable in a cluster."""
        return self.started or (not self.standalone and bool(self.following.last_error))

    def applied(self) -> int:
        """Return the offset up to which, exclusively, the store holds the log."""
        return self.store.applied

    def when_started(self, call: Callable[[], None]) -> None:
        """Call ``call`` on the event loop when the node has started; immediately if it already has."""
        if self.started:
            call()
        else:
            self._on_started.append(call)

    def when_role_changes(self, call: Callable[[], None]) -> None:
        """Call ``call`` on the event loop whenever :attr:`role` or :attr:`primary` may have changed."""
        self._on_role.append(call)

    def start(self, peer: str = "") -> None:
        """Start the threads.

        ``peer`` is the ``HOST:PORT`` at which other nodes reach this node's peer endpoint.
        """
        self.identity = own_identity(self._settings, peer)
        self.pulse.start()
        runs: list[tuple[str, Callable[[], None]]] = [
            ("follow", self.following.run),
            ("write", self._write_loop.run),
            ("maintenance", self.maintenance.run),
            ("snapshots", self.snapshots.run),
        ]
        if not self.standalone:
            runs += [("election", self._election_thread.run), ("confirm", self.read_barrier.run)]
        for name, run in runs:
            thread = threading.Thread(target=self._guarded, args=(name, run), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def resign(self) -> None:
        """Give up the primary role because this node will stop; it still reports who is primary. Blocks."""
        if self.standalone or self.role_holder.role.leaving:
            return
        self.role_holder.left()
        self._election_thread.resign(RESIGN_S)

    def stop(self) -> None:
        """Decide waiting commands, stop the threads, then close log and store. Blocks."""
        self.resign()
        self._election_thread.close(RESIGN_S / 2)
        self._write_loop.stop()
        self.snapshots.stop()
        self._join(("write",), STOP_S)
        self.pool.close()
        for part in (self.following, self.read_barrier, self.maintenance):
            part.stop()
        if not self.standalone:
            self.log.close()  # Interrupts threads that still wait for the log.
        self._join(("write", "follow", "maintenance", "confirm", "snapshots"), STOP_S)
        self.follower.close()
        self.store.close()
        self.log.close()

    def _join(self, names: Iterable[str], timeout_s: float) -> None:
        """Wait until the named threads have ended, for at most ``timeout_s`` in total."""
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.name in names:
                thread.join(max(0.0, until - time.monotonic()))

    @property
    def repeats(self) -> bool:
        """True if a command that is resent with its idempotency key is not done twice."""
        return self._memory is not None

    def submit(self, pending: PendingCommand) -> None:
        """Queue a command for this node's writer.

        The reply is :class:`NotPrimary` if this node is not primary, or ceases to be while the command waits.
        """
        if isinstance(pending.command, RequestSnapshot):
            self.snapshots.request(pending)
        else:
            self.writer.submit(pending)

    async def reach_async(self, offset: int, timeout_s: float) -> bool:
        """Wait until the store holds the log up to ``offset``; return false on a timeout."""
        return await self.read_barrier.reach(offset, timeout_s)

    async def confirm(self, timeout_s: float) -> bool:
        """Wait until the store is as new as the log was at the call; return false on failure or timeout.

        The store of a started standalone node always is, because a write is answered only after its rows are
        committed.
        """
        return self.started if self.standalone else await self.read_barrier.confirm(timeout_s)

    async def evict(self, identity: Identity) -> bool:
        """Evict a primary that the caller believes to be dead; return true if that was done."""
        return not self.standalone and await self._election_thread.evict(identity)

    def reader_ended(self, number: int) -> None:
        """Release the resources of a reader that has ended, possibly with an open view."""
        self.processes.ended(number)
        self.maintenance.readers_gone()

    def errors(self) -> list[str]:
        """Return why the store makes no progress or the embedded log rejects writes; empty if all is well."""
        own = self.log.last_error if isinstance(self.log, EmbeddedLog) else ""
        return [each for each in (self.following.last_error, own) if each]

    def lags_s(self) -> dict[str, float]:
        """Return the recent lag of each event loop in seconds; all readers count as one."""
        lags = {"node": self.pulse.lag_s(), "readers": self.processes.total().lag_s}
        return lags if self.standalone else {**lags, "election": self._election_thread.pulse.lag_s()}

    def encoder_error(self) -> str:
        """Return why sensitive metadata cannot be read or written; empty if it can."""
        if self.cipher is not None:
            return self.cipher.last_error
        with self.store.view() as view:
            return NOT_CONFIGURED if has_encoded(view) else ""

    def _make_election(self) -> Election:
        from .leadership.elections import made_by_settings  # noqa: PLC0415 (Kafka's client is not for a standalone node)

        return made_by_settings(self._settings, self.identity, self.reachable, alive=self.heartbeats.beat)

    def _cannot_write(self) -> str:
        """Return why this node could not write if it were primary; empty if it could."""
        return self.following.last_error or self._write_loop.last_error or self.log.fencing.unsafe

    def _claim(self) -> int:
        epoch = claim_log(
            self.log,
            self.store,
            node=self.identity.node,
            url=self.identity.url,
            follow=self.following.reach,
            watching=self.follower.watching,
        )
        if self._memory is not None:
            self._memory.look_back(self.log)
        self._id_counter.claimed()
        if self.cipher is not None:
            self.cipher.claimed()
        return epoch

    def _switched(self, role: Role) -> None:
        """Open or close the writer, because the node has become primary or ceased to be."""
        primary = role.stage is Stage.PRIMARY
        if primary:
            self.writer.open(None if self.standalone else role.epoch, floor=self._id_counter.floor)
        else:
            self.writer.shut()
        self.following.lazy = primary or self.standalone
        self.following.nudge()

    def _role_changed(self) -> None:
        if not self._role_pending:
            self._role_pending = True
            self._soon(self._notify_role)

    def _notify_role(self) -> None:
        self._role_pending = False
        for call in self._on_role:
            call()

    def _barrier_applied(self, barrier: Barrier) -> None:
        self.role_holder.applied(barrier.offset)

    def _advanced(self) -> None:
        self.read_barrier.advanced()

    def _stuck(self) -> None:
        self.read_barrier.stop_waiting()

    def _deliver(self, replies: Sequence[tuple[PendingCommand, Outcome]]) -> None:
        self._soon(_reply_all, replies)

    def _caught_up(self) -> None:
        if error := self.encoder_error():
            _log.warning("%s", error)
        if self.standalone:
            if self.cipher is not None:
                self.cipher.claimed()
            self.role_holder.standalone()
        self._ready_to_claim.set()
        self._soon(self._notify_started)

    def _notify_started(self) -> None:
        calls, self._on_started = self._on_started, []
        for call in calls:
            call()

    def _soon(self, call: Callable[..., object], *args: Any) -> None:
        with suppress(RuntimeError):  # The loop is closed, so nothing waits for the call.
            self._loop.call_soon_threadsafe(call, *args)

    def _guarded(self, name: str, run: Callable[[], Any]) -> None:
        try:
            run()
        except Exception as error:
            _log.exception("the thread %s failed", name)
            self._failed(str(error) or repr(error))


def _reply_all(replies: Sequence[tuple[PendingCommand, Outcome]]) -> None:
    for pending, outcome in replies:
        pending.reply(outcome)


def _nothing() -> None:
    pass


def _nothing_seen(records: list[Record]) -> None:
    pass


async def _taken_as_reachable(identity: Identity) -> str:
    return ""
