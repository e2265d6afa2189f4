"""A reader's connection to a node that ends and comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from registry.api.node_queries import PAST, OwnersAt
from registry.domain.commands import Command, DeleteSubject, Done, Outcome, Refused, Register
from registry.domain.errors import RegistryError
from registry.domain.history.moment import Moment
from registry.domain.pending_command import Origin
from registry.domain.principal import CheckedNames
from registry.ipc.messages import (
    NO_ANSWER,
    PIECE_BYTES,
    Decided,
    Framed,
    Query,
    Reply,
    State,
    Submit,
    decode_from_reader,
)
from registry.reader.node_client import NodeClient
from tests.support.running import until_async


class Node(Framed):
    """A node that ends at the first command, and answers the next one with ``outcome``."""

    asked: list[Command]
    checked: list[CheckedNames | None]
    remaining_s: list[float]
    outcome: Outcome

    def on_message(self, message: bytes) -> None:
        said = decode_from_reader(message)
        if isinstance(said, Submit):
            self.asked.append(said.request.command)
            self.checked.append(said.request.checked)
            self.remaining_s.append(said.request.remaining_s)
            if len(self.asked) == 1:
                self.transport.close()
            else:
                self.send(Decided(said.number, self.outcome))


class Restarted(Node):
    """A node that reports that it honors idempotency keys once it has started; after its first end, it is
    starting.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        starting = bool(self.asked)
        self.send(State(started=not starting, opening=starting, repeats=not starting))

    def on_message(self, message: bytes) -> None:
        said = decode_from_reader(message)
        if isinstance(said, Submit) and len(self.asked) in {1, 2}:
            self.asked.append(said.request.command)
            self.transport.close()
        else:
            super().on_message(message)


def submitted(
    path: Path,
    command: Command,
    outcome: Outcome,
    node: type[Node] = Node,
    checked: CheckedNames | None = None,
    left_s: float | None = None,
) -> Outcome:
    """Return the result of ``command`` if the first node ends before it answers, and the next has
    ``outcome``. ``left_s``: the seconds that are left of the request's time.
    """
    Node.asked, Node.checked, Node.remaining_s, Node.outcome = [], [], [], outcome
    states: list[State] = []

    async def submit() -> Outcome:
        server = await asyncio.get_running_loop().create_unix_server(node, path)
        client = NodeClient(path, timeout_s=30, wait_s=30, confirm_s=1, calls_max=10, changed=states.append)
        client.start()
        try:
            if node is not Node:
                await until_async(lambda: states, "the node's state")
            until = None if left_s is None else asyncio.get_running_loop().time() + left_s
            return await client.submit(command, Origin(checked=checked, until=until))
        finally:
            client.stop()
            server.close()

    return asyncio.run(asyncio.wait_for(submit(), 30))


def test_what_does_no_harm_twice_is_asked_again(tmp_path: Path) -> None:
    done = Done(b"{}", 1)
    assert submitted(tmp_path / "node", Register("s", "{}"), done) == done
    assert len(Node.asked) == 2


def test_a_command_has_what_is_left_of_its_requests_time(tmp_path: Path) -> None:
    done = Done(b"{}", 1)
    assert submitted(tmp_path / "node", Register("s", "{}"), done, left_s=4) == done
    assert all(0 < each <= 4 for each in Node.remaining_s)
    assert submitted(tmp_path / "node", Register("s", "{}"), done) == done
    assert max(Node.remaining_s) > 4


def test_a_refusal_after_a_lost_answer_does_not_say_that_nothing_was_done(tmp_path: Path) -> None:
    with pytest.raises(RegistryError) as told:
        submitted(tmp_path / "node", Register("s", "{}"), Refused(42205, "READONLY by now"))
    assert told.value.code == 50002


def test_what_may_do_harm_twice_is_not_asked_again(tmp_path: Path) -> None:
    with pytest.raises(RegistryError) as told:
        submitted(tmp_path / "node", DeleteSubject("s"), Done(b"[1]", 1))
    assert told.value.code == 50002
    assert len(Node.asked) == 1


def test_a_node_that_is_lost_again_while_it_starts_is_asked_until_it_answers(tmp_path: Path) -> None:
    done = Done(b"[1]", 1)
    assert submitted(tmp_path / "node", DeleteSubject("s"), done, Restarted) == done
    assert len(Node.asked) == 4


def test_a_command_carries_the_names_that_were_checked_in_every_attempt(tmp_path: Path) -> None:
    mine = CheckedNames(frozenset({"write"}), {"delete": frozenset({"s"})})
    submitted(tmp_path / "node", Register("s", "{}"), Done(b"{}", 1), checked=mine)
    assert Node.checked == [mine, mine]


class Kept(Framed):
    """Collects messages; ends the first connection with the first message after the node's."""

    # The subject of each command, and whether it may have been executed before.
    heard_of: list[tuple[str, bool]]

    def on_message(self, message: bytes) -> None:
        said = decode_from_reader(message)
        if isinstance(said, Submit):
            assert isinstance(said.request.command, Register)
            self.heard_of.append((said.request.command.subject, said.in_doubt))
            if said.request.command.subject == "end" and not said.in_doubt:
                self.transport.close()
            else:
                self.send(Decided(said.number, Done(said.request.command.schema.encode(), 1)))


