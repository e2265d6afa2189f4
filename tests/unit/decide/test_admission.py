"""Bounds of the waiting commands, by size."""

from __future__ import annotations

import pytest

from registry.domain.admission import LARGE_BYTES, Room, is_large, size_of
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
