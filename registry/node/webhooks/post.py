"""Signing and sending of messages for webhooks, and answers about how their deliveries go."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from registry import VERSION
from registry.base.config.settings import Settings
from registry.base.processes.tls_connections import client_context
from registry.domain.commands import AskWebhooks, Done, Outcome, PingWebhook, refusal
from registry.domain.errors import (
    TOO_MANY_REQUESTS,
    UNEXPECTED,
    WEBHOOK_NOT_FOUND,
    WEBHOOKS_UNSIGNED,
    RegistryError,
)
from registry.domain.events import Event
from registry.domain.log_format import webhooks as stored
from registry.domain.log_format.webhooks import Webhook
from registry.domain.pending_command import PendingCommand
from registry.domain.rows.view import Rows
from registry.webhooks.destinations import Destinations
from registry.webhooks.message import Message, Messages, Signer, Undelivered, headers

from .delivery import Deliveries

if TYPE_CHECKING:
    from registry.webhooks.client import Client


class Post:
    """Sends messages about the log of this ``identity``; used on one event loop.

    ``now`` is the wall clock in ms since the epoch.
    """

    def __init__(
        self, settings: Settings, identity: str, destinations: Destinations, now: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._destinations = destinations
        self._now = now
        self._messages = Messages(identity)
        self._signer = Signer(settings.webhooks_secret) if settings.webhooks_secret else None
        self._client: Client | None = None

    def signing_problem(self, webhook: Webhook) -> str:
        """Return why a webhook's receiver could not verify signatures; empty if it can."""
        if self._signer is None:
            return "the primary lacks the setting webhooks_secret"
        if not self._signer.knows(webhook):
            return (
                "its secret was derived from another webhooks_secret: rotate it and give the new one to "
                "the receiver"
            )
        return ""

    async def event(self, webhook: Webhook, event: Event) -> None:
        """Send an event. Raises :class:`Undelivered`."""
        await self._send(webhook, self._messages.of(event))

    async def ping(self, webhook: Webhook, chance: str) -> int:
        """Send a message that only tests the receiver; return the status. Raises :class:`Undelivered`."""
        return await self._send(webhook, self._messages.ping(webhook.name, chance, self._now()))

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.close()

    async def _send(self, webhook: Webhook, message: Message) -> int:
        assert self._signer is not None
        given = headers(message, webhook, self._signer, self._now(), VERSION)
        return await self._ready_client().post(webhook.url, given, message.body)

    def _ready_client(self) -> Client:
        """Return the client, made when it is first needed. Raises :class:`Undelivered`."""
        if self._client is None:
            # Its library is not worth the time of a start.
            from registry.webhooks.client import Client  # noqa: PLC0415

            settings = self._settings
            try:
                tls = client_context(settings.webhooks_ca_file)
            except OSError as error:
                raise Undelivered(f"webhooks_ca_file cannot be used: {error}") from None
            self._client = Client(
                self._destinations,
                tls=tls,
                timeout_s=settings.webhooks_timeout_s,
                redirects=settings.webhooks_redirects,
            )
        return self._client


PINGS_MAX = 10
_log = logging.getLogger(__name__)


class Answers:
    """Answers :class:`AskWebhooks` and :class:`PingWebhook` by ``reply``; used on one event loop."""

    def __init__(
        self,
        store: Rows,
        post: Post,
        deliveries: Deliveries,
        reply: Callable[[PendingCommand, Outcome], None],
    ) -> None:
        self._store = store
        self._post = post
        self._deliveries = deliveries
        self._reply = reply
        self._pings: set[asyncio.Task[None]] = set()

    def serve(self, pending: PendingCommand) -> None:
        """Answer a question, now or once the receiver has answered."""
        command = pending.command
        try:
            if isinstance(command, PingWebhook):
                self._begin_ping(pending, command.name)
            else:
                assert isinstance(command, AskWebhooks)
                self._reply(pending, self._describe(command.name))
        except RegistryError as error:
            self._reply(pending, refusal(error))

    def close(self) -> None:
        """Give up the tests under way."""
        for ping in self._pings:
            ping.cancel()

    def _describe(self, name: str) -> Outcome:
        with self._store.view() as view:
            found = [each for each in stored.webhooks(view) if name in ("", each.name)]
            entities = [self._entity(each, stored.position(view, each)) for each in found]
        if name and not entities:
            raise WEBHOOK_NOT_FOUND(name)
        return Done(orjson.dumps(entities[0] if name else entities), self._store.applied)

    def _entity(self, webhook: Webhook, position: int) -> dict[str, Any]:
        members = self._deliveries.members(webhook, position, self._store.applied)
        return stored.webhook_members(webhook) | members

    def _begin_ping(self, pending: PendingCommand, name: str) -> None:
        with self._store.view() as view:
            webhook = stored.webhook(view, name)
        if webhook is None:
            raise WEBHOOK_NOT_FOUND(name)
        if unsigned := self._post.signing_problem(webhook):
            raise WEBHOOKS_UNSIGNED(unsigned)
        if len(self._pings) >= PINGS_MAX:
            raise TOO_MANY_REQUESTS("Too many webhooks are being tested").with_retry_after(1)
        task = asyncio.get_running_loop().create_task(self._ping(pending, webhook))
        self._pings.add(task)
        task.add_done_callback(self._pings.discard)

    async def _ping(self, pending: PendingCommand, webhook: Webhook) -> None:
        begun = time.monotonic()
        result: dict[str, Any]
        try:
            status = await self._post.ping(webhook, secrets.token_hex(8))
            result = {"delivered": True, "status": status}
        except Undelivered as error:
            result = {"delivered": False, "status": error.status or None, "error": str(error)}
        except Exception:
            _log.exception("unexpected error in the test of webhook %s", webhook.name)
            self._reply(pending, refusal(UNEXPECTED()))
            return
        result["took_ms"] = round((time.monotonic() - begun) * 1000)
        self._reply(pending, Done(orjson.dumps(result), self._store.applied))
