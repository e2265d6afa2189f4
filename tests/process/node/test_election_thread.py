"""A node that was elected but cannot write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from election.contract import Event, Identity, Lost, StaticElection, Won
from registry.node.leadership.election_thread import ElectionThread
from tests.support.running import until


class Node:
    """The interface between an election and a node, with the events that it got."""

    def __init__(self) -> None:
        self.reading, self.error = False, ""
        self.events: list[type[Event]] = []

    @contextmanager
    def takes_part(self, timeout_s: float) -> Iterator[None]:
        electing = ElectionThread(
            lambda: StaticElection(Identity("http", "127.0.0.1", 8081, True)),
            lambda event: self.events.append(type(event)),
            last_error=lambda: self.error,
            reading=lambda: self.reading,
            timeout_s=timeout_s,
        )
        thread = threading.Thread(target=electing.run)
        thread.start()
        try:
            yield
        finally:
            electing.close(10)
            thread.join(10)

    def hears(self, *events: type[Event]) -> None:
        until(lambda: self.events == list(events), 30, f"{events}, but it was {self.events}")


def test_a_node_that_still_reads_the_log_leaves_writing_to_others_at_once() -> None:
    node = Node()
    node.reading = True
    with node.takes_part(timeout_s=3600):
        node.hears(Won, Lost)
        node.reading = False
        node.hears(Won, Lost, Won)


def test_a_node_that_cannot_write_for_long_leaves_it_to_others_until_it_can() -> None:
    node = Node()
    with node.takes_part(timeout_s=0.1):
        node.hears(Won)
        node.error = "the log is out of reach"
        node.hears(Won, Lost)
        node.error = ""
        node.hears(Won, Lost, Won)
