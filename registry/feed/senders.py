"""The senders of listeners: a stream must not go on with rights that its sender has lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from registry.domain.errors import RegistryError
from registry.security.access import Access
from registry.security.gate import Credentials, Gate

from .listener import Listener, Sender, State


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

    def left(self, listener: Listener) -> None:
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
        found = self._gate.known(sender.credentials)
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
                if listener.state is State.LIVE:
                    self._suspend(listener)
            sender.access, sender.suspended = access, True
        if sender.suspended:
            sender.suspended = False
            for listener in sender.listeners:
                if listener.state is State.UNVERIFIED:
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
