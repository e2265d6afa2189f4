"""The bytes of messages between nodes, which nodes of adjacent versions must be able to read.

``tests/corpus/wire.json`` holds them as hexadecimal msgpack. If a message gains members with defaults, add a
line; existing lines never change.
"""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest

from registry.domain.commands import Outcome, Submitted
from registry.forwarding.node_port import Batch, LoggedOutcomes, Outcomes, PeerStatus, encode
from tests.support.running import ROOT
from tests.unit.forwarding.wire_samples import COMMANDS, MESSAGES, OUTCOMES

GOLDEN: dict[str, str] = json.loads((ROOT / "tests" / "corpus" / "wire.json").read_text("utf-8"))
KINDS: dict[str, Any] = {
    "command": Submitted, "outcome": Outcome, "batch": Batch, "outcomes": Outcomes,
    "logged": LoggedOutcomes, "standing": PeerStatus,
}  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
def test_the_bytes_of_messages_between_nodes_stay(name: str) -> None:
    assert encode(MESSAGES[name]).hex() == GOLDEN[name]


@pytest.mark.parametrize("name", GOLDEN)
def test_messages_of_other_versions_are_read(name: str) -> None:
    found = msgspec.msgpack.decode(bytes.fromhex(GOLDEN[name]), type=KINDS[name.partition(" ")[0]])
    assert found == MESSAGES[name]


def test_every_kind_of_command_and_outcome_is_held() -> None:
    assert {type(each) for each in COMMANDS} == set(get_args(Submitted))
    assert {type(each) for each in OUTCOMES} == set(get_args(Outcome))


def test_tags_stand_in_the_source_and_do_not_follow_from_names_of_classes() -> None:
    source = ROOT / "registry" / "domain" / "commands.py"
    assert "tag=True" not in source.read_text(encoding="utf-8")
