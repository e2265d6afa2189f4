"""The node's side of the change feed: what the follower hands over, and what is told of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from registry.domain.errors import EVENTS_DELETED, RegistryError
from registry.domain.events import Event, decode_event, event_of
from registry.domain.log_format.records import Record, context_key
from registry.feed.contract import Page
from registry.feed.ring import COUNT_MAX
from registry.log.contract import Fetched
from registry.node import feed as feed_module
from registry.node.feed import NodeFeed


class ListLog:
    """A log that is a list; those before ``oldest`` were deleted, and compaction removed some others."""

    identity = "a log"

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.oldest = 0
        self.compacted: set[int] = set()

    def append(self, count: int) -> list[Record]:
        begin = len(self.records)
        self.records += [
            Record(offset, 1, context_key(f".c{offset}"), b"{}") for offset in range(begin, begin + count)
        ]
        return self.records[begin:]

    def read_again(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        begin = max(offset, self.oldest)
        found = self.records[begin : begin + records_max]
        return Fetched([each for each in found if each.offset not in self.compacted], begin + len(found))

    def query_start(self) -> int:
        return self.oldest


@pytest.fixture
def log() -> ListLog:
    return ListLog()


@pytest.fixture
def feed(log: ListLog) -> Iterator[NodeFeed]:
    with closing(NodeFeed(log, 0, soon=lambda call: call())) as feed:
        yield feed


def told(feed: NodeFeed, position: int) -> Page:
    return asyncio.run(feed.events(position, 0.0))


def offsets(feed: NodeFeed, position: int) -> list[int]:
    """Return the offsets of all events from ``position`` on, page by page."""
    found: list[int] = []
    while (page := told(feed, position)).next > position:
        found += [decode_event(each).offset for each in page.events]
        position = page.next
    return found


def test_events_are_reported_up_to_what_was_applied_and_name_the_log(feed: NodeFeed, log: ListLog) -> None:
    assert told(feed, 0) == Page([], 0, "a log")
    feed.add_records(log.append(3), 3)
    log.append(2)
    assert offsets(feed, 0) == [0, 1, 2]
    assert told(feed, 1).log == "a log"
    assert told(feed, 9) == Page([], 9, "a log")


def test_a_step_that_memory_cannot_hold_is_read_from_memory_and_the_log(feed: NodeFeed, log: ListLog) -> None:
    assert offsets(feed, 0) == []
    feed.add_records(log.append(10), 10)
    feed.add_records(log.append(COUNT_MAX + 100), COUNT_MAX + 110)
    assert offsets(feed, 0) == [*range(COUNT_MAX + 110)]
    assert offsets(feed, 200) == [*range(200, COUNT_MAX + 110)]


def test_a_step_whose_records_are_not_known_is_read_from_the_log(feed: NodeFeed, log: ListLog) -> None:
    assert offsets(feed, 0) == []
    log.append(5)
    feed.add_records(None, 5)
    feed.add_records(log.append(1), 6)
    assert offsets(feed, 2) == [2, 3, 4, 5]


def test_a_listener_is_told_that_the_log_no_longer_has_what_it_lacks(feed: NodeFeed, log: ListLog) -> None:
    log.append(8)
    feed.add_records(None, 8)
    log.oldest = 8
    with pytest.raises(RegistryError) as raised:
        told(feed, 3)
    assert raised.value.code == EVENTS_DELETED.code
    assert told(feed, 0) == Page([], 8, "a log"), "from the beginning, wherever that is"


def test_older_events_are_read_from_the_log_up_to_what_was_applied(feed: NodeFeed, log: ListLog) -> None:
    log.append(8)
    feed.add_records(None, 5)
    page = told(feed, 2)
    assert ([decode_event(each).offset for each in page.events], page.next) == ([2, 3, 4], 5)


def test_what_compaction_has_removed_is_passed_over(feed: NodeFeed, log: ListLog) -> None:
    log.append(8)
    feed.add_records(None, 8)
    log.compacted = {*range(3, 8)}
    assert told(feed, 3) == Page([], 8, "a log")
    assert offsets(feed, 0) == [0, 1, 2]


def test_clients_are_answered_while_the_events_of_a_step_are_derived(
    feed: NodeFeed, log: ListLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = []

    def derived(record: Record) -> Event | None:
        asking = threading.Thread(target=lambda: answered.append(told(feed, 0)), daemon=True)
        asking.start()
        asking.join(10)
        return event_of(record)

    assert offsets(feed, 0) == []
    monkeypatch.setattr(feed_module, "event_of", derived)
    feed.add_records(log.append(1), 1)
    assert answered == [Page([], 0, "a log")]
    assert offsets(feed, 0) == [0]
