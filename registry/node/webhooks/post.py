"""Signing of messages for webhooks, and sending them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from registry import VERSION
from registry.base.config.settings import Settings
from registry.domain.events.event import Event
from registry.domain.log_format.webhook_values import Webhook
from registry.webhooks.destinations import Destinations
from registry.webhooks.message import Message, Messages, Signer, Undelivered, headers

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

    def unsigned(self, webhook: Webhook) -> str:
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
            from registry.webhooks.client import Client, tls_context  # noqa: PLC0415

            settings = self._settings
            try:
                tls = tls_context(settings.webhooks_ca_file)
            except OSError as error:
                raise Undelivered(f"webhooks_ca_file cannot be used: {error}") from None
            self._client = Client(
                self._destinations,
                tls=tls,
                timeout_s=settings.webhooks_timeout_s,
                redirects=settings.webhooks_redirects,
            )
        return self._client
