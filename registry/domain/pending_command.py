"""Commands in progress: as processes send them to each other, and as a process holds them until the reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from .admission import size_of
from .commands import Condition, IdempotencyKey, Outcome, Submitted, repeatable
from .parsing.schema_queries import Facts
from .principal import ANONYMOUS, CheckedNames, Principal


class CommandRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command as it travels, from a reader to its node and from a secondary to the primary.

    Nodes of other versions read it: members keep their names on the wire, and new ones need defaults
    (``tests/unit/forwarding/test_wire_tags.py`` holds the bytes).
    """

    command: Submitted
    # Seconds that the sender still waits for the reply.
    remaining_s: float
    # ``X-Request-ID`` of the client's request.
    request_id: str = ""
    # The same in every attempt. A node that ignores it decides each attempt as a new command.
    idempotency_key: IdempotencyKey | None = msgspec.field(default=None, name="ticket")
    # Who sent the request, as the node or reader that answers it found; for policies and the audit log.
    principal: Principal = ANONYMOUS
    # The span that caused it, as in W3C's header ``traceparent``; empty if the sender does not trace.
    trace: str = ""
    # ``None``: the sender may do all that the command asks for, to any subject. Confluent's primary
    # resolves aliases again and does not compare.
    checked: CheckedNames | None = None
    # The kind of the principal, see :data:`.principal.KINDS`; empty if unknown.
    kind: str = ""
    # Decided with the command, over the same rows.
    condition: Condition | None = None


class Origin(NamedTuple):
    """Where a command comes from: the request that asked for it, and who sent that."""

    # ``X-Request-ID`` of the client's request.
    request_id: str = ""
    principal: Principal = ANONYMOUS
    # Another node sent it because it takes this one for the primary, so it must not be forwarded again.
    forwarded: bool = False
    # As in :class:`CommandRequest`.
    trace: str = ""
    checked: CheckedNames | None = None
    kind: str = ""
    # When the request's time is over, on its event loop's clock; ``None``: the process's own limit counts.
    until: float | None = None
    condition: Condition | None = None


NO_ORIGIN = Origin()

OnReply = Callable[[Outcome], None]


def _ignore(outcome: Outcome) -> None:
    pass


@dataclass(slots=True, eq=False)
class PendingCommand:
    """A command that waits for its reply in this process."""

    request: CommandRequest
    # When its sender stops waiting, by the clock of event loops, which is ``time.monotonic()``.
    deadline: float
    # Called once, on the event loop.
    reply: OnReply = _ignore
    # Another node sent it because it takes this one for the primary, so it must not be forwarded again.
    forwarded: bool = False
    # It was sent before under its idempotency key, and may have been executed.
    in_doubt: bool = False
    # The sender accepts :class:`Deferred` as a reply.
    deferrable: bool = False
    # Its sender applies the records itself before it replies: it is answered once the log has them.
    once_logged: bool = False
    # The node that got it last executes it only once, however often it is sent under its key.
    repeats: bool = False
    # Answers to the schema queries for which the writer postponed it, and the seconds of work they took.
    facts: Facts = field(default_factory=dict)
    spent_s: float = 0.0
    # Bytes of memory.
    size: int = 0

    def __post_init__(self) -> None:
        """Measure the command, unless its size is known."""
        self.size = self.size or size_of(self.request.command, self.request.checked, self.request.condition)

    @property
    def command(self) -> Submitted:
        """The command itself."""
        return self.request.command

    @property
    def repeatable(self) -> bool:
        """True if it can be sent again without an idempotency key."""
        return repeatable(self.request.command, self.request.condition)

    def attempt(self, *, deferrable: bool = False, in_doubt: bool = False) -> PendingCommand:
        """Return the same command for one attempt at one node, with a reply of its own."""
        return PendingCommand(
            self.request, self.deadline, in_doubt=in_doubt, deferrable=deferrable, size=self.size
        )


# Takes a command and returns at once; its ``reply`` is called exactly once.
Submit = Callable[[PendingCommand], None]
