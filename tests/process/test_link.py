"""A reader's line to a node that ends and comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from registry.domain.commands import Command, DeleteSubject, Done, Outcome, Refused, Register
from registry.domain.errors import RegistryError
from registry.node.messages import Decided, Framed, State, Submit, decode_from_reader
from registry.reader.link import Link
from tests.running import until_async


class Node(Framed):
    """Ends at the first command, and answers the next one with ``outcome``."""

    asked: list[Command]
    outcome: Outcome

    def heard(self, message: bytes) -> None:
        said = decode_from_reader(message)
        if isinstance(said, Submit):
            self.asked.append(said.command)
            if len(self.asked) == 1:
                self.transport.close()
            else:
                self.tell(Decided(said.number, self.outcome))


class Restarted(Node):
    """Keeps to tickets, as it says once it has started; after its first end it says that it is starting."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        starting = bool(self.asked)
        self.tell(State(started=not starting, opening=starting, repeats=not starting))

    def heard(self, message: bytes) -> None:
        said = decode_from_reader(message)
        if isinstance(said, Submit) and len(self.asked) in {1, 2}:
            self.asked.append(said.command)
            self.transport.close()
        else:
            super().heard(message)


def submitted(path: Path, command: Command, outcome: Outcome, node: type[Node] = Node) -> Outcome:
    """What comes of ``command`` when the first node ends before it answers, and the next has ``outcome``."""
    Node.asked, Node.outcome = [], outcome
    states: list[State] = []

    async def submit() -> Outcome:
        server = await asyncio.get_running_loop().create_unix_server(node, path)
        link = Link(path, timeout_s=30, wait_s=30, confirm_s=1, calls_max=10, changed=states.append)
        link.start()
        try:
            if node is not Node:
                await until_async(lambda: states, "the node's state")
            return await link.submit(command)
        finally:
            link.stop()
            server.close()

    return asyncio.run(asyncio.wait_for(submit(), 30))


def test_what_does_no_harm_twice_is_asked_again(tmp_path: Path) -> None:
    done = Done(b"{}", 1)
    assert submitted(tmp_path / "node", Register("s", "{}"), done) == done
    assert len(Node.asked) == 2


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
