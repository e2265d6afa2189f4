"""Messages between nodes, as msgpack in the bodies of HTTP/2 requests and in frames.

Unknown members are ignored and missing ones have defaults, so that nodes of adjacent releases understand
each other during a rolling upgrade.
"""

from __future__ import annotations

from typing import get_args

import msgspec

from registry.domain.commands import (
    Associate,
    ChangeAssociations,
    Command,
    Dissociate,
    Outcome,
    Register,
    ReleaseIds,
    RequestSnapshot,
    TagVersion,
    WebhookCommand,
)
from registry.domain.pending_command import CommandRequest

OF_PEERS = "/peer/"
COMMANDS = "/peer/commands"
IDENTITY = "/peer/identity"
WATCH = "/peer/watch"
REPORTS = "/peer/reports"
STREAM = "stream"
REPORTS_FEATURE = "reports"
# Capabilities beyond those of every release; STREAM (stream.py) is one of them.
FEATURES = ("associations", "checked", "ids", "snapshots", "tags", "webhooks", STREAM, REPORTS_FEATURE)
_FEATURES: dict[type, str] = {
    Associate: "associations",
    Dissociate: "associations",
    ChangeAssociations: "associations",
    RequestSnapshot: "snapshots",
    # An older primary would take the resolved name for an alias, and resolve it again.
    TagVersion: "checked",
    ReleaseIds: "ids",
    **dict.fromkeys(get_args(WebhookCommand), "webhooks"),
}


class Batch(msgspec.Struct, frozen=True):
    """Commands for a node that should be primary; answered by :class:`Outcomes`."""

    requests: list[CommandRequest] = msgspec.field(name="wanted")
    node: str = ""
    # True if slow commands may be answered with Deferred; the sender then repeats each in a batch of its own.
    deferrable: bool = msgspec.field(default=False, name="later")


class Outcomes(msgspec.Struct, frozen=True):
    """The outcomes of a batch's commands, in order."""

    outcomes: list[Outcome]
    # The log's end before they were decided; later idempotency keys may begin there.
    end: int = 0


class PeerStatus(msgspec.Struct, frozen=True):
    """A node's identity and role."""

    node: str
    # Its public URL.
    url: str
    # primary, secondary or following.
    role: str
    # Its own clock, which signed requests to it must name (signing.py).
    clock_ms: int = 0
    # True if it honours idempotency keys.
    repeats: bool = False
    # See FEATURES; older nodes send none.
    features: tuple[str, ...] = ()

    def can(self, command: Command) -> bool:
        """Return True if the node understands the command; otherwise it would reject the whole batch."""
        tags = isinstance(command, Register) and command.changes_tags
        feature = "tags" if tags else _FEATURES.get(type(command))
        return feature is None or feature in self.features


encode = msgspec.msgpack.Encoder().encode
decode_batch = msgspec.msgpack.Decoder(Batch).decode
_decode_outcomes = msgspec.msgpack.Decoder(Outcomes).decode
decode_status = msgspec.msgpack.Decoder(PeerStatus).decode


def outcomes_of(body: bytes, count: int) -> Outcomes:
    """Decode the outcomes of ``count`` commands. Raises ``msgspec.DecodeError``."""
    reply = _decode_outcomes(body)
    if len(reply.outcomes) != count:
        raise msgspec.DecodeError(f"{len(reply.outcomes)} outcomes of {count} commands")
    return reply
