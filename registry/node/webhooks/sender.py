"""The sender of webhooks: a thread with an event loop of its own, on which the primary delivers events.

Receivers may be slow and many, and TLS takes time, so none of this runs on the node's event loop.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import orjson

from registry.config.settings import Settings
from registry.domain.commands import AskWebhooks, Command, Done, NotPrimary, Outcome, PingWebhook, refused
from registry.domain.errors import (
    TOO_MANY_REQUESTS,
    UNEXPECTED,
    WEBHOOK_NOT_FOUND,
    WEBHOOKS_UNSIGNED,
    RegistryError,
)
from registry.domain.events.event import Event
from registry.domain.log_format.webhook_values import Webhook
from registry.domain.pending_command import CommandRequest, PendingCommand, Submit
from registry.domain.queries import webhooks as stored
from registry.node.write.batch_writer import Rows
from registry.observe.metrics import Sample
from registry.webhooks.client import Undelivered
from registry.webhooks.destinations import Destinations

from .delivery import AGAIN_S, Delivery, Outside, Progress
from .pages import EventPages, ReadableLog
from .post import Post

# Pause after each look at the rows, so that records that come together are looked at together.
LOOK_S = 0.02
PINGS_MAX = 10
_DECIDE_S = 30.0
_log = logging.getLogger(__name__)


class Situation(Protocol):
    """Interface to the state of the node."""

    @property
    def role(self) -> str:
        """Return ``primary`` while the node is primary."""
        ...

    @property
    def started(self) -> bool:
        """True once the log was read up to its end."""
        ...


class _Running(NamedTuple):
    delivery: Delivery
    task: asyncio.Task[None]


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
        # The rest belongs to the sender's own event loop.
        self._running: dict[str, _Running] = {}
        # By name and id; kept while a change restarts a delivery.
        self._progress: dict[tuple[str, str], Progress] = {}
        self._pings: set[asyncio.Task[None]] = set()

    # --- from any thread

    def wake(self) -> None:
        """Look at the rows and the role soon, because they may have changed."""
        loop = self._loop
        if loop is not None and not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # The loop is closed: the node is stopping.
                loop.call_soon_threadsafe(self._changed.set)

    def request(self, pending: PendingCommand) -> None:
        """Answer :class:`AskWebhooks` or :class:`PingWebhook`, if this node is primary."""
        loop = self._loop
        if loop is None or not self._primary:
            self._reply(pending, NotPrimary())
            return
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._serve, pending)

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of all webhooks that this node delivers."""
        end = self._store.applied
        for name, (delivery, _) in sorted(self._running.copy().items()):
            progress = delivery.progress
            yield Sample("registrar_webhook_deliveries", progress.delivered, (name, "accepted"))
            yield Sample("registrar_webhook_deliveries", progress.failed, (name, "failed"))
            yield Sample("registrar_webhook_failures", progress.failures, (name,))
            yield Sample("registrar_webhook_lag_records", max(0, end - delivery.reached), (name,))

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
        self._outside = Outside(
            self._pages, self._post, self._decide, self._position, self._now,
            self._settings.webhooks_retry_max_s,
        )  # fmt: skip
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
                self._pages.advanced()
                await asyncio.sleep(LOOK_S)
        finally:
            for name in list(self._running):
                self._end(name)
            for ping in self._pings:
                ping.cancel()
            self._pages.close()
            await self._send.close()

    @property
    def _primary(self) -> bool:
        return self._situation.role == "primary" and self._situation.started

    def _look(self) -> None:
        """Begin, restart and end deliveries, so that they are those of the rows; none on a secondary."""
        wanted: dict[str, tuple[Webhook, int]] = {}
        if self._primary and not self._stopping.is_set():
            with self._store.view() as view:
                wanted = {each.name: (each, stored.position(view, each)) for each in stored.webhooks(view)}
        for name, (delivery, _) in list(self._running.items()):
            webhook, position = wanted.get(name, (None, 0))
            if webhook != delivery.webhook or not delivery.stands_at(position):
                self._end(name)
        known = {(name, webhook.id) for name, (webhook, _) in wanted.items()}
        self._progress = {key: each for key, each in self._progress.items() if key in known}
        for webhook, position in wanted.values():
            if webhook.name not in self._running and self._may_send(webhook):
                self._begin(webhook, position)

    def _may_send(self, webhook: Webhook) -> bool:
        return webhook.enabled and not self._send.unsigned(webhook)

    def _begin(self, webhook: Webhook, position: int) -> None:
        progress = self._progress.setdefault((webhook.name, webhook.id), Progress())
        progress.failures, progress.last_error, progress.next_attempt = 0, "", 0
        delivery = Delivery(webhook, position, progress, self._outside)
        task = asyncio.get_running_loop().create_task(_kept_running(delivery))
        self._running[webhook.name] = _Running(delivery, task)

    def _end(self, name: str) -> None:
        self._running.pop(name).task.cancel()

    # --- what deliveries need

    def _position(self, webhook: Webhook) -> int:
        with self._store.view() as view:
            return stored.position(view, webhook)

    async def _decide(self, command: Command) -> Outcome:
        reply: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()

        def settle(outcome: Outcome) -> None:
            if not reply.done():
                reply.set_result(outcome)

        def on_reply(outcome: Outcome) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, outcome)

        deadline = time.monotonic() + _DECIDE_S
        self._submit(PendingCommand(CommandRequest(command, math.inf), deadline, on_reply))
        return await reply

    async def _post(self, webhook: Webhook, event: Event) -> None:
        while not self._primary:
            # The task will be cancelled, unless the role comes back before the next look.
            await self._pages.news()
        await self._send.event(webhook, event)

    # --- questions

    def _serve(self, pending: PendingCommand) -> None:
        command = pending.command
        try:
            if isinstance(command, PingWebhook):
                self._begin_ping(pending, command.name)
            else:
                assert isinstance(command, AskWebhooks)
                self._reply(pending, self._described(command.name))
        except RegistryError as error:
            self._reply(pending, refused(error))

    def _described(self, name: str) -> Outcome:
        with self._store.view() as view:
            found = [each for each in stored.webhooks(view) if name in ("", each.name)]
            entities = [self._entity(each, stored.position(view, each)) for each in found]
        if name and not entities:
            raise WEBHOOK_NOT_FOUND(name)
        return Done(orjson.dumps(entities[0] if name else entities), self._store.applied)

    def _entity(self, webhook: Webhook, position: int) -> dict[str, Any]:
        running = self._running.get(webhook.name)
        reached = position if running is None else max(position, running.delivery.reached)
        progress = self._progress.get((webhook.name, webhook.id), Progress())
        unsigned = self._send.unsigned(webhook) if webhook.enabled else ""
        lag = max(0, self._store.applied - reached)
        return stored.webhook_members(webhook) | progress.members(webhook, position, lag, unsigned)

    def _begin_ping(self, pending: PendingCommand, name: str) -> None:
        with self._store.view() as view:
            webhook = stored.webhook(view, name)
        if webhook is None:
            raise WEBHOOK_NOT_FOUND(name)
        if unsigned := self._send.unsigned(webhook):
            raise WEBHOOKS_UNSIGNED(unsigned)
        if len(self._pings) >= PINGS_MAX:
            raise TOO_MANY_REQUESTS("Too many webhooks are being tested").retried_after(1)
        task = asyncio.get_running_loop().create_task(self._ping(pending, webhook))
        self._pings.add(task)
        task.add_done_callback(self._pings.discard)

    async def _ping(self, pending: PendingCommand, webhook: Webhook) -> None:
        begun = time.monotonic()
        result: dict[str, Any]
        try:
            status = await self._send.ping(webhook, secrets.token_hex(8))
            result = {"delivered": True, "status": status}
        except Undelivered as error:
            result = {"delivered": False, "status": error.status or None, "error": str(error)}
        except Exception:
            _log.exception("unexpected error in the test of webhook %s", webhook.name)
            self._reply(pending, refused(UNEXPECTED()))
            return
        result["took_ms"] = round((time.monotonic() - begun) * 1000)
        self._reply(pending, Done(orjson.dumps(result), self._store.applied))

    def _reply(self, pending: PendingCommand, outcome: Outcome) -> None:
        self._soon(lambda: pending.reply(outcome))


async def _kept_running(delivery: Delivery) -> None:
    while True:
        try:
            await delivery.run()
        except Exception:
            # An error of one delivery must end neither it for good nor any other.
            _log.exception("unexpected error in the delivery of webhook %s; retrying", delivery.webhook.name)
            delivery.progress.last_error = "unexpected error; see the log of the primary"
            await asyncio.sleep(AGAIN_S)
