"""Bounds of the waiting commands, by size."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.admission import LARGE_BYTES, FairQueue, Room, is_large, size_of
from registry.domain.commands import (
    Associate,
    AssociationRequest,
    Command,
    PutConfig,
    Register,
    ResourceRequest,
)
from registry.domain.model import Metadata

_LONG = "x" * LARGE_BYTES


@pytest.mark.parametrize(
    "command",
    [
        Register("s", _LONG),
        Register("s", "ü" * (LARGE_BYTES // 2)),
        Register(_LONG, "{}"),
        Register("s", "{}", metadata=Metadata(properties={"key": _LONG})),
        Register("s", "{}", metadata=Metadata(properties={_LONG: "value"})),
        PutConfig(None, {"alias": _LONG}),
        Associate(
            ResourceRequest(associations=[AssociationRequest(schema=Register("", _LONG))]), ".", create=True
        ),
    ],
)
def test_a_command_is_as_large_as_its_texts_wherever_they_are(command: Command) -> None:
    assert is_large(size_of(command))


def test_an_ordinary_command_is_not_large() -> None:
    assert not is_large(size_of(Register("subject", "x" * (LARGE_BYTES // 2))))


def test_what_a_registration_takes_is_known_after_few_questions() -> None:
    command, asked = Register("subject", "{}", "AVRO", canonical=True), 0

    def count(frame: FrameType, event: str, function: object) -> None:
        nonlocal asked
        asked += event == "c_call" and function is isinstance

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        size_of(command)
    finally:
        sys.setprofile(before)
    assert asked <= 16, "34 if each flag is asked what it is"


def test_large_commands_leave_room_for_small_ones() -> None:
    large = 4 * LARGE_BYTES
    room = Room(1000, 10 * large)
    while room.fits(large):
        room.add(large)
    assert room.fits(LARGE_BYTES)
    room.remove(large)
    assert room.fits(large)


def test_small_commands_are_bounded_by_bytes_and_number() -> None:
    by_bytes, by_number = Room(1000, 40 * LARGE_BYTES), Room(3, 40 * LARGE_BYTES)
    counts = []
    for room in (by_bytes, by_number):
        count = 0
        while room.fits(LARGE_BYTES):
            room.add(LARGE_BYTES)
            count += 1
        counts.append(count)
    assert counts == [10, 3]


def test_a_command_larger_than_the_room_may_wait_alone() -> None:
    room = Room(10, LARGE_BYTES)
    assert room.fits(100 * LARGE_BYTES)
    room.add(100 * LARGE_BYTES)
    assert not room.fits(100 * LARGE_BYTES)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=30))
def test_every_asker_has_one_turn_in_each_round_and_its_items_keep_their_order(
    put: list[tuple[str, int]],
) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for asker, item in put:
        queue.put(asker, (asker, item))
    taken = []
    while (found := queue.pop()) is not None:
        taken.append(found)
    assert (len(queue), list(queue.askers())) == (0, [])
    for asker in "abc":
        assert [each for each in taken if each[0] == asker] == [each for each in put if each[0] == asker]
    rounds = [sum(each[0] == asker for each in taken[:at]) for at, (asker, _) in enumerate(taken)]
    assert rounds == sorted(rounds)


def test_who_has_most_items_gives_way_to_others_only() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(3):
        queue.put("a", f"a{number}")
    queue.put("b", "b0")
    assert queue.give_way("a") is None
    assert queue.give_way("b") == "a2"
    assert queue.give_way("b") is None, "it would have as many"
    assert queue.give_way("c", {"a": 0, "b": 1, "c": 0}.__getitem__) == "b0"
    assert (len(queue), queue.count("b"), queue.give_way(None)) == (2, 0, "a1")
