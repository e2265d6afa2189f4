"""Nodes without processes: real peer endpoints and real clients over one log that is a list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from election.contract import Identity
from registry.base.processes.sockets import listen
from registry.domain.admission import Room
from registry.domain.commands import (
    Command,
    Deferred,
    Done,
    Forgotten,
    IdempotencyKey,
    NotPrimary,
    Outcome,
    refusal,
)
from registry.domain.decide import decide
from registry.domain.decide.ids import Ids
from registry.domain.errors import TOO_MANY_WRITES, UNAVAILABLE, RegistryError
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import AppendedBatch, Record
from registry.domain.parsing.parser import Parser
from registry.domain.pending_command import CommandRequest, OnReply, PendingCommand
from registry.domain.queries.scope import Defaults
from registry.domain.rows.memory_views import DictView
from registry.forwarding.authentication import Security
from registry.forwarding.node_port import ASKS
from registry.forwarding.peers import Peers

Log = list[Record]

# Capacity for commands that wait at a member for another one.
ROOM_BYTES = 2**22


class Member:
    """A node whose rows are the records of the log that it has applied."""

    def __init__(self, name: str, log: Log) -> None:
        self.name = name
        self.log = log
        self.rows = DictView()
        self.at = 0
        self.role = "following"
        self.primary: Identity | None = None
        self.decided: list[Command] = []
        # The keys of the decided commands.
        self.idempotency_keys: list[IdempotencyKey | None] = []
        # True if it honors idempotency keys.
        self.repeats = True
        self.remembers_since = 0
        self.evicted: list[Identity] = []
        # True if the writer answers the commands that it gets.
        self.answers = True
        self.unanswered: list[OnReply] = []
        # Subjects whose commands take as long as the test wants.
        self.long: set[str] = set()
        # Subjects whose commands are not answered.
        self.held: set[str] = set()
        self.full = False
        # How often it was told to expect records; whether each command may be answered once logged.
        self.expected = 0
        # True: it passes records on. Those that it was passed.
        self.passes_on = False
        self.taken: list[tuple[str, AppendedBatch]] = []
        self.once_logged: list[bool] = []
        self.peers: Peers
        self._calls: list[Callable[[], None]] = []
        self._ids, self._parser = Ids(), Parser()

    def submit(self, pending: PendingCommand) -> None:
        command, request = pending.command, pending.request
        self.once_logged.append(pending.once_logged)
        if self.full:
            pending.reply(refusal(TOO_MANY_WRITES()))
        elif getattr(command, "subject", None) in self.long:
            if pending.deferrable:
                asyncio.get_running_loop().call_soon(pending.reply, Deferred())
            else:
                self.unanswered.append(pending.reply)
        elif not self.answers or getattr(command, "subject", None) in self.held:
            self.unanswered.append(pending.reply)
            self.decided.append(command)
            self.idempotency_keys.append(request.idempotency_key)
        else:
            asyncio.get_running_loop().call_soon(pending.reply, self._decide(request))

    def _decide(self, request: CommandRequest) -> Outcome:
        command, idempotency_key = request.command, request.idempotency_key
        if self.role != "primary":
            return NotPrimary()
        if self.repeats and idempotency_key is not None and idempotency_key.since < self.remembers_since:
            return Forgotten()
        self.decided.append(command)
        self.idempotency_keys.append(idempotency_key)
        self._apply()
        try:
            decision = self._parser.run(
                decide(self.rows, command, self._ids, Defaults(checked=request.checked), self._parser.memory)
            )
        except RegistryError as error:
            return refusal(error)
        for entry in decision.entries:
            self.log.append(Record(len(self.log), 1_700_000_000_000, entry.key, entry.value))
        self._apply()
        return Done(decision.reply, len(self.log))

    def _apply(self) -> None:
        for record in self.log[self.at :]:
            self.rows.commit(apply(self.rows, record))
        self.at = len(self.log)

    def when_role_changes(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def becomes(self, role: str, primary: Identity | None) -> None:
        self.role, self.primary = role, primary
        for call in self._calls:
            call()

    async def reach_async(self, offset: int, timeout_s: float) -> bool:
        self._apply()
        return self.at >= offset

    async def confirm(self, timeout_s: float) -> bool:
        self._apply()
        return True

    def applied(self) -> int:
        return self.at

    log_identity = "log"

    def last_append(self, end: int) -> AppendedBatch | None:
        return AppendedBatch(b"%d" % end, 5) if self.passes_on else None

    def take_append(self, log: str, batch: AppendedBatch) -> None:
        self.taken.append((log, batch))

    def expect_records(self) -> None:
        self.expected += 1

    async def evict(self, identity: Identity) -> bool:
        self.evicted.append(identity)
        return len(self.evicted) > 1


class Group:
    """Some members; ``identities`` holds their advertised identities."""

    def __init__(self) -> None:
        self.log: Log = []
        self.members: list[Member] = []
        self.identities: list[Identity] = []

    def elect(self, number: int | None) -> None:
        """Make one of them the primary, or none, and notify all."""
        chosen = None if number is None else self.identities[number]
        for place, member in enumerate(self.members):
            mine = place == number
            member.becomes("primary" if mine else "secondary" if chosen else "following", chosen)


def _report(member: Member) -> bytes:
    return f"{member.name} is {member.role}".encode()


async def _answer(member: Member, body: bytes) -> bytes:
    if not body:
        raise UNAVAILABLE("not now")
    return f"{member.name} got {body.decode()}".encode()


@asynccontextmanager
async def group(count: int, *securities: Security) -> AsyncIterator[Group]:
    """Start ``count`` members with running endpoints; ``security`` may differ for each."""
    found = Group()
    for number in range(count):
        member = Member(f"n{number}", found.log)
        security = securities[number % len(securities)] if securities else Security()
        url = f"http://127.0.0.1:{8081 + number}"
        room = Room(10_000, ROOM_BYTES)
        listener = listen("127.0.0.1", 0, shared=False)
        peer = f"127.0.0.1:{listener.getsockname()[1]}"
        member.peers = Peers(
            member,
            security,
            node=member.name,
            url=url,
            body_bytes_max=2**20,
            room=room,
            report=partial(_report, member),
            address=lambda peer=peer: peer,
            answers={ASKS: partial(_answer, member)} if number else {},
        )
        await member.peers.start(listener)
        found.members.append(member)
        found.identities.append(
            Identity("http", "127.0.0.1", 8081 + number, True, peer=peer, node=member.name)
        )
    try:
        yield found
    finally:
        for member in found.members:
            await member.peers.stop(1.0)
