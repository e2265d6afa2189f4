"""Messages between nodes, as msgpack in the bodies of HTTP/2 requests and in frames.

Unknown members are ignored and missing ones have defaults, so that nodes of adjacent releases understand
each other during a rolling upgrade.
"""

from __future__ import annotations

import msgspec

from registry.domain.commands import (
    Outcome,
)
from registry.domain.pending_command import CommandRequest

OF_PEERS = "/peer/"
COMMANDS = "/peer/commands"
IDENTITY = "/peer/identity"
WATCH = "/peer/watch"
REPORTS = "/peer/reports"


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
