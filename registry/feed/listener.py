"""Listeners of the feed, and the senders of their requests."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import NamedTuple

from registry.domain.events.filter import Filter
from registry.security.access import Access
from registry.security.client_address import client_network
from registry.security.gate import Admission, Credentials

from .contract import Stream
from .ring import Entry
from .visibility import is_visible


class EventFilter(NamedTuple):
    """The events that are shown to a listener. Listeners with the same share what is printed for it."""

    wanted: Filter
    access: Access

    def shows(self, entry: Entry) -> bool:
        """Return true if the event is wanted and permitted."""
        return self.wanted.admits(entry.event) and is_visible(entry.event, self.access)


class Subscription(NamedTuple):
    """A client of the feed, and the events that it wants."""

    wanted: Filter
    credentials: Credentials
    admission: Admission

    @property
    def client(self) -> Hashable:
        """By what clients are counted: the principal or, without one, the address."""
        name = self.admission.principal.name
        return (self.admission.kind, name) if name else client_network(self.credentials.address)


class State(Enum):
    """The states of a listener, by what it waits for."""

    LIVE = "the next events"
    CATCHING_UP = "its turn to get older events"
    BEHIND = "its client, which reads too slowly"
    AHEAD = "the feed, which has not reached its position or cannot be read"
    UNVERIFIED = "its credentials, which have to be verified again"
    CLOSED = "nothing"


class Sender:
    """Credentials, what they permit, and the listeners that sent them."""

    __slots__ = ("access", "credentials", "listeners", "suspended")

    def __init__(self, credentials: Credentials, access: Access) -> None:
        self.credentials = credentials
        self.access = access
        self.listeners: set[Listener] = set()
        # True if listeners may be unverified.
        self.suspended = False


class Listener:
    """An open answer, and the position from which on its client has not been sent the events."""

    __slots__ = ("position", "sender", "state", "stream", "wanted")

    def __init__(self, stream: Stream, wanted: Filter, sender: Sender, position: int) -> None:
        self.stream = stream
        self.wanted = wanted
        self.sender = sender
        self.position = position
        self.state = State.CATCHING_UP
        sender.listeners.add(self)

    @property
    def event_filter(self) -> EventFilter:
        """The events that it is shown now."""
        return EventFilter(self.wanted, self.sender.access)
