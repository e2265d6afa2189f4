"""The line of a secondary to the primary: one connection, commands in batches, and the watch over it.

While batches are under way, what comes meanwhile collects for the next one; so one command alone goes at
once, and many go together.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from election.contract import Identity
from registry.domain.admission import is_large, size_of
from registry.domain.commands import Later, NotPrimary, Outcome, Unknown, refused, repeatable
from registry.domain.errors import FORWARD_FAILED

from .http2_connection import NotSent
from .messages import Batch, Wanted, encode, outcomes_of
from .peer_client import Doubtful, NotAPeer, Peer
from .signing import Signing

UNDER_WAY_MAX = 2
"""Batches of one line that wait for their answer at once; more of them are smaller, and cost more."""
# The same for batches of large commands, which have batches of their own: a batch is answered as a whole.
LARGE_UNDER_WAY_MAX = 1
BATCH_MAX = 500
BATCH_BYTES_MAX = 8 << 20
LIFE_EVERY_S = 3.0
"""Between signs of life; a connection that owes one when the next is due is given up."""
MARGIN_S = 0.25
_RETRY_S = (0.02, 0.05, 0.1, 0.25, 0.5)
_UNKNOWN = "the outcome of the write is unknown and it is safe to repeat it"
_TOO_NEW = "Nothing was written: the primary is of an older version, which does not know of this"
_log = logging.getLogger(__name__)


class Unsent(ConnectionError):
    """A command did not reach the primary: nothing was done."""


class Reply(NamedTuple):
    """An outcome, and what the node that it came from does with a command that is sent again."""

    outcome: Outcome
    # True if that node does a command only once, however often it is sent with its idempotency key.
    repeats: bool


@dataclass(eq=False, slots=True)
class _Item:
    wanted: Wanted
    size: int
    deadline: float
    reply: asyncio.Future[Reply]
    doubt: bool
    alone: bool = False
    """Whether it takes so long that no other command should wait for it."""
    # As in Reply, of the connection over which it was sent last; the next connection may be to an older node.
    repeats: bool = False

    def settle(self, outcome: Outcome) -> None:
        """Answer it, unless its time is over."""
        if not self.reply.done():
            self.reply.set_result(Reply(outcome, self.repeats))

    def unsent(self, reason: str) -> None:
        """Give it back to whoever asked."""
        if not self.reply.done():
            self.reply.set_exception(Unsent(reason))
            self.reply.exception()  # seen, even if nobody waits any more


class _Lane:
    """Commands that go together, and the batches of them that are under way."""

    def __init__(self, batches_max: float, commands_max: int) -> None:
        """``commands_max``: of one batch."""
        self.batches_max = batches_max
        self.commands_max = commands_max
        self.waiting: deque[_Item] = deque()
        self.under_way: set[asyncio.Task[None]] = set()


class Line:
    """To the primary ``identity``, from :meth:`start` to :meth:`retire`.

    ``refused`` is called when the connection broke and a new one was refused: nobody listens there any more;
    and again, until it says that something was done about it.
    """

    def __init__(
        self,
        identity: Identity,
        signing: Signing,
        tls: ssl.SSLContext | None,
        *,
        node: str,
        refused: Callable[[Identity], Awaitable[bool]],
    ) -> None:
        self.identity = identity
        self._signing = signing
        self._tls = tls
        self._node = node
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        self._peer: Peer | None = None
        self._small = _Lane(UNDER_WAY_MAX, BATCH_MAX)
        self._large = _Lane(LARGE_UNDER_WAY_MAX, BATCH_MAX)
        self._long = _Lane(math.inf, 1)
        self._lanes = (self._long, self._small, self._large)
        self._sending = False
        self._retired = False
        self._keeper: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why there is no connection now; empty while there is one."""
        self.end = 0
        """Where the log ended, as the primary last said."""

    def start(self) -> None:
        """Keep a connection from now on."""
        self._keeper = self._loop.create_task(self._keep())

    async def retire(self, grace_s: float) -> None:
        """Take no more, give back what was not sent, wait ``grace_s`` for answers, then hang up."""
        self._retired = True
        under_way: set[asyncio.Task[None]] = set()
        for lane in self._lanes:
            for item in lane.waiting:
                item.unsent("there is another primary now")
            lane.waiting.clear()
            under_way |= lane.under_way
        if under_way:
            await asyncio.wait(under_way, timeout=grace_s)
        if self._keeper is not None:
            self._keeper.cancel()
        if self._peer is not None:
            self._peer.abort()

    async def ask(self, wanted: Wanted, deadline: float, *, doubt: bool = False) -> Reply:
        """Return the primary's reply; ``deadline`` is event-loop time. Raises :class:`Unsent`.

        A command whose answer does not come, in time or at all, is :class:`Unknown`. With ``doubt`` it may
        have been done before: one that does harm twice goes only to a primary that keeps to idempotency keys.
        """
        if self._retired:
            raise Unsent("there is another primary now")
        size = size_of(wanted.command)
        reply = await self._queued(_Item(wanted, size, deadline, self._loop.create_future(), doubt))
        if isinstance(reply.outcome, Later):
            item = _Item(wanted, size, deadline, self._loop.create_future(), doubt, alone=True)
            reply = await self._queued(item)
        return reply

    async def _queued(self, item: _Item) -> Reply:
        lane = self._lane_of(item)
        lane.waiting.append(item)
        self._plan()
        try:
            async with asyncio.timeout_at(item.deadline):
                return await item.reply
        except TimeoutError:
            if item in lane.waiting:
                lane.waiting.remove(item)
                raise Unsent(self.trouble or "the primary has too much to do") from None
            late = Unknown(f"The primary did not answer in time; {_UNKNOWN}", repeats=item.repeats)
            return Reply(late, item.repeats)

    def _lane_of(self, item: _Item) -> _Lane:
        if item.alone:
            return self._long
        return self._large if is_large(item.size) else self._small

    # --- sending

    def _plan(self) -> None:
        """Send at the end of this turn of the event loop, so that what comes in it goes together."""
        if not self._sending and any(lane.waiting for lane in self._lanes):
            self._sending = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._sending = False
        for lane in self._lanes:
            while self._peer is not None and lane.waiting and len(lane.under_way) < lane.batches_max:
                self._begin(self._peer, self._take(lane), lane.under_way)

    def _begin(self, peer: Peer, items: list[_Item], under_way: set[asyncio.Task[None]]) -> None:
        def exchanged(task: asyncio.Task[None]) -> None:
            under_way.discard(task)
            self._plan()

        task = self._loop.create_task(self._exchange(peer, items))
        under_way.add(task)
        task.add_done_callback(exchanged)

    def _take(self, lane: _Lane) -> list[_Item]:
        items: list[_Item] = []
        size = 0
        while lane.waiting and len(items) < lane.commands_max and size < BATCH_BYTES_MAX:
            item = lane.waiting.popleft()
            items.append(item)
            size += item.size
        return items

    async def _exchange(self, peer: Peer, items: list[_Item]) -> None:
        items = _suited(peer, items)
        if not items:
            return
        now = self._loop.time()
        wanted = [
            msgspec.structs.replace(each.wanted, remaining_s=_less(each.deadline - now)) for each in items
        ]
        try:
            batch = encode(Batch(wanted, self._node, later=not items[0].alone))
            answer = await peer.commands(batch, large=is_large(items[0].size))
            said = outcomes_of(answer, len(items))
            outcomes = said.outcomes
            self.end = max(self.end, said.end)
        except NotSent as error:
            peer.abort()  # it takes no more: without another connection it would be tried for ever
            self._take_back(items, error)
            return
        except NotAPeer as error:
            _log.warning("the primary at %s refuses: %s", self.identity.peer, error)
            peer.abort()
            lost = Unknown(
                f"The primary gave no answer that can be trusted; {_UNKNOWN}", repeats=peer.standing.repeats
            )
            outcomes = [lost if isinstance(error, Doubtful) else NotPrimary()] * len(items)
        except (ConnectionError, msgspec.DecodeError):
            lost = Unknown(
                f"The connection to the primary was lost; {_UNKNOWN}", repeats=peer.standing.repeats
            )
            outcomes = [lost] * len(items)
        for item, outcome in zip(items, outcomes, strict=True):
            item.settle(outcome)

    def _take_back(self, items: list[_Item], error: NotSent) -> None:
        if not self._retired:
            self._lane_of(items[0]).waiting.extendleft(reversed(items))
            return
        for item in items:
            item.unsent(str(error))

    # --- keeping the connection

    async def _keep(self) -> None:
        tries, lost = 0, False
        while True:
            try:
                peer = await self._meet()
            except ConnectionRefusedError as error:
                self._tell(str(error))
                lost = lost and not await self._is_replaced()
            except OSError as error:
                self._tell(str(error) or "it does not answer")
            else:
                tries, lost = 0, True
                await self._use(peer)
                continue
            await asyncio.sleep(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
            tries += 1

    async def _meet(self) -> Peer:
        peer = await Peer.meet(self.identity, self._signing, self._tls)
        try:
            await peer.open_stream(self.identity.peer, self._tls)
        except BaseException:
            peer.abort()
            raise
        return peer

    async def _is_replaced(self) -> bool:
        """Say that nobody listens where the primary was; whether that was enough."""
        try:
            return await self._refused(self.identity)
        except Exception as error:
            _log.warning("evicting the primary at %s: %r", self.identity.peer, error)
            return False

    def _tell(self, trouble: str) -> None:
        trouble = f"the primary cannot be reached at {self.identity.peer}: {trouble}"
        if trouble != self.trouble:
            _log.warning("%s", trouble)
        self.trouble = trouble

    async def _use(self, peer: Peer) -> None:
        self._peer, self.trouble = peer, ""
        watch = self._loop.create_task(_watch(peer))
        try:
            self._plan()
            while not peer.closed.done() and peer.alive():
                await asyncio.wait((peer.closed,), timeout=LIFE_EVERY_S)
            if not peer.closed.done():
                _log.warning("the primary at %s gives no sign of life", self.identity.peer)
        finally:
            self._peer = None
            peer.abort()
            watch.cancel()


def _suited(peer: Peer, items: list[_Item]) -> list[_Item]:
    """Return what ``peer`` can be sent, and answer the rest.

    An older node would refuse a whole batch for one command that it does not understand, and would do again
    what was done before.
    """
    suited = []
    for item in items:
        item.repeats = peer.standing.repeats
        if not peer.standing.can(item.wanted.command):
            item.settle(refused(FORWARD_FAILED(_TOO_NEW)))
        elif item.doubt and not (item.repeats or repeatable(item.wanted.command)):
            item.settle(Unknown(f"The primary knows of no earlier try; {_UNKNOWN}"))
        else:
            suited.append(item)
    return suited


def _less(left_s: float) -> float:
    """What the other side may take, so that its answer is here in time."""
    return left_s - min(MARGIN_S, left_s / 10)


async def _watch(peer: Peer) -> None:
    try:
        await peer.watch()
    except ConnectionError:
        return
