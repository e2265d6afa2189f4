"""The senders of listeners: a stream must not go on with rights that its sender has lost."""

from __future__ import annotations

import asyncio
from collections import deque
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
        self._unverified: deque[Sender] = deque()  # bounded by the number of senders
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
            self._change(sender, found.access)
            return True
        for listener in sender.listeners:
            self._suspend(listener)
        if sender not in self._unverified:
            self._unverified.append(sender)
        if self._verifying is None:
            self._verifying = asyncio.create_task(self._verify())
        return False

    def stop(self) -> None:
        """Verify nothing any more."""
        if self._verifying is not None:
            self._verifying.cancel()

    def _change(self, sender: Sender, access: Access) -> None:
        suspended = [each for each in sender.listeners if each.state is State.UNVERIFIED]
        if access is not sender.access:
            moved = [each for each in sender.listeners if each.state is State.LIVE]
            for listener in moved:
                self._suspend(listener)
            sender.access = access
            suspended += moved
        for listener in suspended:
            self._resume(listener)

    async def _verify(self) -> None:
        """Verify credentials again, one after another."""
        try:
            while self._unverified:
                sender = self._unverified.popleft()
                try:
                    admission = await self._gate.admit(sender.credentials)
                except RegistryError:
                    for listener in tuple(sender.listeners):
                        listener.stream.end()
                else:
                    self._change(sender, admission.access)
        finally:
            self._verifying = None
