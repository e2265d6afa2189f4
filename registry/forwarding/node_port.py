"""Messages between nodes, and the port through which peers use their node.

A frame is its length (4 bytes, of what follows), its number (4 bytes), its body, and a seal of 16 bytes if
the nodes share a secret. A seal also covers the direction and the number of frames before it, so that no
frame can be forged, changed, dropped, replayed or reflected.

Unknown members are ignored and missing ones have defaults, so that nodes of adjacent releases understand
each other during a rolling upgrade.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from election.contract import Identity
from registry.domain.commands import Done, NotPrimary, Outcome, Unknown
from registry.domain.errors import outcome_unknown
from registry.domain.log_format.records import AppendedBatch
from registry.domain.pending_command import CommandRequest, PendingCommand, Submit
from registry.host.tracing.contract import NO_TRACING, Tracing

# The first bytes of a stream, which distinguish it from HTTP/2 on the same port.
PREFACE = b"REGISTRAR STREAM 1\r\n\r\n"
SEAL_BYTES = 16

_HEAD = struct.Struct(">II")
_LENGTH_BYTES = 4
_COUNT = struct.Struct(">Q")


class BadFrame(Exception):
    """A frame that is too long or has a wrong seal."""


class Frame(NamedTuple):
    """A frame's number and body."""

    number: int
    body: bytes


class Sender:
    """Writes the frames of one direction; an empty ``key`` means no seals."""

    def __init__(self, direction: bytes) -> None:
        self._direction = direction
        self._key = b""
        self._count = 0

    def seal(self, key: bytes) -> None:
        """Seal the following frames."""
        self._key = key

    def frame(self, number: int, body: bytes) -> bytes:
        """Return the encoded frame."""
        if not self._key:
            return _HEAD.pack(_LENGTH_BYTES + len(body), number) + body
        sealed = _HEAD.pack(_LENGTH_BYTES + len(body) + SEAL_BYTES, number) + body
        self._count += 1
        return sealed + _seal(self._key, self._direction, self._count, sealed)


class Receiver:
    """Splits the bytes of one direction into frames of at most ``bytes_max``."""

    def __init__(self, direction: bytes, bytes_max: int) -> None:
        self._direction = direction
        self._bytes_max = bytes_max
        self._key = b""
        self._count = 0
        self._pending = bytearray()

    def seal(self, key: bytes, bytes_max: int) -> None:
        """Accept only sealed frames from now on, of at most that length."""
        self._key, self._bytes_max = key, bytes_max

    def frames(self, data: bytes) -> Iterator[Frame]:
        """Return the frames that end in ``data``. Raises :class:`BadFrame`."""
        self._pending += data
        while len(self._pending) >= _HEAD.size:
            length, number = _HEAD.unpack_from(self._pending)
            seal_bytes = SEAL_BYTES if self._key else 0
            if not _LENGTH_BYTES + seal_bytes <= length <= self._bytes_max:
                raise BadFrame(f"a frame of {length} bytes")
            end = _LENGTH_BYTES + length
            if len(self._pending) < end:
                return
            whole = bytes(memoryview(self._pending)[:end])
            del self._pending[:end]
            yield Frame(number, self._unseal(whole) if self._key else whole[_HEAD.size :])

    def _unseal(self, whole: bytes) -> bytes:
        self._count += 1
        sealed = whole[:-SEAL_BYTES]
        seal = _seal(self._key, self._direction, self._count, sealed)
        if not hmac.compare_digest(seal, whole[-SEAL_BYTES:]):
            raise BadFrame("a frame without a valid seal of the other node")
        return sealed[_HEAD.size :]


def _seal(key: bytes, direction: bytes, count: int, sealed: bytes) -> bytes:
    return hmac.digest(key, b"%b%b%b" % (direction, _COUNT.pack(count), sealed), "sha256")[:SEAL_BYTES]


OF_PEERS = "/peer/"
COMMANDS = "/peer/commands"
IDENTITY = "/peer/identity"
WATCH = "/peer/watch"
REPORTS = "/peer/reports"
ASKS = "/peer/asks"
ENDED_SESSIONS = "/peer/sessions"
AUDIT = "/peer/audit"
# What answers further questions, by their paths: the body of each; ``msgspec.DecodeError``: it is malformed.
Answers = Mapping[str, Callable[[bytes], Awaitable[bytes]]]


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


class LoggedOutcomes(Outcomes, frozen=True, omit_defaults=True):
    """The outcome of a single command, with its records, so that its sender need not fetch them."""

    # The identity of the log, and the records as it holds them, packed.
    log: str = ""
    records: bytes = b""
    # The leader epoch in which the log took them; -1: unknown, as from older releases.
    epoch: int = -1


class PeerStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node's identity and role."""

    node: str
    # Its public URL.
    url: str
    # primary, secondary or following.
    role: str
    # Its own clock, which signed requests to it must name (signing.py).
    clock_ms: int = 0
    # True if it honors idempotency keys.
    repeats: bool = False
    # True if it decides conditions of commands, which nodes of earlier releases ignore, and knows the
    # commands of a census.
    conditions: bool = False


