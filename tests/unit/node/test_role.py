"""The state machine of the role: what a node may do after each event."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from election.contract import Identity, Lost, NoPrimary, PrimaryIs, Won
from registry.node.leadership.role import NO_EPOCH, Role, Stage, Task

OTHER = Identity("http", "other", 8081, eligible=True)


def primary(epoch: int = 10) -> Role:
    return Role().on_event(Won()).claiming().after_claim(epoch)


def test_at_first_nobody_is_known() -> None:
    role = Role()
    assert (role.name, role.task, role.epoch) == ("following", Task.NOTHING, NO_EPOCH)
    assert role.reason


def test_a_node_that_is_elected_claims_and_then_writes() -> None:
    elected = Role().on_event(Won())
    assert (elected.name, elected.task) == ("following", Task.CLAIM)
    claiming = elected.claiming()
    assert (claiming.stage, claiming.task) == (Stage.CATCHING_UP, Task.CLAIM)
    assert claiming.after_claim(10).task is Task.WRITE
    assert (primary().name, primary().epoch, primary().reason) == ("primary", 10, "")


def test_a_node_that_was_not_elected_neither_claims_nor_writes() -> None:
    role = Role().on_event(PrimaryIs(OTHER))
    assert (role.name, role.other, role.task) == ("secondary", OTHER, Task.NOTHING)
    assert role.claiming() == role
    assert role.after_claim(10).task is Task.NOTHING


def test_being_elected_again_disturbs_no_primary() -> None:
    assert primary().on_event(Won()) == primary()


def test_an_election_that_is_lost_ends_the_primaryship() -> None:
    for event in (Lost("the session is over"), NoPrimary("nobody is reachable"), PrimaryIs(OTHER)):
        after = primary().on_event(event)
        assert (after.task, after.epoch) == (Task.NOTHING, NO_EPOCH)
    assert primary().on_event(PrimaryIs(OTHER)).other == OTHER
    assert primary().on_event(Lost("the session is over")).reason == "the session is over"


def test_an_election_that_is_lost_during_the_claim_makes_the_claim_vain() -> None:
    role = Role().on_event(Won()).claiming().on_event(Lost("")).after_claim(10)
    assert (role.task, role.name) == (Task.NOTHING, "following")
    again = Role().on_event(Won()).claiming().on_event(Lost("")).on_event(Won()).after_claim(10)
    assert again.task is Task.CLAIM


def test_a_claim_that_does_not_stand_is_made_again_while_elected() -> None:
    after = primary().after_deposition("fenced")
    assert (after.name, after.task, after.reason) == ("following", Task.CLAIM, "fenced")
    assert after.claiming().after_claim(20).epoch == 20


def test_a_newer_barrier_deposes_and_an_own_or_older_one_does_not() -> None:
    assert primary(10).after_barrier(9) == primary(10).after_barrier(10) == primary(10)
    after = primary(10).after_barrier(11)
    assert (after.task, after.stage) == (Task.CLAIM, Stage.FOLLOWING)


def test_a_barrier_that_another_one_has_followed_already_makes_no_primary() -> None:
    role = Role().on_event(Won()).claiming().after_barrier(12).after_claim(10)
    assert role.task is Task.CLAIM


def test_a_node_that_stops_writes_never_again_and_knows_who_does() -> None:
    role = primary().after_leaving()
    assert (role.task, role.name) == (Task.NOTHING, "following")
    assert role.on_event(Won()).claiming().after_claim(20).task is Task.NOTHING
    assert role.on_event(PrimaryIs(OTHER)).name == "secondary"


def test_a_node_alone_needs_no_election() -> None:
    role = Role().standalone()
    assert (role.name, role.task, role.epoch) == ("primary", Task.WRITE, 0)


CHANGES: list[Callable[[Role, int], Role]] = [
    lambda role, _: role.on_event(Won()),
    lambda role, _: role.on_event(Lost("")),
    lambda role, _: role.on_event(NoPrimary("")),
    lambda role, _: role.on_event(PrimaryIs(OTHER)),
    lambda role, _: role.claiming(),
    lambda role, offset: role.after_claim(offset),
    lambda role, offset: role.after_barrier(offset),
    lambda role, _: role.after_deposition("fenced"),
    lambda role, _: role.after_leaving(),
]


@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 20))))
def test_whatever_happens_only_an_elected_node_with_the_newest_barrier_writes(
    history: list[tuple[Callable[[Role, int], Role], int]],
) -> None:
    role = Role()
    for change, offset in history:
        role = change(role, offset)
        if role.task is Task.WRITE:
            assert role.elected
            assert not role.leaving
            assert role.epoch == role.seen
            assert role.other is None
        assert (role.epoch == NO_EPOCH) == (role.stage is not Stage.PRIMARY)
        assert (role.name == "primary") == (role.task is Task.WRITE)
