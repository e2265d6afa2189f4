"""The deliveries of all webhooks: begun, ended and counted, so that they are those of the rows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from registry.base.observe.metrics import Sample
from registry.domain.log_format.webhook_values import Webhook

from .delivery import AGAIN_S, Delivery, Outside, Progress

_log = logging.getLogger(__name__)


class _Running(NamedTuple):
    delivery: Delivery
    task: asyncio.Task[None]


class Deliveries:
    """The deliveries under way, one for each webhook that is enabled and signed.

    ``unsigned`` returns why nothing can be signed for a webhook; empty if it can. Used on one event loop,
    except :meth:`samples`.
    """

    def __init__(self, outside: Outside, unsigned: Callable[[Webhook], str]) -> None:
        self._outside = outside
        self._unsigned = unsigned
        self._running: dict[str, _Running] = {}
        # By name and id; kept while a change restarts a delivery.
        self._progress: dict[tuple[str, str], Progress] = {}

    def follow(self, wanted: Mapping[str, tuple[Webhook, int]]) -> None:
        """Begin, restart and end deliveries, given the webhooks by name and their positions."""
        for name, (delivery, _) in list(self._running.items()):
            webhook, position = wanted.get(name, (None, 0))
            if webhook != delivery.webhook or not delivery.stands_at(position):
                self._end(name)
        known = {(name, webhook.id) for name, (webhook, _) in wanted.items()}
        self._progress = {key: each for key, each in self._progress.items() if key in known}
        for name, (webhook, position) in wanted.items():
            if name not in self._running and webhook.enabled and not self._unsigned(webhook):
                self._begin(webhook, position)

    def members(self, webhook: Webhook, position: int, end: int) -> dict[str, Any]:
        """Return what clients see of a webhook's deliveries; ``end``: of the log as far as it is applied."""
        running = self._running.get(webhook.name)
        reached = position if running is None else max(position, running.delivery.reached)
        progress = self._progress.get((webhook.name, webhook.id), Progress())
        unsigned = self._unsigned(webhook) if webhook.enabled else ""
        return progress.members(webhook, position, max(0, end - reached), unsigned)

    def samples(self, end: int) -> Iterator[Sample]:
        """Yield the metrics of all webhooks that are delivered. Any thread may call this."""
        for name, (delivery, _) in sorted(self._running.copy().items()):
            progress = delivery.progress
            yield Sample("registrar_webhook_deliveries", progress.delivered, (name, "accepted"))
            yield Sample("registrar_webhook_deliveries", progress.failed, (name, "failed"))
            yield Sample("registrar_webhook_failures", progress.failures, (name,))
            yield Sample("registrar_webhook_lag_records", max(0, end - delivery.reached), (name,))
            yield Sample("registrar_webhook_missed_records", progress.missed, (name,))

    def _begin(self, webhook: Webhook, position: int) -> None:
        progress = self._progress.setdefault((webhook.name, webhook.id), Progress())
        progress.begin()
        delivery = Delivery(webhook, position, progress, self._outside)
        task = asyncio.get_running_loop().create_task(_kept_running(delivery))
        self._running[webhook.name] = _Running(delivery, task)

    def _end(self, name: str) -> None:
        self._running.pop(name).task.cancel()


async def _kept_running(delivery: Delivery) -> None:
    while True:
        try:
            await delivery.run()
        except Exception:
            # An error of one delivery must end neither it for good nor any other.
            _log.exception("unexpected error in the delivery of webhook %s; retrying", delivery.webhook.name)
            delivery.progress.last_error = "unexpected error; see the log of the primary"
            await asyncio.sleep(AGAIN_S)