encode = msgspec.msgpack.Encoder().encode
decode_batch = msgspec.msgpack.Decoder(Batch).decode
_decode_outcomes = msgspec.msgpack.Decoder(LoggedOutcomes).decode
decode_status = msgspec.msgpack.Decoder(PeerStatus).decode


def outcomes_of(body: bytes, count: int) -> LoggedOutcomes:
    """Decode the outcomes of ``count`` commands. Raises ``msgspec.DecodeError``."""
    reply = _decode_outcomes(body)
    if len(reply.outcomes) != count:
        raise msgspec.DecodeError(f"{len(reply.outcomes)} outcomes of {count} commands")
    return reply


async def outcome_of(submit: Submit, pending: PendingCommand) -> Outcome:
    """Submit a command and return its outcome."""
    replied: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def on_reply(outcome: Outcome) -> None:
        if not replied.done():
            replied.set_result(outcome)

    pending.reply = on_reply
    submit(pending)
    return await replied


class NodePort(Protocol):
    """A node, as its peers use it on its event loop."""

    @property
    def role(self) -> str:
        """``primary``, ``secondary`` or ``following``."""
        ...

    @property
    def primary(self) -> Identity | None:
        """The current primary, which may be this node; ``None`` while none is known."""
        ...

    @property
    def repeats(self) -> bool:
        """True if the local writer honors idempotency keys."""
        ...

    def submit(self, pending: PendingCommand) -> None:
        """Queue a command for the local writer."""
        ...

    def when_role_changes(self, call: Callable[[], None]) -> object:
        """Register a callback for changes of the role or the primary."""
        ...

    async def reach_async(self, offset: int, timeout_s: float) -> bool:
        """Wait until the store has applied what the primary has appended for this node; return True if so."""
        ...

    @property
    def log_identity(self) -> str:
        """The identity of the log."""
        ...

    def last_append(self, end: int) -> AppendedBatch | None:
        """Return the local writer's last append if it ends at ``end`` and is small."""
        ...

    def take_append(self, log: str, batch: AppendedBatch) -> None:
        """Apply what the primary has appended to a log, if that is this node's and it comes next."""
        ...

    def expect_records(self) -> None:
        """Say that the primary is about to append records for which this node will wait."""
        ...

    async def confirm(self, timeout_s: float) -> bool:
        """Wait until the store has applied the log up to its end at the call; return True if so."""
        ...

    def applied(self) -> int:
        """Return the offset up to which the store has applied the log."""
        ...

    async def evict(self, identity: Identity) -> bool:
        """Evict the primary ``identity``, whose port is closed, from the election; return True if removed."""
        ...


_LATE = outcome_unknown("The log did not answer in time")
_log = logging.getLogger(__name__)


class BatchDecider:
    """Has batches decided while the node is primary; ``level`` is that of a log line for each command."""

    def __init__(self, node_port: NodePort, level: int, tracing: Tracing = NO_TRACING) -> None:
        self._node_port = node_port
        self._submit = tracing.trace_commands(node_port.submit, from_peer=True)
        self._level = level

    async def outcomes(self, body: bytes) -> bytes:
        """Return the outcomes of a batch, packed; empty if it is malformed."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.decide(body, answer.set_result)
        return await asyncio.shield(answer)

    def decide(self, body: bytes, answered: Callable[[bytes], None]) -> None:
        """Decide a batch; ``answered`` is called once, with ``b""`` if it is malformed."""
        try:
            batch = decode_batch(body)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            _log.warning("a peer sent a malformed batch of commands: %s", error)
            answered(b"")
            return
        if self._node_port.role != "primary":
            answered(encode(Outcomes([NotPrimary()] * len(batch.requests))))
            return
        end = self._node_port.applied()
        self._decide(batch, lambda outcomes: answered(encode(self._reply(outcomes, end))))

    def _reply(self, outcomes: list[Outcome], end: int) -> Outcomes:
        match outcomes:
            case [Done(_, offset)] if batch := self._node_port.last_append(offset):
                return LoggedOutcomes(outcomes, end, self._node_port.log_identity, *batch)
        return Outcomes(outcomes, end)

    def _decide(self, batch: Batch, answered: Callable[[list[Outcome]], None]) -> None:
        outcomes: list[Outcome | None] = [None] * len(batch.requests)
        left, ended = len(batch.requests), False

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                timer.cancel()
                late = Unknown(_LATE, repeats=self._node_port.repeats)
                answered([late if outcome is None else outcome for outcome in outcomes])

        def record_outcome(place: int, outcome: Outcome) -> None:
            nonlocal left
            outcomes[place] = outcome
            left -= 1
            if not left:
                end()

        longest_s = max((each.remaining_s for each in batch.requests), default=0.0)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(longest_s, end)
        for place, request in enumerate(batch.requests):
            self._log_request(batch.node, request)
            deadline = loop.time() + request.remaining_s
            reply = partial(record_outcome, place)
            self._submit(
                PendingCommand(request, deadline, reply, deferrable=batch.deferrable, once_logged=True)
            )
        if not batch.requests:
            end()

    def _log_request(self, node: str, request: CommandRequest) -> None:
        if _log.isEnabledFor(self._level):
            name = type(request.command).__name__
            _log.log(self._level, "%s forwarded by node %s, request %s", name, node, request.request_id)