def heard_of(path: Path, *commands: Register) -> list[tuple[str, bool]]:
    """Return a node's messages for commands that are sent at once, each answered with its schema."""
    Kept.heard_of = []

    async def submit() -> None:
        server = await asyncio.get_running_loop().create_unix_server(Kept, path)
        client = NodeClient(path, timeout_s=30, wait_s=30, confirm_s=1, calls_max=10, changed=lambda _: None)
        client.start()
        try:
            outcomes = await asyncio.gather(*(client.submit(each) for each in commands))
        finally:
            client.stop()
            server.close()
        for command, outcome in zip(commands, outcomes, strict=True):
            assert outcome == Done(command.schema.encode(), 1)

    asyncio.run(asyncio.wait_for(submit(), 30))
    return Kept.heard_of


def test_a_small_command_does_not_wait_for_large_ones_before_it(tmp_path: Path) -> None:
    large = "x" * (40 * PIECE_BYTES)
    commands = [Register("large", large), Register("other", large), Register("small", "{}")]
    heard = heard_of(tmp_path / "node", *commands)
    assert heard == [("small", False), ("large", False), ("other", False)]


def test_only_what_was_sent_whole_is_in_doubt_when_the_line_breaks(tmp_path: Path) -> None:
    large = "x" * (40 * PIECE_BYTES)
    commands = [Register("large", large), Register("unsent", large), Register("end", "{}")]
    heard = heard_of(tmp_path / "node", *commands)
    assert heard == [("end", False), ("end", True), ("large", False), ("unsent", False)]


def test_a_command_on_a_line_that_is_already_closing_is_not_in_doubt(tmp_path: Path) -> None:
    Kept.heard_of = []

    async def submit() -> Outcome:
        server = await asyncio.get_running_loop().create_unix_server(Kept, tmp_path / "node")
        client = NodeClient(
            tmp_path / "node", timeout_s=30, wait_s=30, confirm_s=1, calls_max=10, changed=lambda _: None
        )
        client.start()
        try:
            await client.submit(Register("first", "{}"))
            assert client._connection is not None
            client._connection.transport.close()
            return await client.submit(Register("s", "{}"))
        finally:
            client.stop()
            server.close()

    assert asyncio.run(asyncio.wait_for(submit(), 30)) == Done(b"{}", 1)
    assert Kept.heard_of == [("first", False), ("s", False)]


class Busy(Kept):
    """A node that reads nothing until it is told to."""

    made: list[Busy]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()
        self.made.append(self)


def test_large_commands_that_a_busy_node_does_not_take_in_time_are_refused_and_never_done(
    tmp_path: Path,
) -> None:
    Kept.heard_of, Busy.made = [], []
    large = "x" * (100 * PIECE_BYTES)

    async def submit() -> list[object]:
        server = await asyncio.get_running_loop().create_unix_server(Busy, tmp_path / "node")
        client = NodeClient(
            tmp_path / "node", timeout_s=1, wait_s=1, confirm_s=1, calls_max=10, changed=lambda _: None
        )
        client.start()
        try:
            commands = [Register(name, large) for name in ("begun", "waiting")]
            late = await asyncio.gather(*map(client.submit, commands), return_exceptions=True)
            Busy.made[0].transport.resume_reading()
            assert await client.submit(Register("later", "x" * (2 * PIECE_BYTES)))
            return late
        finally:
            client.stop()
            server.close()

    late = asyncio.run(asyncio.wait_for(submit(), 30))
    assert [each.code for each in late if isinstance(each, RegistryError)] == [503, 503]
    assert Kept.heard_of == [("later", False)]


def test_large_commands_too_many_are_refused_and_small_ones_are_not(tmp_path: Path) -> None:
    large = "x" * (10 * PIECE_BYTES)

    async def submit() -> None:
        # The socket does not accept: what it takes, waits.
        client = NodeClient(
            tmp_path / "node", timeout_s=30, wait_s=30, confirm_s=1, calls_max=10, bytes_max=20 * PIECE_BYTES,
            changed=lambda _: None,
        )  # fmt: skip
        waiting = [
            asyncio.ensure_future(client.submit(Register(name, text)))
            for name, text in (("large", large), ("too many", large), ("small", "{}"))
        ]
        with pytest.raises(RegistryError, match="Too many writes"):
            await waiting[1]
        assert not waiting[0].done()
        assert not waiting[2].done()
        for each in waiting:
            each.cancel()

    asyncio.run(submit())


class Forgetful(Framed):
    """A node that has no past, and notes who asks for it."""

    askers: list[str]

    def on_message(self, message: bytes) -> None:
        said = decode_from_reader(message)
        if isinstance(said, Query):
            self.askers.append(PAST.decode_request(bytes(said.request)).asker)
            self.send(Reply(said.number, NO_ANSWER, Refused(410, "forgotten", 3)))


def test_a_node_learns_who_asks_for_the_past(tmp_path: Path) -> None:
    Forgetful.askers = []

    async def ask() -> None:
        server = await asyncio.get_running_loop().create_unix_server(Forgetful, tmp_path / "node")
        client = NodeClient(
            tmp_path / "node", timeout_s=30, wait_s=30, confirm_s=1, calls_max=10, changed=lambda _: None
        )
        client.start()
        try:
            with pytest.raises(RegistryError, match="forgotten") as refused:
                await client.ask(PAST, OwnersAt(Moment(1), [b"."], "token:ann"))
            assert (refused.value.code, refused.value.retry_after_s) == (410, 3)
        finally:
            client.stop()
            server.close()

    asyncio.run(asyncio.wait_for(ask(), 30))
    assert Forgetful.askers == ["token:ann"]
