"""What the peers ask of the node whose part they are, and how a command is handed to whoever decides it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from election.contract import Identity
from registry.domain.commands import Command, IdempotencyKey, Outcome

Answer = Callable[[Outcome], None]


class Asked(NamedTuple):
    """A command, and all that travels with it."""

    command: Command
    deadline: float
    """Event-loop time."""
    request_id: str = ""
    forwarded: bool = False
    """Another node sent it because it takes this one for the primary: it is not handed on."""
    idempotency_key: IdempotencyKey | None = None
    """Given where it came in, if it was."""
    # True if it was sent before with its idempotency key and may have been done.
    doubt: bool = False


Offer = Callable[[Asked, Answer], None]
"""Takes a command and does not wait; the answer is called once, with anything but ``NotPrimary``."""


async def decided(offer: Offer, asked: Asked) -> Outcome:
    """What ``offer`` answers."""
    answered: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def answer(outcome: Outcome) -> None:
        if not answered.done():
            answered.set_result(outcome)

    offer(asked, answer)
    return await answered


class Host(Protocol):
    """The node. Used on its event loop."""

    @property
    def role(self) -> str:
        """``primary``, ``secondary`` or ``following``."""
        ...

    @property
    def primary(self) -> Identity | None:
        """The present primary, which may be this node itself; ``None`` while none is known."""
        ...

    @property
    def repeats(self) -> bool:
        """Whether the own writer does a command that is sent again with its idempotency key only once."""
        ...

    def submit(
        self,
        command: Command,
        answer: Answer,
        wait_s: float | None = None,
        idempotency_key: IdempotencyKey | None = None,
        *,
        later: bool = False,
    ) -> bool:
        """Queue a command for the own writer; ``answer`` is called once. ``False``: too many wait.

        ``wait_s``: how long it may wait while the log is out of reach. ``later``: what takes long to decide
        is answered with :class:`Later`.
        """
        ...

    def when_role_changes(self, call: Callable[[], None]) -> object:
        """Have ``call`` called after each change of the role or of the primary."""
        ...

    async def reach_async(self, offset: int, timeout_s: float) -> bool:
        """Wait until the store holds the log up to ``offset``; whether it does."""
        ...

    async def confirm(self, timeout_s: float) -> bool:
        """Wait until the store is as new as the log was at the call; whether it is."""
        ...

    def applied(self) -> int:
        """The offset up to which the store holds the log."""
        ...

    async def evict(self, identity: Identity) -> bool:
        """Have the election forget the primary ``identity``, at which nobody listens; whether it did."""
        ...
