"""Admission of commands by their size, so that large ones neither fill the memory nor delay small ones."""

from __future__ import annotations

from typing import Any

import msgspec

from .commands import Command

# Commands above this size wait apart from smaller ones and travel in pieces.
LARGE_BYTES = 64 << 10
# Of the bytes that may wait, one in so many is kept for commands that are not large.
_SHARE_OF_SMALL = 4
# What a value takes in memory besides its text.
_VALUE_BYTES = 64


def size_of(command: Command) -> int:
    """Return about how many bytes of memory a command takes, and at least how many its text has as UTF-8."""
    size = 0
    rest: list[Any] = [command]
    while rest:
        value = rest.pop()
        if value is None:
            continue
        size += _VALUE_BYTES
        if isinstance(value, str):
            size += len(value) if value.isascii() else 4 * len(value)
        elif isinstance(value, msgspec.Struct):
            rest += [getattr(value, name) for name in value.__struct_fields__]
        elif isinstance(value, dict):
            rest += value
            rest += value.values()
        elif isinstance(value, list):
            rest += value
    return size


def is_large(size: int) -> bool:
    """Check that a command of ``size`` bytes waits apart."""
    return size > LARGE_BYTES


class Room:
    """A bound for the number and the bytes of the commands that wait in one place.

    Large commands are refused while there is still room for small ones. Not safe for several threads.
    """

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._count = 0
        small_bytes_max = bytes_max // _SHARE_OF_SMALL
        # By whether a command is large.
        self._bytes_max = {False: small_bytes_max, True: bytes_max - small_bytes_max}
        self._bytes = {False: 0, True: 0}

    def fits(self, size: int) -> bool:
        """Check that a command of ``size`` bytes may wait too; one alone always may."""
        large = is_large(size)
        fits = not self._bytes[large] or self._bytes[large] + size <= self._bytes_max[large]
        return fits and self._count < self._count_max

    def add(self, size: int) -> None:
        """Count a command in."""
        self._count += 1
        self._bytes[is_large(size)] += size

    def remove(self, size: int) -> None:
        """Count a command out."""
        self._count -= 1
        self._bytes[is_large(size)] -= size
