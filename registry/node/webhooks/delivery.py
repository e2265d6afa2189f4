"""Deliveries to webhooks.

The position is in the log before the next event is sent. So after a crash, or when another node becomes
primary, at most the event that was being sent is sent again, with the same id.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from registry.base.observe.metrics import Sample
from registry.domain.commands import AdvanceWebhook, Command, DisableWebhook, Done, Outcome
from registry.domain.events import Event, Filter, Kind
from registry.domain.log_format.webhooks import Webhook, webhook_tag
from registry.domain.queries.subject_order import Prefix
from registry.webhooks.message import Undelivered, pause_s

from .pages import Page

# Records without events for this webhook after which its position is written all the same. Positions are
# records too, so a smaller number could keep a hundred webhooks writing because of each other.
SKIPPED_MAX = 10_000
AGAIN_S = 1.0
GONE = 410
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Progress:
    """Deliveries of a webhook since this node became primary."""

    delivered: int = 0
    failed: int = 0
    # In a row.
    failures: int = 0
    # Empty after a success.
    last_error: str = ""
    # In ms since the epoch; 0: never, or not planned.
    last_delivered: int = 0
    next_attempt: int = 0
    # Records that were deleted from the log's head before they were looked at, since the last change.
    missed: int = 0

    def begin(self) -> None:
        """Forget what no longer counts after the webhook or its position was changed."""
        self.failures, self.last_error, self.next_attempt, self.missed = 0, "", 0, 0

    def members(self, webhook: Webhook, position: int, lag: int, unsigned: str) -> dict[str, Any]:
        """Return what clients see besides the webhook; ``unsigned``: why nothing can be signed."""
        state = "retrying" if self.failures else "delivering"
        if unsigned or not webhook.enabled:
            state = "stopped" if webhook.enabled else "disabled"
        counts = {"delivered": self.delivered, "failed": self.failed, "failures": self.failures}
        more = {
            "lastError": unsigned or self.last_error,
            "lastDelivered": self.last_delivered,
            "nextAttempt": self.next_attempt,
            "missed": self.missed,
        }
        known = {name: value for name, value in more.items() if value}
        tag = f'"{webhook_tag(webhook)}"'
        return {"position": position, "lag": lag, "state": state, **counts, **known, "etag": tag}


class Pages(Protocol):
    """The source of events."""

    async def after(self, offset: int) -> Page:
        """Return a page that holds ``offset``; wait until there is one."""
        ...


class Outside(NamedTuple):
    """The part of a node that a delivery needs."""

    pages: Pages
    # Sends an event to the receiver; raises :class:`Undelivered`.
    post: Callable[[Webhook, Event], Awaitable[None]]
    # Has the writer decide a command.
    decide: Callable[[Command], Awaitable[Outcome]]
    # Returns the position of a webhook as the rows have it.
    position: Callable[[Webhook], int]
    # The wall clock, in ms since the epoch.
    now: Callable[[], int]
    # The longest pause between two attempts.
    pause_max_s: float


class Delivery:
    """The delivery of a webhook from its position on, until its task is cancelled."""

    def __init__(self, webhook: Webhook, position: int, progress: Progress, outside: Outside) -> None:
        self.webhook = webhook
        self.progress = progress
        # The position in the log, the one being written, and how far the log was searched for events.
        self.position = self._next_position = self.reached = position
        self._filter = filter_of(webhook)
        self._outside = outside

    def stands_at(self, position: int) -> bool:
        """Return true unless somebody else has moved the position."""
        return position in (self.position, self._next_position)

    async def run(self) -> None:
        """Deliver events until the task is cancelled."""
        while True:
            event = await self._next_event()
            await self._deliver(event)
            self.reached = event.offset + 1
            await self._advance()

    async def _next_event(self) -> Event:
        while True:
            page = await self._outside.pages.after(self.reached)
            self._count_missed(page)
            for event in page.events:
                if event.offset >= self.reached and self._filter.admits(event):
                    return event
            self.reached = page.next
            if self.reached - self.position >= SKIPPED_MAX:
                await self._advance()

    def _count_missed(self, page: Page) -> None:
        # From offset 0 on means from the beginning, wherever that is.
        if 0 < self.reached < page.oldest:
            self.progress.missed += page.oldest - self.reached
            _log.error(
                "webhook %s: the log no longer has the records from offset %d to %d; none is delivered",
                self.webhook.name, self.reached, page.oldest - 1,
            )  # fmt: skip
            self.reached = page.oldest

    async def _deliver(self, event: Event) -> None:
        progress, name = self.progress, self.webhook.name
        while True:
            try:
                await self._outside.post(self.webhook, event)
            except Undelivered as error:
                await self._handle_failure(event, error)
                continue
            if progress.failures:
                _log.info("webhook %s: delivered again after %d failures", name, progress.failures)
            progress.delivered += 1
            progress.failures, progress.last_error, progress.next_attempt = 0, "", 0
            progress.last_delivered = self._outside.now()
            return

    async def _handle_failure(self, event: Event, error: Undelivered) -> None:
        """Wait until the next attempt is due; for ever, if the receiver wants no more."""
        progress, name = self.progress, self.webhook.name
        progress.failed += 1
        progress.failures += 1
        progress.last_error = str(error)
        if error.status == GONE:
            await self._disable()
        if progress.failures == 1:
            _log.warning(
                "webhook %s: cannot deliver the event at offset %d, retrying: %s", name, event.offset, error
            )
        pause = pause_s(progress.failures, self._outside.pause_max_s, random.random())  # noqa: S311 (no secret)
        pause = max(pause, error.retry_after_s)
        progress.next_attempt = self._outside.now() + int(pause * 1000)
        await asyncio.sleep(pause)

    async def _disable(self) -> None:
        reason = "the receiver answered 410"
        _log.warning("webhook %s: disabled, because %s", self.webhook.name, reason)
        command = DisableWebhook(self.webhook.name, self.webhook.offset, reason)
        await self._decide(command)
        # The task is cancelled when the rows show that the webhook is disabled or has changed.
        await asyncio.Event().wait()

    async def _advance(self) -> None:
        """Write the position, and return once it is in the log."""
        self._next_position = self.reached
        webhook = self.webhook
        await self._decide(AdvanceWebhook(webhook.name, webhook.id, self.position, self.reached))
        # An administrator may have moved it meanwhile: then go on from there.
        self.position = self._next_position = self.reached = self._outside.position(webhook)

    async def _decide(self, command: Command) -> None:
        """Have a command decided, however long that takes; both kinds may be decided twice."""
        outcome = await self._outside.decide(command)
        while not isinstance(outcome, Done):
            await asyncio.sleep(AGAIN_S)
            outcome = await self._outside.decide(command)


def filter_of(webhook: Webhook) -> Filter:
    """Return the filter of a webhook; kinds that this version does not know match nothing."""
    known = {each.value for each in Kind}
    kinds = frozenset(Kind(each) for each in webhook.kinds if each in known) if webhook.kinds else None
    return Filter(kinds, Prefix.parse(webhook.subject_prefix) if webhook.subject_prefix else None)


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
        task = asyncio.get_running_loop().create_task(_run_until_cancelled(delivery))
        self._running[webhook.name] = _Running(delivery, task)

    def _end(self, name: str) -> None:
        self._running.pop(name).task.cancel()


async def _run_until_cancelled(delivery: Delivery) -> None:
    while True:
        try:
            await delivery.run()
        except Exception:
            # An error of one delivery must end neither it for good nor any other.
            _log.exception("unexpected error in the delivery of webhook %s; retrying", delivery.webhook.name)
            delivery.progress.last_error = "unexpected error; see the log of the primary"
            await asyncio.sleep(AGAIN_S)
