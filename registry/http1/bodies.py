"""The bound on request bodies, for all connections of a process together."""

from __future__ import annotations


class Bodies:
    """The bytes of all bodies that are being received."""

    __slots__ = ("bytes_max", "size")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.size = 0
