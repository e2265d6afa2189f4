"""A listener of the feed and the receiver of a webhook, with the laws about what they get.

The product's feed, its sender of webhooks and its deliveries run; the way to them is modeled here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import orjson

from registry.base.config.settings import Settings
from registry.domain.commands import Done, PutWebhook
from registry.domain.errors import RegistryError
from registry.domain.events import Event, event_of
from registry.domain.log_format.webhooks import Webhook
from registry.node.leadership.role import Stage
from registry.node.webhooks.post import Post
from registry.node.webhooks.sender import WebhookSender
from registry.webhooks.message import Undelivered

from .brokers import Brokers
from .event_loop import let_pass
from .world import World

if TYPE_CHECKING:
    from registry.domain.rows.view import Rows
    from registry.webhooks.destinations import Destinations

    from .cluster import Cluster, Running

_HOP_S, _WAIT_S, _AGAIN_S, _LOST_S = 0.002, 2.0, 0.5, 3.0
_URL = "https://receiver.example"


class Listener:
    """A client of the feed. It goes on from its own position, whichever node answers."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self._cluster = cluster
        self.position = 0
        self.offsets: list[int] = []

    def run(self) -> None:
        """Read one page after another, for ever."""
        while True:
            node = self._world.chance.choice(self._cluster.nodes)
            life = node.running
            if life is None or not life.started or life.process.frozen or node.link.cut:
                self._world.sleep(_AGAIN_S)
            else:
                self._read(life)

    def _read(self, life: Running) -> None:
        answers: list[tuple[list[int], int]] = []

        async def ask() -> None:
            try:
                page = await life.feed.events(self.position, _WAIT_S)
            except RegistryError:
                return
            answers.append(([_offset(each) for each in page.events], page.next))

        life.spawn_on_loop(ask)
        self._world.until(lambda: answers or life.process.dead, 2 * _WAIT_S)
        if answers:
            offsets, self.position = answers[0]
            self.offsets += offsets
        else:
            self._world.sleep(_AGAIN_S)


class Receiver:
    """The receiver of a webhook: what it got, in order, and from whom."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.got: list[tuple[str, int]] = []
        # The share of messages that go wrong.
        self.bad = 0.2

    async def post(self, sender: str, event: Event) -> None:
        """Take a message over a bad network. Raises :class:`Undelivered`."""
        chance = self._world.chance
        await let_pass(_HOP_S * chance.random())
        fate = chance.choice(("lost", "unheard", "refused")) if self._world.likely(self.bad) else "heard"
        if fate in ("heard", "unheard"):
            self.got.append((sender, event.offset))
        if fate == "refused":
            raise Undelivered("busy", status=503)
        await let_pass(_HOP_S * chance.random() if fate == "heard" else _LOST_S)
        if fate != "heard":
            raise Undelivered("no answer")


class _SimulatedPost(Post):
    """Sends to the simulated receiver."""

    def __init__(self, sender: str, receiver: Receiver) -> None:
        self._name = sender
        self._receiver = receiver

    def signing_problem(self, webhook: Webhook) -> str:
        return ""

    async def event(self, webhook: Webhook, event: Event) -> None:
        await self._receiver.post(self._name, event)

    async def close(self) -> None:
        """Do nothing: nothing is open."""


class _Situation:
    """The state of a node that its sender asks for."""

    is_started = True

    def __init__(self, life: Running) -> None:
        self._life = life

    @property
    def role(self) -> str:
        return "primary" if self._life.role.stage is Stage.PRIMARY else "secondary"


class SimulatedSender(WebhookSender):
    """The sender of one life of a node; :meth:`deliver` runs on its event loop."""

    def __init__(self, world: World, life: Running, number: int, receiver: Receiver) -> None:
        super().__init__(
            Settings(),
            life.log,
            cast("Rows", life.store),
            identity=life.store.log,
            destinations=cast("Destinations", None),
            situation=_Situation(life),
            submit=life.writer.submit,
            soon=lambda call: call(),
            now=world.wall_ms,
        )
        self._send = _SimulatedPost(f"{life.process.name} in life {number}", receiver)

    async def deliver(self) -> None:
        """Deliver events while the node is primary."""
        await self._run()


def create_webhook(cluster: Cluster) -> None:
    """Register the receiver, for all events from the beginning on."""
    command = PutWebhook("h", _URL, start=0, id="00ff", key="ab")
    while not isinstance(cluster.submit(command), Done):
        pass


def check_listener(listener: Listener, brokers: Brokers) -> None:
    """Each event that the log still has, once and in its order, and nothing else."""
    assert listener.offsets == sorted(set(listener.offsets)), f"the feed: {listener.offsets}"
    _check_complete("the feed", listener.offsets, brokers)


def check_receiver(receiver: Receiver, brokers: Brokers) -> None:
    """Each event at least once; the first times are in the log's order, and so is what one sender sends."""
    offsets = [offset for _, offset in receiver.got]
    first = list(dict.fromkeys(offsets))
    assert first == sorted(first), f"the webhook got {offsets}"
    for sender in {sender for sender, _ in receiver.got}:
        sent = [offset for each, offset in receiver.got if each == sender]
        assert sent == sorted(sent), f"{sender} sent {sent}"
    _check_complete("the webhook", first, brokers)


def told(got: Iterable[int], brokers: Brokers) -> bool:
    """Return true if the newest event of the log is among those that were got."""
    newest = (each.offset for each in reversed(brokers.partition.records) if event_of(each) is not None)
    return next(newest, -1) in {-1, *got}


def _check_complete(who: str, got: list[int], brokers: Brokers) -> None:
    known = set(got)
    missing = [offset for offset in _events(brokers, kept=True) if offset not in known]
    assert not missing, f"{who} lacks the events at {missing}"
    assert not known - set(_events(brokers)), f"{who} got events that the log does not have"


def _events(brokers: Brokers, *, kept: bool = False) -> list[int]:
    """Return the offsets of the events of the log; ``kept``: without those that compaction may remove."""
    records = brokers.partition.records
    newest = {each.key: each.offset for each in records}
    return [
        each.offset
        for each in records
        if event_of(each) is not None and (not kept or newest[each.key] == each.offset)
    ]


def _offset(data: bytes) -> int:
    """Return the offset of an event as the feed has it."""
    found: int = orjson.loads(data)["offset"]
    return found
