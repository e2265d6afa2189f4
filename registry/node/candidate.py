"""The node as a candidate for primary: takes part in the election, claims the log, and opens the writer."""

from __future__ import annotations

import math
import threading
from collections.abc import Awaitable, Callable

from election.contract import Election, Identity
from registry.base.config.settings import Settings
from registry.base.observe.metrics import Pauses
from registry.host import stop_budget
from registry.log.contract import Log
from registry.store.lmdb import Store

from .leadership.claim import Barrier, IdCounter, claim_log, newest_barrier
from .leadership.election_thread import ElectionThread
from .leadership.identity import own_identity
from .leadership.role import Role, RoleHolder, Stage
from .replication.follower import Follower
from .replication.loop import FollowLoop
from .write.loop import RENEW_S, WriteLoop
from .write.writer import Writer


class Candidate:
    """The role of a node, and the threads of the election and of the writer, which change it.

    ``claimed`` is called after each claim, before the writer is opened; ``role_changed`` after each change of
    the role. A ``standalone`` node is primary
    without an election as soon as it has read its log.
    """

    def __init__(
        self,
        settings: Settings,
        log: Log,
        store: Store,
        *,
        follower: Follower,
        following: FollowLoop,
        writer: Writer,
        standalone: bool,
        claimed: Callable[[], None],
        role_changed: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._log = log
        self._store = store
        self._follower = follower
        self._following = following
        self._writer = writer
        self._standalone = standalone
        self._claimed = claimed
        # The identity of this node in the cluster; includes the peer endpoint after advertise().
        self.identity = own_identity(settings)
        # Called, on another event loop, before a node is elected; returns "" or why it cannot be reached.
        self.reachable: Callable[[Identity], Awaitable[str]] = _taken_as_reachable
        # Pauses between two heartbeats that Kafka's group coordinator has confirmed.
        self.heartbeats = Pauses()
        self.role_holder = RoleHolder(switched=self._switch_role, changed=role_changed)
        with store.view() as view:
            newest = newest_barrier(view)
        if newest is not None:
            self.barrier_applied(newest)
        static = settings.election == "static"
        self.election_thread = ElectionThread(
            self._make_election,
            self.role_holder.on_event,
            last_error=self._cannot_write,
            # No other node can take over from a primary that is configured statically.
            own=lambda: self._is_own_fault() and not static,
            reading=lambda: not (self.is_started or static),
            timeout_s=math.inf if static else settings.session_timeout_s,
        )
        self._id_counter = IdCounter(store.view, self.election_thread.advance, self.election_thread.lower)
        self._ready_to_claim = threading.Event()
        self.write_loop = WriteLoop(
            writer, self.role_holder,
            started=self._ready_to_claim, confirm=self.election_thread.confirm,
            claim=self._claim, fencing=lambda: log.fencing,
            renew_s=None if standalone else RENEW_S,
            wrote=self._id_counter.wrote if settings.election == "zookeeper" else _nothing,
        )  # fmt: skip

    @property
    def is_started(self) -> bool:
        """True once the log was read up to its end; a standalone node's writer is open then."""
        return self._following.started and self._ready_to_claim.is_set()

    @property
    def primary(self) -> Identity | None:
        """Return the identity of the primary, which may be this node; ``None`` while none is known."""
        role = self.role_holder.role
        return self.identity if role.stage is Stage.PRIMARY else role.other

    def advertise(self, peer: str) -> None:
        """Add the ``HOST:PORT`` of this node's peer endpoint to its identity."""
        self.identity = own_identity(self._settings, peer)

    def caught_up(self) -> None:
        """Record that the log was read up to its end, so that this node may become primary."""
        if self._standalone:
            self.role_holder.standalone()
        self._ready_to_claim.set()

    def barrier_applied(self, barrier: Barrier) -> None:
        """Record that a barrier was applied; a newer one than its own deposes a primary."""
        self.role_holder.apply_barrier(barrier.offset)

    async def evict(self, identity: Identity) -> bool:
        """Evict a primary that the caller believes to be dead; return true if that was done."""
        return not self._standalone and await self.election_thread.evict(identity)

    def resign(self) -> None:
        """Give up the primary role because this node will stop; it still reports who is primary. Blocks."""
        if self._standalone or self.role_holder.role.leaving:
            return
        self.role_holder.leave()
        self.election_thread.resign(stop_budget.RESIGN_S)

    def stop(self) -> None:
        """Leave the election, and stop the writer once the commands that wait are decided. Blocks."""
        self.resign()
        self.election_thread.close(stop_budget.ELECTION_S)
        self.write_loop.stop()

    def _make_election(self) -> Election:
        # Imported here: a standalone node does not need Kafka's client.
        from .leadership.identity import election_from_settings  # noqa: PLC0415

        return election_from_settings(
            self._settings, self.identity, self.reachable, alive=self.heartbeats.beat
        )

    def _cannot_write(self) -> str:
        """Return why this node could not write if it were primary; empty if it could."""
        return self._following.last_error or self.write_loop.last_error or self.cannot_lead

    def _is_own_fault(self) -> bool:
        """Return true if another node can most likely write."""
        return bool(self._following.store_error or self.write_loop.denial) or self._log.fencing.own

    @property
    def cannot_lead(self) -> str:
        """The reason why this node may not claim the log, elected or not; empty if it may."""
        return self.write_loop.denial or self._log.fencing.unsafe

    def _claim(self) -> int:
        epoch = claim_log(
            self._log,
            self._store,
            node=self.identity.node,
            url=self.identity.url,
            follow=self._following.reach,
            watching=self._follower.watching,
        )
        self._id_counter.read()
        self._claimed()
        return epoch

    def _switch_role(self, role: Role) -> None:
        """Open or close the writer, because the node has become primary or ceased to be."""
        primary = role.stage is Stage.PRIMARY
        if primary:
            self._writer.open(None if self._standalone else role.epoch, floor=self._id_counter.floor)
        else:
            self._writer.shut()
        self._following.lazy = primary or self._standalone
        self._following.nudge()


def _nothing() -> None:
    pass


async def _taken_as_reachable(identity: Identity) -> str:
    return ""
