"""A reader's line to a node that ends and comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from registry.domain.commands import Command, DeleteSubject, Done, Outcome, Refused, Register
from registry.domain.errors import RegistryError
from registry.node.messages import Decided, Framed, Submit, decode_from_reader
from registry.reader.link import Link


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


def submitted(path: Path, command: Command, outcome: Outcome) -> Outcome:
    """What comes of ``command`` when the first node ends before it answers, and the next has ``outcome``."""
    Node.asked, Node.outcome = [], outcome

    async def submit() -> Outcome:
        server = await asyncio.get_running_loop().create_unix_server(Node, path)
        link = Link(path, timeout_s=30, wait_s=30, confirm_s=1, calls_max=10, changed=lambda _: None)
        link.start()
        try:
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
