"""The node of one host: assembles log, store, follower, writer, snapshots and, in a cluster, the election.

Threads: the caller's event loop, and one each for following, writing, maintenance, snapshots, the past,
webhooks and the search; in a cluster also one for the election, one that queries the log's end, one for all
connections to Kafka, and, while the log is unavailable, one that reopens it. Their steps are plain functions.
:meth:`Node.start` creates the threads, except the last two, which belong to the log. An unrecoverable failure
ends the process: the parent restarts it, and a start checks everything.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from election.contract import Identity
from registry.base.config.settings import Settings
from registry.base.observe.metrics import Processes, Pulse
from registry.domain.commands import PrimaryQuery, RequestSnapshot
from registry.domain.log_format.records import AppendedBatch, Record
from registry.domain.pending_command import PendingCommand, Submit
from registry.domain.policies import NO_POLICIES, Policies
from registry.domain.queries.sensitive_metadata import NOT_CONFIGURED, has_encoded
from registry.host import stop_budget
from registry.host.tracing.contract import NO_TRACING, Tracing
from registry.host.wiring import certificate_gauges, defaults, destinations, file_checks, search_index
from registry.log.contract import Log
from registry.log.embedded.log import EmbeddedLog, now_ms
from registry.search.filler import IndexFiller
from registry.store.lmdb import Store
from registry.workers.pool import Pool
from snapshots.catalogue.open import manifest_keys

from .asks import Asking
from .audit import AuditTails
from .candidate import Candidate
from .feed import NodeFeed
from .leadership.claim import Barrier
from .maintenance import Maintenance
from .past.reconstruction import PastReader, SnapshotRows
from .past.thread import PastThread
from .replication.dedup import DedupCache
from .replication.follower import Follower
from .replication.loop import FollowLoop
from .replication.read_barrier import ReadBarrier, Staleness
from .replication.reconnecting_log import ReconnectingLog
from .snapshots.coordinator import SnapshotCoordinator
from .startup.progress import StartProgress
from .threads import Callbacks, Threads
from .webhooks.sender import WebhookSender
from .write.loop import LoneAppends, LoneWrites
from .write.queue import Workers
from .write.writer import Writer, Writing

if TYPE_CHECKING:
    from registry.encoder.ciphers import NodeCipher

_log = logging.getLogger(__name__)


class Node:
    """The node of one host; created, started and stopped by the thread of the event loop."""

    def __init__(
        self,
        settings: Settings,
        opened: tuple[Log, Store],
        *,
        failed: Callable[[str], None],
        cipher: NodeCipher | None = None,
        policies: Callable[[], Policies] = lambda: NO_POLICIES,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        """Assemble the node from the ``opened`` log and store.

        ``failed`` is called, from any thread, with the reason why the node must end. ``cipher`` encrypts
        sensitive metadata. ``policies`` returns those in force.
        """
        self._threads = Threads(failed)
        self._callbacks = callbacks = Callbacks()
        self.log, self.store = opened
        self.cipher = cipher
        # True for a standalone node: no other node reads or writes the log, so there is no election.
        self.standalone = isinstance(self.log, EmbeddedLog)
        staleness = None if self.standalone else Staleness(
            self.store, retention_ms=lambda: self.log.tombstone_retention_ms,
            margin_ms=int(settings.end_age_margin_s * 1000), now=now_ms,
        )  # fmt: skip
        # Without fencing, an append whose outcome is unknown may still succeed at any time, so a missing key
        # does not prove that a command was not done.
        unfenced = self.standalone or settings.fencing == "off"
        self._memory = None if unfenced else DedupCache(self.store.applied)
        self.feed = NodeFeed(self.log, self.store.applied, soon=callbacks.soon)
        self.follower = Follower(
            self.log, self.store, history=settings.history,
            barrier=self._barrier_applied, memory=self._memory,
            seen=_nothing_seen if cipher is None else cipher.reload_if_needed, on_applied=self._on_applied,
        )  # fmt: skip
        self.following = FollowLoop(
            self.log, self.store, self.follower,
            caught_up=self._caught_up, advanced=self._on_advance, stuck=self._on_stuck, staleness=staleness,
            lost=self._on_lost, feed_is_read=self.feed.is_read,
        )  # fmt: skip
        self.read_barrier = ReadBarrier(
            self.log, self.store, ask_s=settings.confirm_timeout_s,
            nudge=self.following.nudge, expect=self.following.expect_up_to, on_reply=self.following.on_reply,
            stuck=lambda: bool(self.following.store_error),
        )  # fmt: skip
        self.certificates = certificate_gauges(settings)
        self.files = file_checks(settings)
        # Workers that parse and compare large schemas for the writer.
        self.pool = Pool(settings.compatibility_budget_s)
        self.writer = Writer(
            self.log,
            self.store,
            Writing(
                defaults(settings), settings.queue_max, settings.queue_bytes_max,
                timeout_s=max(0.5, settings.request_timeout_s - 1.0),
                record_principals=settings.record_principals,
            ),
            follow=self.following.reach,
            deliver=callbacks.deliver,
            now=now_ms,
            clock=time.monotonic,
            workers=Workers(self.pool, callbacks.later),
            call_later=callbacks.later,
            memory=self._memory,
            cipher=cipher,
            policies=policies,
            tracing=tracing,
        )  # fmt: skip
        self.candidate = Candidate(
            settings, self.log, self.store,
            follower=self.follower, following=self.following, writer=self.writer, standalone=self.standalone,
            claimed=self._on_claim, role_changed=callbacks.role_changed,
        )  # fmt: skip
        self._submit: Submit = self.writer.submit
        if isinstance(self.log, EmbeddedLog):
            log = self.log
            self._submit = LoneWrites(
                self.writer, self.candidate.write_loop.write_in_place,
                is_busy=lambda: log.is_being_written or self.store.is_being_written,
                guarded=self._threads.run_guarded,
            ).submit  # fmt: skip
        elif isinstance(self.log, ReconnectingLog):
            self._submit = LoneAppends(
                self.writer, self.candidate.write_loop, self.log,
                is_busy=self._is_busy,
                guarded=self._threads.run_guarded, soon=callbacks.soon,
            ).submit  # fmt: skip
        self.maintenance = Maintenance(self.log, self.store, self.following, settings, self.files)
        self.snapshots = SnapshotCoordinator(
            settings, self.store, self.log.identity,
            situation=self, submit=self.writer.submit, soon=callbacks.soon, now=now_ms,
        )  # fmt: skip
        self.when_role_changes(self.snapshots.wake)
        self.webhooks = WebhookSender(
            settings, self.log, self.store, identity=self.log.identity, destinations=destinations(settings),
            situation=self, submit=self.writer.submit, soon=callbacks.soon, now=now_ms,
        )  # fmt: skip
        self.when_started(self.webhooks.wake)
        self.when_role_changes(self.webhooks.wake)
        bases = SnapshotRows(self.log, self.snapshots.entries.ours, lambda: manifest_keys(settings))
        self.past = PastThread(PastReader(self.log, self.store, bases, now_ms), callbacks.soon)
        self.asks = Asking(settings.data, settings.asks_keep_days, self.store.view)
        self.audit = AuditTails(settings.audit_log, lambda: self.identity)
        index = search_index(settings, writable=True)
        self.search = None if index is None else IndexFiller(
            self.log, self.store, index, started=lambda: self.is_started, settings=settings
        )  # fmt: skip
        self.processes = Processes()
        # Lag of the event loop that serves readers and peers.
        self.pulse = Pulse()
        # Progress of the start, which knows whether the rows came from a snapshot.
        self.starting: StartProgress | None = None
        # Number of nodes that watch this one; set where peers are served.
        self.watchers: Callable[[], int] = lambda: 0
        # Returns why the primary cannot be reached; set where peers are served.
        self.primary_unreachable: Callable[[], str] = str
        # Returns the URL of another node that reaches the log while this one does not; set by ClusterView.
        self.node_with_log: Callable[[], str] = str
        # Returns why other nodes are refused, or the primary is not reached; set where peers are served.
        self.peer_problems: Callable[[], list[str]] = list
        # Number of restarts by the parent, by kind of process.
        self.restarts: dict[str, int] = {}

    @property
    def is_started(self) -> bool:
        """True once the log was read up to its end; a standalone node's writer is open then."""
        return self.candidate.is_started

    @property
    def identity(self) -> Identity:
        """Return the identity of this node in the cluster; includes the peer endpoint after start()."""
        return self.candidate.identity

    @property
    def role(self) -> str:
        """Return ``primary``, ``secondary``, or ``following`` while no primary is known."""
        return self.candidate.role_holder.role.name

    @property
    def primary(self) -> Identity | None:
        """Return the identity of the primary, which may be this node; ``None`` while none is known."""
        return self.candidate.primary

    @property
    def readable(self) -> bool:
        """True if the rows may be read: the node has started, or the log is unavailable in a cluster."""
        if self.is_started or self.standalone:
            return self.is_started
        return self.store.is_complete and bool(self.following.last_error)

    def known_nodes(self) -> int:
        """Return the number of nodes that this one knows: all on the primary, else itself and the primary."""
        if self.role == "primary":
            return 1 + self.watchers()
        return 1 if self.primary is None else 2

    def applied(self) -> int:
        """Return the offset up to which, exclusively, the store holds the log."""
        return self.store.applied

    def when_started(self, call: Callable[[], None]) -> None:
        """Call ``call`` on the event loop when the node has started; immediately if it already has."""
        if self.is_started:
            call()
        else:
            self._callbacks.add_started(call)

    def when_role_changes(self, call: Callable[[], None]) -> None:
        """Call ``call`` on the event loop whenever :attr:`role` or :attr:`primary` may have changed."""
        self._callbacks.add_role(call)

    def start(self, peer: str = "") -> None:
        """Start the threads.

        ``peer`` is the ``HOST:PORT`` at which other nodes reach this node's peer endpoint.
        """
        self.candidate.advertise(peer)
        self.pulse.start()
        self.asks.start()
        self._threads.start("follow", self.following.run)
        self._threads.start("write", self.candidate.write_loop.run)
        self._threads.start("maintenance", self.maintenance.run)
        self._threads.start("snapshots", self.snapshots.run)
        self._threads.start("webhooks", self.webhooks.run)
        self._threads.start("past", self.past.run)
        if self.search is not None:
            self._threads.start("search", self.search.run)
        if not self.standalone:
            self._threads.start("election", self.candidate.election_thread.run)
            self._threads.start("confirm", self.read_barrier.run)

    def resign(self) -> None:
        """Give up the primary role because this node will stop; it still reports who is primary. Blocks."""
        self.candidate.resign()

    def stop(self) -> None:
        """Decide waiting commands, stop the threads, then close log and store. Blocks."""
        self.candidate.stop()
        self.snapshots.stop()
        self.webhooks.stop()
        self._threads.join(("write",), stop_budget.WRITER_S)
        self.pool.close()
        for part in (self.following, self.read_barrier, self.maintenance, self.past):
            part.stop()
        if self.search is not None:
            self.search.stop()
        if not self.standalone:
            self.log.close()  # Interrupts threads that still wait for the log.
        names = ("write", "follow", "maintenance", "confirm", "snapshots", "webhooks", "past", "search")
        self._threads.join(names, stop_budget.THREADS_S)
        self.feed.close()
        self.asks.close()
        self.follower.close()
        self.store.close()
        self.log.close()

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
        elif isinstance(pending.command, PrimaryQuery):
            self.webhooks.request(pending)
        else:
            self._submit(pending)

    async def reach_async(self, offset: int, timeout_s: float) -> bool:
        """Wait until the store holds what the primary has appended for this node; false on a timeout."""
        return await self.read_barrier.reach(offset, timeout_s, own=True)

    async def confirm_at(self, offset: int, timeout_s: float) -> bool:
        """Wait until the store holds the log up to ``offset``; return false on a timeout."""
        return await self.read_barrier.reach(offset, timeout_s)

    @property
    def log_identity(self) -> str:
        """The identity of the log."""
        return self.log.identity

    def last_append(self, end: int) -> AppendedBatch | None:
        """Return the writer's last append if it ends at ``end`` and is small."""
        return self.log.last_append(end) if isinstance(self.log, ReconnectingLog) else None

    def take_append(self, log: str, batch: AppendedBatch) -> None:
        """Apply what the primary has appended to a log, if that is this node's and it comes next."""
        own = self.log
        if isinstance(own, ReconnectingLog) and log == own.identity and own.offer(batch):
            self.following.step_at_hand(is_busy=self._is_busy())

    def expect_records(self) -> None:
        """Say that the primary is about to append records for which this node will wait."""
        self.following.expect()

    async def confirm(self, timeout_s: float) -> bool:
        """Wait until the store is as new as the log was at the call; return false on failure or timeout.

        The store of a started standalone node always is, because a write is answered only after its rows are
        committed.
        """
        return self.is_started if self.standalone else await self.read_barrier.confirm(timeout_s)

    async def evict(self, identity: Identity) -> bool:
        """Evict a primary that the caller believes to be dead; return true if that was done."""
        return await self.candidate.evict(identity)

    def reader_ended(self, number: int) -> None:
        """Release the resources of a reader that has ended, possibly with an open view."""
        self.processes.note_end(number)
        self.maintenance.readers_gone()

    def encoder_error(self) -> str:
        """Return why sensitive metadata cannot be read or written; empty if it can."""
        if self.cipher is not None:
            return self.cipher.last_error
        with self.store.view() as view:
            return NOT_CONFIGURED if has_encoded(view) else ""

    def _is_busy(self) -> bool:
        """Return true if applying records would wait for a commit, or for the keys of sensitive metadata."""
        return self.store.is_being_written or (self.cipher is not None and self.cipher.is_blocked)

    def _barrier_applied(self, barrier: Barrier) -> None:
        self.candidate.barrier_applied(barrier)

    def _on_advance(self) -> None:
        self.read_barrier.notify_advanced()
        if self.search is not None:
            self.search.notify()

    def _on_applied(self, records: list[Record] | None, end: int) -> None:
        self.feed.add_records(records, end)
        self.webhooks.applied(records)

    def _on_stuck(self) -> None:
        self.read_barrier.stop_waiting()

    def _on_lost(self, reason: str) -> None:
        self.candidate.role_holder.depose(reason)

    def _on_claim(self) -> None:
        if self._memory is not None:
            self._memory.look_back(self.log)
        if self.cipher is not None:
            self.cipher.reload_and_rotate()

    def _caught_up(self) -> None:
        if error := self.encoder_error():
            _log.warning("%s", error)
        if self.standalone:
            self._on_claim()
        self.candidate.caught_up()
        self._callbacks.report_started()


def _nothing_seen(records: list[Record]) -> None:
    pass
