"""A secondary's client of the primary: batches of commands over one connection.

Commands that arrive while batches are in flight form the next batch. So a single command is sent at once, and
many travel together.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from election.contract import Identity
from registry.domain.admission import is_large
from registry.domain.commands import (
    Deferred,
    NotPrimary,
    Outcome,
    PutConfig,
    Unknown,
    UsageCommand,
    refusal,
)
from registry.domain.errors import UNAVAILABLE, outcome_unknown
from registry.domain.log_format.records import AppendedBatch
from registry.domain.log_format.subject_values import USED_LEVELS
from registry.domain.pending_command import PendingCommand

from .authentication import Signings
from .http2_connection import NotSent
from .node_port import Batch, NodePort, encode, outcome_of, outcomes_of
from .peer_client import Doubtful, NotAPeer, Peer, PrimaryConnection

if TYPE_CHECKING:
    from registry.security.tls.contexts import PeerTls

# Batches in flight at the same time. More of them would be smaller and cost more.
UNDER_WAY_MAX = 2
# The same for large commands. They have their own batches, because a batch is answered as a whole.
LARGE_UNDER_WAY_MAX = 1
BATCH_MAX = 500
BATCH_BYTES_MAX = 8 << 20
MARGIN_S = 0.25
_NO_CONDITIONS = "The primary is of an earlier release and would ignore If-Match; nothing was written"
_NO_CENSUS = "The primary is of an earlier release, which takes no census; nothing was written"
_log = logging.getLogger(__name__)


class _Upload:
    """A batch under way."""

    def __init__(self, commands: list[PendingCommand], on_sent: Callable[[], None]) -> None:
        self.commands = commands
        self._on_sent = on_sent
        # True if the primary may have all of it.
        self.sent = False

    def on_sent(self) -> None:
        """Note that the last byte was sent."""
        self.sent = True
        self._on_sent()


class _Lane:
    """Commands that go together, and the batches of them that are under way."""

    def __init__(self, batches_max: float, commands_max: int) -> None:
        """``commands_max``: of one batch."""
        self.batches_max = batches_max
        self.commands_max = commands_max
        self.waiting: deque[PendingCommand] = deque()
        self.under_way: dict[asyncio.Task[None], _Upload] = {}

    def withdraw(self, pending: PendingCommand) -> bool:
        """Return true if a command was not sent to its end; the primary then never gets it.

        The other commands of its batch get :class:`NotPrimary`, to be sent again.
        """
        if pending in self.waiting:
            self.waiting.remove(pending)
            return True
        for task, upload in self.under_way.items():
            if pending in upload.commands:
                if not upload.sent:
                    task.cancel()
                    _reply_all(upload.commands, NotPrimary())
                return not upload.sent
        return False


class PrimaryClient:
    """Connected to the primary ``identity`` from :meth:`start` to :meth:`retire`.

    ``node_port`` learns of records that the primary is about to append, or sends with an outcome.
    """

    def __init__(
        self,
        identity: Identity,
        signings: Signings,
        tls: PeerTls | None,
        *,
        node: str,
        node_port: NodePort,
    ) -> None:
        self.identity = identity
        self._node = node
        self._node_port = node_port
        # True if the last outcome came with its records, so that they need not be fetched.
        self._gets_records = False
        self._loop = asyncio.get_running_loop()
        self._connection = PrimaryConnection(
            identity, signings, tls, connected=self._plan, refused=node_port.evict
        )
        self._small = _Lane(UNDER_WAY_MAX, BATCH_MAX)
        self._large = _Lane(LARGE_UNDER_WAY_MAX, BATCH_MAX)
        self._long = _Lane(math.inf, 1)
        self._lanes = (self._long, self._small, self._large)
        self._sending = False
        self._retired = False
        # The log's end, as the primary last reported it.
        self.end = 0

    def start(self) -> None:
        """Connect, and reconnect until :meth:`retire`."""
        self._connection.start()

    @property
    def peer(self) -> Peer | None:
        """The primary while it is connected."""
        return self._connection.peer

    @property
    def last_error(self) -> str:
        """Return why there is no connection; empty while there is one."""
        return self._connection.last_error

    async def retire(self, grace_s: float) -> None:
        """Fail commands that were not sent, wait ``grace_s`` for answers, then close the connection."""
        self._retired = True
        under_way: set[asyncio.Task[None]] = set()
        for lane in self._lanes:
            _reply_all(lane.waiting, NotPrimary())
            lane.waiting.clear()
            under_way.update(lane.under_way)
        if under_way:
            await asyncio.wait(under_way, timeout=grace_s)
        self._connection.close()

    async def ask(self, pending: PendingCommand) -> Outcome:
        """Send a command and return the primary's outcome; :class:`NotPrimary` if it was not sent to its end.

        A command whose outcome does not arrive, in time or at all, is :class:`Unknown`. One in doubt that is
        not idempotent is sent only to a primary that honors idempotency keys. ``pending.repeats`` is set to
        what holds for the connection that the command was sent over.
        """
        outcome = await self._ask_once(pending)
        if isinstance(outcome, Deferred):
            # It takes so long that no other command should share its batch.
            pending.deferrable = False
            outcome = await self._ask_once(pending)
        return outcome

    async def _ask_once(self, pending: PendingCommand) -> Outcome:
        lane = self._lane_of(pending)

        def send(pending: PendingCommand) -> None:
            lane.waiting.append(pending)
            self._plan()

        if self._retired:
            return NotPrimary()
        try:
            async with asyncio.timeout_at(pending.deadline):
                return await outcome_of(send, pending)
        except TimeoutError:
            if lane.withdraw(pending):
                return NotPrimary()
            return Unknown(outcome_unknown("The primary did not answer in time"), repeats=pending.repeats)

    def _lane_of(self, pending: PendingCommand) -> _Lane:
        if not pending.deferrable:
            return self._long
        return self._large if is_large(pending.size) else self._small

    def _plan(self) -> None:
        """Send at the end of this event-loop iteration, so that its commands go together."""
        if not self._sending and any(lane.waiting for lane in self._lanes):
            self._sending = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._sending = False
        for lane in self._lanes:
            while lane.waiting and len(lane.under_way) < lane.batches_max:
                if self._connection.peer is None:
                    return
                self._begin(self._connection.peer, _Upload(self._take(lane), self._on_sent), lane)

    def _begin(self, peer: Peer, upload: _Upload, lane: _Lane) -> None:
        def on_exchanged(task: asyncio.Task[None]) -> None:
            del lane.under_way[task]
            self._plan()

        task = self._loop.create_task(self._exchange(peer, upload))
        lane.under_way[task] = upload
        task.add_done_callback(on_exchanged)

    def _on_sent(self) -> None:
        if not self._gets_records:
            self._node_port.expect_records()

    def _take(self, lane: _Lane) -> list[PendingCommand]:
        taken: list[PendingCommand] = []
        size = 0
        while lane.waiting and len(taken) < lane.commands_max and size < BATCH_BYTES_MAX:
            taken.append(lane.waiting.popleft())
            size += taken[-1].size
        return taken

    async def _exchange(self, peer: Peer, upload: _Upload) -> None:
        upload.commands = commands = _select_suited(peer, upload.commands)
        if not commands:
            return
        now = self._loop.time()
        requests = [
            msgspec.structs.replace(each.request, remaining_s=_time_for_primary(each.deadline - now))
            for each in commands
        ]
        try:
            batch = encode(Batch(requests, self._node, deferrable=commands[0].deferrable))
            answer = await peer.commands(batch, upload.on_sent, large=is_large(commands[0].size))
            reply = outcomes_of(answer, len(commands))
            outcomes = reply.outcomes
            self.end = max(self.end, reply.end)
            self._gets_records = bool(reply.records)
            if reply.records:
                self._node_port.take_append(reply.log, AppendedBatch(reply.records, reply.epoch))
        except NotSent:
            peer.abort()  # It accepts no more, so the next attempt needs another connection.
            outcomes = [NotPrimary()] * len(commands)
        except NotAPeer as error:
            _log.warning("the primary at %s rejected a batch: %s", self.identity.peer, error)
            peer.abort()
            lost = Unknown(
                outcome_unknown("The primary's answer cannot be trusted"),
                repeats=peer.status.repeats,
            )
            outcomes = [lost if isinstance(error, Doubtful) else NotPrimary()] * len(commands)
        except (ConnectionError, msgspec.DecodeError):
            lost = Unknown(
                outcome_unknown("The connection to the primary was lost"), repeats=peer.status.repeats
            )
            outcomes = [lost] * len(commands)
        for pending, outcome in zip(commands, outcomes, strict=True):
            pending.reply(outcome)


def _reply_all(commands: Iterable[PendingCommand], outcome: Outcome) -> None:
    for pending in commands:
        pending.reply(outcome)


def _select_suited(peer: Peer, commands: list[PendingCommand]) -> list[PendingCommand]:
    """Return what ``peer`` can be sent, and answer the rest.

    Nodes of earlier releases would execute a retry twice, or a command whatever its condition, and reject a
    batch with a command that they do not know.
    """
    suited = []
    for pending in commands:
        pending.repeats = peer.status.repeats
        if pending.in_doubt and not (pending.repeats or pending.repeatable):
            pending.reply(
                Unknown(
                    outcome_unknown("The primary cannot determine whether an earlier attempt was executed")
                )
            )
        elif pending.request.condition is not None and not peer.status.conditions:
            pending.reply(refusal(UNAVAILABLE(_NO_CONDITIONS)))
        elif _needs_census(pending.command) and not peer.status.conditions:
            pending.reply(refusal(UNAVAILABLE(_NO_CENSUS)))
        else:
            suited.append(pending)
    return suited


def _needs_census(command: object) -> bool:
    """Return true for what a node of an earlier release does not know, or would refuse as a wrong level."""
    if isinstance(command, PutConfig):
        level = command.patch.get("compatibilityLevel")
        used = isinstance(level, str) and level.upper() in USED_LEVELS
        return used or bool(command.patch.get("compatibilityUsed"))
    return isinstance(command, UsageCommand)


def _time_for_primary(left_s: float) -> float:
    """Return how long the primary may take, so that its answer arrives in time."""
    return left_s - min(MARGIN_S, left_s / 10)
