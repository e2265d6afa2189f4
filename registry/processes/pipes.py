"""Messages with a length prefix, over the pipes between a process and its child."""

from __future__ import annotations

import os
from typing import IO

LENGTH_BYTES = 8


def send(pipe: IO[bytes], message: bytes) -> None:
    """Write a whole message.

    It bypasses Python's file object: with ``PYTHONUNBUFFERED``, which images often set, that takes a write
    that a signal has cut short for complete.
    """
    for part in (len(message).to_bytes(LENGTH_BYTES, "big"), message):
        left = memoryview(part)
        while left:
            left = left[os.write(pipe.fileno(), left) :]


def receive(pipe: IO[bytes]) -> bytes | None:
    """Return the next message; ``None`` when the other side has closed."""
    length = pipe.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    size = int.from_bytes(length, "big")
    message = pipe.read(size)
    return message if len(message) == size else None
