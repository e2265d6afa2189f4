"""Admission of commands by size, so that large ones neither exhaust memory nor delay small ones."""

from __future__ import annotations

from typing import Any

import msgspec

from .commands import Command
from .principal import CheckedNames

# Larger commands wait in a queue of their own and travel in pieces.
LARGE_BYTES = 64 << 10
# One in this many of the bytes that may wait is reserved for small commands.
_SHARE_OF_SMALL = 4
# Memory that a value takes besides its text.
_VALUE_BYTES = 64


def size_of(command: Command, checked: CheckedNames | None = None) -> int:
    """Return roughly how much memory a command takes; at least as much as its text has bytes in UTF-8."""
    size = 0
    rest: list[Any] = [command, checked]
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
        elif isinstance(value, list | frozenset):
            rest += value
    return size


def is_large(size: int) -> bool:
    """Return true if commands of ``size`` bytes wait in the queue of large ones."""
    return size > LARGE_BYTES


class Room:
    """A bound for the number and the total size of waiting commands.

    It refuses large commands while there is still room for small ones. Not thread-safe.
    """

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._count = 0
        small_bytes_max = bytes_max // _SHARE_OF_SMALL
        # Indexed by whether the command is large.
        self._bytes_max = {False: small_bytes_max, True: bytes_max - small_bytes_max}
        self._bytes = {False: 0, True: 0}

    def fits(self, size: int) -> bool:
        """Return true if a command of ``size`` bytes may wait, too; the only one always may."""
        large = is_large(size)
        fits = not self._bytes[large] or self._bytes[large] + size <= self._bytes_max[large]
        return fits and self._count < self._count_max

    def add(self, size: int) -> None:
        """Add a command to the count."""
        self._count += 1
        self._bytes[is_large(size)] += size

    def remove(self, size: int) -> None:
        """Remove a command from the count."""
        self._count -= 1
        self._bytes[is_large(size)] -= size
