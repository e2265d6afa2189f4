"""What nodes say to each other, as msgpack in the bodies of HTTP/2 requests.

Unknown members are ignored and missing ones have defaults, so that nodes of neighbouring versions understand
each other during a rolling upgrade.
"""

from __future__ import annotations

import msgspec

from registry.domain.commands import (
    Associate,
    ChangeAssociations,
    Command,
    Dissociate,
    Outcome,
    Register,
    RequestSnapshot,
    TagVersion,
)
from registry.domain.pending_command import CommandRequest

COMMANDS = "/peer/commands"
IDENTITY = "/peer/identity"
WATCH = "/peer/watch"
STREAM = "stream"
FEATURES = ("associations", "snapshots", "tags", STREAM)
"""What this node can be asked for beyond what every node can; by a stream (:mod:`.stream`) among it."""
_FEATURES: dict[type, str] = {
    Associate: "associations",
    Dissociate: "associations",
    ChangeAssociations: "associations",
    RequestSnapshot: "snapshots",
    TagVersion: "tags",
}


class Batch(msgspec.Struct, frozen=True):
    """Commands for a node that should be primary; answered by :class:`Outcomes`."""

    requests: list[CommandRequest] = msgspec.field(name="wanted")
    node: str = ""
    """The id of the node that sends them."""
    later: bool = False
    """Whether what takes long may be answered with :class:`Later`, and then comes in a batch by itself."""


class Outcomes(msgspec.Struct, frozen=True):
    """One for each command of a batch, in its order."""

    outcomes: list[Outcome]
    end: int = 0
    """Where the log ended before they were decided: idempotency keys may begin there."""


class Standing(msgspec.Struct, frozen=True):
    """Who a node is and what it does now."""

    node: str
    """Its id."""
    url: str
    """Its public URL."""
    role: str
    """``primary``, ``secondary`` or ``following``."""
    clock_ms: int = 0
    """Its own clock, which only it reads: signed requests name it (:mod:`.signing`)."""
    repeats: bool = False
    """Whether it does a command that is sent again with its idempotency key only once."""
    features: tuple[str, ...] = ()
    """See :data:`FEATURES`; an older node tells of none."""

    def can(self, command: Command) -> bool:
        """Whether it would understand all of the command, and with it the batch that it comes in."""
        tags = isinstance(command, Register) and command.changes_tags
        feature = "tags" if tags else _FEATURES.get(type(command))
        return feature is None or feature in self.features


encode = msgspec.msgpack.Encoder().encode
decode_batch = msgspec.msgpack.Decoder(Batch).decode
_decode_outcomes = msgspec.msgpack.Decoder(Outcomes).decode
decode_standing = msgspec.msgpack.Decoder(Standing).decode


def outcomes_of(body: bytes, count: int) -> Outcomes:
    """The outcomes of ``count`` commands. Raises ``msgspec.DecodeError``."""
    said = _decode_outcomes(body)
    if len(said.outcomes) != count:
        raise msgspec.DecodeError(f"{len(said.outcomes)} outcomes of {count} commands")
    return said
