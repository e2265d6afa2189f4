"""The outcome of a command of which an earlier attempt may have been executed."""

from __future__ import annotations

import pytest

from registry.domain.commands import (
    Deferred,
    Done,
    Forgotten,
    NotPrimary,
    Outcome,
    Refused,
    Register,
    Unknown,
)
from registry.forwarding.command_forwarder import Doubt, Reply

COMMAND = Register("s", '"string"')
DOUBT = Unknown("the connection was lost", repeats=True)
DONE, INCOMPATIBLE, FAILED = Done(b"{}", 7), Refused(40901, "incompatible"), Refused(50003, "the log is away")


@pytest.mark.parametrize(
    ("outcome", "reply"),
    [
        (DONE, DONE),
        (INCOMPATIBLE, INCOMPATIBLE),
        (FAILED, DOUBT),
        (Refused(503, "busy"), DOUBT),
        (Forgotten(), DOUBT),
        (NotPrimary(), None),
        (Deferred(), None),
        (DOUBT, None),
    ],
)
def test_only_what_a_primary_has_looked_up_ends_a_doubt(outcome: Outcome, reply: Outcome | None) -> None:
    doubt = Doubt(False)
    assert doubt.weigh(COMMAND, Reply(DOUBT, repeats=True)) is None
    assert doubt.weigh(COMMAND, Reply(outcome, repeats=True)) == reply


@pytest.mark.parametrize("outcome", [DONE, INCOMPATIBLE, FAILED])
def test_without_a_doubt_an_outcome_is_as_it_is(outcome: Outcome) -> None:
    assert Doubt(False).weigh(COMMAND, Reply(outcome, repeats=True)) == outcome


def test_a_refusal_of_a_primary_without_memory_leaves_the_doubt() -> None:
    doubt = Doubt(before=True)
    assert doubt.weigh(COMMAND, Reply(INCOMPATIBLE, repeats=False)) == doubt.unknown
