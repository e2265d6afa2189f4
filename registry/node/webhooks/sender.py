"""The sender of webhooks: a thread with an event loop of its own, on which the primary delivers events.

Receivers may be slow and many, and TLS takes time, so none of this runs on the node's event loop.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from registry.base.config.settings import Settings
from registry.base.observe.metrics import Sample
from registry.domain.commands import Command, NotPrimary, Outcome
from registry.domain.events import Event
from registry.domain.log_format import webhooks as stored
from registry.domain.log_format.records import (
    POSITION,
    WEBHOOK,
    NoopKey,
    Record,
    UnreadableKey,
    decode_key,
)
from registry.domain.log_format.webhooks import Webhook
from registry.domain.pending_command import CommandRequest, PendingCommand, Submit
from registry.domain.rows.view import Rows
from registry.webhooks.destinations import Destinations

from .delivery import Deliveries, Outside
from .pages import EventPages, ReadableLog
from .post import Answers, Post

# Pause after each look at the rows, so that records that come together are looked at together.
LOOK_S = 0.02
_DECIDE_S = 30.0
# How the keys of versions begin, which are nearly all records.
_VERSION = b'{"keytype":"SCHEMA"'
_log = logging.getLogger(__name__)


class Situation(Protocol):
    """Interface to the state of the node."""

    @property
    def role(self) -> str:
        """Return ``primary`` while the node is primary."""
        ...

    @property
    def is_started(self) -> bool:
        """True once the log was read up to its end."""
        ...


class WebhookSender:
    """The webhooks of a node; its public methods may be called from any thread."""

    def __init__(
        self,
        settings: Settings,
        log: ReadableLog,
        store: Rows,
        *,
        identity: str,
        destinations: Destinations,
        situation: Situation,
        submit: Submit,
        soon: Callable[[Callable[[], None]], None],
        now: Callable[[], int],
    ) -> None:
        """Create the sender.

        ``identity`` is that of the log, ``now`` the wall clock in ms since the epoch. ``soon`` schedules a
        function on the node's event loop, where all replies run.
        """
        self._settings = settings
        self._log = log
        self._store = store
        self._situation = situation
        self._submit = submit
        self._soon = soon
        self._now = now
        self._send = Post(settings, identity, destinations, now)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        self._woken = False
        # True if there may be webhooks to deliver.
        self._delivers = True

    # --- from any thread

    def wake(self) -> None:
        """Look at the rows and the role soon, because they may have changed."""
        loop = self._loop
        if loop is not None and not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # The loop is closed: the node is stopping.
                loop.call_soon_threadsafe(self._changed.set)

    def applied(self, records: Sequence[Record] | None) -> None:
        """Look at the rows after a step with these records, if they matter; ``None``: they are not known."""
        if self._delivers or records is None or any(map(_is_of_webhook, records)):
            self.wake()

    def request(self, pending: PendingCommand) -> None:
        """Answer a :data:`PrimaryQuery`, if this node is primary."""
        loop = self._loop
        if loop is None or not self._primary:
            self._reply(pending, NotPrimary())
            return
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._answers.serve, pending)

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of all webhooks that this node delivers."""
        if self._loop is not None:
            yield from self._deliveries.samples(self._store.applied)

    def stop(self) -> None:
        """Make :meth:`run` end."""
        self._stopping.set()
        self._woken = False
        self.wake()

    def run(self) -> None:
        """Deliver events while this node is primary, until :meth:`stop`."""
        asyncio.run(self._run())

    # --- on the sender's event loop

    async def _run(self) -> None:
        self._changed = asyncio.Event()
        self._changed.set()
        self._pages = EventPages(self._log, lambda: self._store.applied)
        outside = Outside(
            self._pages, self._post, self._decide, self._position, self._now,
            self._settings.webhooks_retry_max_s,
        )  # fmt: skip
        self._deliveries = Deliveries(outside, self._send.signing_problem)
        self._answers = Answers(self._store, self._send, self._deliveries, self._reply)
        self._loop = asyncio.get_running_loop()
        try:
            while not self._stopping.is_set():
                await self._changed.wait()
                self._changed.clear()
                self._woken = False
                try:
                    self._look()
                except Exception:
                    # An error with webhooks must not end a node that serves.
                    _log.exception("unexpected error in the sender of webhooks")
                self._pages.notify_advanced()
                await asyncio.sleep(LOOK_S)
        finally:
            self._deliveries.follow({})
            self._answers.close()
            self._pages.close()
            await self._send.close()

    @property
    def _primary(self) -> bool:
        return self._situation.role == "primary" and self._situation.is_started

    def _look(self) -> None:
        """Have all webhooks of the rows delivered; none on a secondary."""
        wanted: dict[str, tuple[Webhook, int]] = {}
        if self._primary and not self._stopping.is_set():
            with self._store.view() as view:
                wanted = {each.name: (each, stored.position(view, each)) for each in stored.webhooks(view)}
        self._deliveries.follow(wanted)
        self._delivers = bool(wanted)

    # --- what deliveries need

    def _position(self, webhook: Webhook) -> int:
        with self._store.view() as view:
            return stored.position(view, webhook)

    async def _decide(self, command: Command) -> Outcome:
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Outcome] = loop.create_future()

        def settle(outcome: Outcome) -> None:
            if not reply.done():
                reply.set_result(outcome)

        def on_reply(outcome: Outcome) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, outcome)

        self._submit(PendingCommand(CommandRequest(command, math.inf), loop.time() + _DECIDE_S, on_reply))
        return await reply

    async def _post(self, webhook: Webhook, event: Event) -> None:
        while not self._primary:
            # The task will be cancelled, unless the role comes back before the next look.
            await self._pages.news()
        await self._send.event(webhook, event)

    def _reply(self, pending: PendingCommand, outcome: Outcome) -> None:
        self._soon(lambda: pending.reply(outcome))


def _is_of_webhook(record: Record) -> bool:
    if record.key is None or record.key.startswith(_VERSION):
        return False
    try:
        key = decode_key(record.key)
    except UnreadableKey:
        return False
    return isinstance(key, NoopKey) and key.registrar in (WEBHOOK, POSITION)
