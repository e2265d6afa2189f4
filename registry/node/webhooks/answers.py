"""Answers of the primary to questions about webhooks: how their deliveries go, and tests of receivers."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

import orjson

from registry.domain.commands import AskWebhooks, Done, Outcome, PingWebhook, refused
from registry.domain.errors import (
    TOO_MANY_REQUESTS,
    UNEXPECTED,
    WEBHOOK_NOT_FOUND,
    WEBHOOKS_UNSIGNED,
    RegistryError,
)
from registry.domain.log_format.webhook_values import Webhook
from registry.domain.pending_command import PendingCommand
from registry.domain.queries import webhooks as stored
from registry.domain.rows.view import Rows
from registry.webhooks.message import Undelivered

from .delivery import Deliveries
from .post import Post

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
            self._reply(pending, refused(error))

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
        if unsigned := self._post.unsigned(webhook):
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
            self._reply(pending, refused(UNEXPECTED()))
            return
        result["took_ms"] = round((time.monotonic() - begun) * 1000)
        self._reply(pending, Done(orjson.dumps(result), self._store.applied))
