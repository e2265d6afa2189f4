"""The delivery of one webhook, step by step: what is sent, and what is written in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from registry.domain.commands import (
    AdvanceWebhook,
    Command,
    DisableWebhook,
    Done,
    NotPrimary,
    Outcome,
)
from registry.domain.events import Event, Kind
from registry.domain.log_format.webhooks import Webhook
from registry.node.webhooks.delivery import SKIPPED_MAX, Delivery, Outside, Progress, filter_of
from registry.node.webhooks.pages import Page
from registry.webhooks.message import Undelivered
from tests.support.running import until_async

HOOK = Webhook(name="h", url="https://a", id="00", kinds=["mode_set"], offset=3)


class Place:
    """A node and a receiver: ``done`` is what happened, in order."""

    def __init__(self, *events: Event, end: int = 100) -> None:
        self.events = events
        self.end = end
        self.oldest = 0
        self.done: list[int | Command] = []
        self.stored = 0
        self.refusals: list[Undelivered] = []
        self.on_decide: Callable[[Command], Outcome | None] = lambda command: None
        self.stopped = asyncio.Event()

    async def after(self, offset: int) -> Page:
        if offset >= self.end:
            self.stopped.set()
            await asyncio.Event().wait()
        # Pages are shared, so this one may begin before the offset.
        return Page(0, self.end, list(self.events), self.oldest)

    async def post(self, webhook: Webhook, event: Event) -> None:
        assert len(self.done) < 100, "it would go on for ever"
        self.done.append(event.offset)
        if self.refusals:
            raise self.refusals.pop(0)

    async def decide(self, command: Command) -> Outcome:
        self.done.append(command)
        outcome = self.on_decide(command)
        if isinstance(command, AdvanceWebhook) and outcome is None:
            self.stored = command.to
        return outcome or Done(b"", 0)

    def delivery(self) -> Delivery:
        outside = Outside(self, self.post, self.decide, lambda _: self.stored, lambda: 1_000, 0.001)
        return Delivery(HOOK, self.stored, Progress(), outside)


def event(offset: int, kind: Kind = Kind.MODE_SET) -> Event:
    return Event(offset, 0, kind, context=".", subject="s")


def advance(since: int, to: int) -> AdvanceWebhook:
    return AdvanceWebhook("h", "00", since, to)


def delivered(place: Place, until: Callable[[], bool] | None = None) -> Delivery:
    """Run a delivery to the end of the log, or until it waits for ever after ``until`` holds."""
    delivery = place.delivery()

    async def run() -> None:
        task = asyncio.create_task(delivery.run())
        there = until or place.stopped.is_set
        await until_async(lambda: there() or task.done(), "the delivery to get there")
        assert not task.done()
        task.cancel()

    asyncio.run(run())
    return delivery


def test_the_position_is_written_before_the_next_event_is_sent() -> None:
    place = Place(event(5), event(6, Kind.CONFIG_SET), event(9))
    delivery = delivered(place)
    assert place.done == [5, advance(0, 6), 9, advance(6, 10)]
    assert (delivery.position, delivery.reached, delivery.progress.delivered) == (10, 100, 2)


def test_an_event_is_sent_until_it_is_accepted() -> None:
    place = Place(event(5))
    place.refusals = [Undelivered("no"), Undelivered("no", status=500)]
    delivery = delivered(place)
    assert place.done == [5, 5, 5, advance(0, 6)]
    assert (delivery.progress.failed, delivery.progress.failures, delivery.progress.last_error) == (2, 0, "")


def test_a_receiver_that_wants_no_more_gets_no_more() -> None:
    place = Place(event(5), event(6))
    place.refusals = [Undelivered("gone", status=410)]
    delivered(place, lambda: len(place.done) >= 2)
    assert place.done == [5, DisableWebhook("h", 3, "the receiver answered 410")]


def test_records_that_are_skipped_move_the_position_now_and_then() -> None:
    place = Place(event(1, Kind.CONFIG_SET), end=SKIPPED_MAX - 1)
    assert delivered(place).reached == SKIPPED_MAX - 1
    assert place.done == []
    place = Place(end=SKIPPED_MAX)
    assert delivered(place).position == SKIPPED_MAX
    assert place.done == [advance(0, SKIPPED_MAX)]


def test_records_that_the_log_has_lost_are_counted_until_the_webhook_or_its_position_changes() -> None:
    place = Place(event(60))
    place.oldest, place.stored = 50, 20
    delivery = delivered(place)
    assert place.done == [60, advance(20, 61)]
    assert delivery.progress.missed == 30
    assert delivery.progress.members(HOOK, 61, 0, "")["missed"] == 30
    delivery.progress.begin()
    assert "missed" not in delivery.progress.members(HOOK, 61, 0, "")


def test_a_webhook_from_the_beginning_misses_nothing_wherever_that_is() -> None:
    place = Place(event(60))
    place.oldest = 50
    assert delivered(place).progress.missed == 0


def test_a_position_that_somebody_else_has_moved_meanwhile_is_followed() -> None:
    place = Place(event(5), event(6))

    def moved(command: Command) -> Outcome | None:
        if len(place.done) > 2:
            return None
        place.stored = 2
        return Done(b"", 0)

    place.on_decide = moved
    delivered(place)
    assert place.done == [5, advance(0, 6), 5, advance(2, 6), 6, advance(6, 7)]


def test_a_move_is_noticed_at_any_other_time() -> None:
    place = Place(event(5))
    delivery = delivered(place)
    assert delivery.stands_at(6)
    assert not delivery.stands_at(5)


def test_nothing_is_sent_while_the_position_cannot_be_written() -> None:
    place = Place(event(5), event(6))
    place.on_decide = lambda command: NotPrimary()
    delivered(place, lambda: len(place.done) >= 2)
    assert place.done == [5, advance(0, 6)]


@pytest.mark.parametrize(
    ("webhook", "wanted"),
    [
        (Webhook(url="u", id="0"), True),
        (Webhook(url="u", id="0", kinds=["mode_set"]), True),
        (Webhook(url="u", id="0", kinds=["config_set"]), False),
        (Webhook(url="u", id="0", kinds=["of_a_later_version"]), False),
        (Webhook(url="u", id="0", subject_prefix="s"), True),
        (Webhook(url="u", id="0", subject_prefix=":.c:s"), False),
    ],
)
def test_filters_choose_events(webhook: Webhook, wanted: bool) -> None:
    assert filter_of(webhook).admits(event(1)) is wanted
