"""Listeners of the feed, their senders, and the events that these may see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from enum import Enum
from typing import NamedTuple

from registry.domain.errors import RegistryError
from registry.domain.events import Event, Filter, Kind
from registry.domain.model import Subject
from registry.security.client_address import client_network
from registry.security.gate import Access, Admission, Credentials, Gate, Permission

from .contract import Stream
from .ring import RingEntry

# What a principal needs for events about a context, as for reading what they are about.
_OF_CONTEXT = {
    Kind.CONFIG_SET: (Permission.CONFIG, Permission.ADMIN),
    Kind.CONFIG_DELETED: (Permission.CONFIG, Permission.ADMIN),
    Kind.MODE_SET: (Permission.MODE, Permission.ADMIN),
    Kind.MODE_DELETED: (Permission.MODE, Permission.ADMIN),
}


def is_visible(event: Event, access: Access) -> bool:
    """Return true if an event may be shown: of subjects to readers, of the cluster to administrators."""
    owner: Subject | None = event.owner
    if owner is None:
        return access.everywhere(Permission.ADMIN)
    if not owner.is_context:
        return access.may(Permission.READ, owner)
    return any(access.may(each, owner) for each in _OF_CONTEXT.get(event.kind, (Permission.READ,)))


class EventFilter(NamedTuple):
    """The events that are shown to a listener. Listeners with the same share what is printed for it."""

    wanted: Filter
    access: Access

    def shows(self, entry: RingEntry) -> bool:
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


class ListenerState(Enum):
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
        self.state = ListenerState.CATCHING_UP
        sender.listeners.add(self)

    @property
    def event_filter(self) -> EventFilter:
        """The events that it is shown now."""
        return EventFilter(self.wanted, self.sender.access)


class Senders:
    """Looks up again what senders may see, and verifies their credentials again when they have expired.

    ``suspend`` is called with each listener that must not be sent anything for now, ``resume`` with each that
    may be sent what it lacks. The streams of senders that are refused end.
    """

    def __init__(
        self, gate: Gate, *, suspend: Callable[[Listener], None], resume: Callable[[Listener], None]
    ) -> None:
        self._gate = gate
        self._suspend = suspend
        self._resume = resume
        self._senders: dict[Credentials, Sender] = {}
        self._unverified: dict[Sender, None] = {}  # in their order
        self._verifying: asyncio.Task[None] | None = None

    def get(self, credentials: Credentials, access: Access) -> Sender:
        """Return the sender with these credentials; a new one has this access."""
        found = self._senders.get(credentials)
        if found is None:
            found = self._senders[credentials] = Sender(credentials, access)
        return found

    def forget(self, listener: Listener) -> None:
        """Forget a listener that has closed."""
        sender = listener.sender
        sender.listeners.discard(listener)
        if not sender.listeners and self._senders.get(sender.credentials) is sender:
            del self._senders[sender.credentials]

    def check_all(self) -> None:
        """Look up what all senders may see now."""
        for sender in tuple(self._senders.values()):
            self.check(sender)

    def check(self, sender: Sender) -> bool:
        """Look up what a sender may see now; return false if its credentials have to be verified again."""
        found = self._gate.cached_admission(sender.credentials)
        if found is not None:
            self._admit(sender, found.access)
            return True
        sender.suspended = True
        for listener in sender.listeners:
            self._suspend(listener)
        self._unverified[sender] = None
        if self._verifying is None:
            self._verifying = asyncio.create_task(self._verify())
        return False

    def stop(self) -> None:
        """Verify nothing any more."""
        if self._verifying is not None:
            self._verifying.cancel()

    def _admit(self, sender: Sender, access: Access) -> None:
        """Let the listeners of a sender go on, with what it may see now."""
        if access is not sender.access:
            for listener in sender.listeners:
                if listener.state is ListenerState.LIVE:
                    self._suspend(listener)
            sender.access, sender.suspended = access, True
        if sender.suspended:
            sender.suspended = False
            for listener in sender.listeners:
                if listener.state is ListenerState.UNVERIFIED:
                    self._resume(listener)

    async def _verify(self) -> None:
        """Verify credentials again, one after another."""
        try:
            while self._unverified:
                sender = next(iter(self._unverified))
                del self._unverified[sender]
                try:
                    admission = await self._gate.admit(sender.credentials)
                except RegistryError:
                    for listener in tuple(sender.listeners):
                        listener.stream.end()
                else:
                    self._admit(sender, admission.access)
        finally:
            self._verifying = None
