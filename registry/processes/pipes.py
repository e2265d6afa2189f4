"""Messages between a process and its child: each with its length before it."""

from __future__ import annotations

import os
from typing import IO

LENGTH_BYTES = 8


def send(pipe: IO[bytes], message: bytes) -> None:
    """Write a message, whole.

    Past the file that Python has made of the pipe: with ``PYTHONUNBUFFERED``, which images often set, that
    takes a write to be done when a signal, such as the freezer's, has cut it short.
    """
    for part in (len(message).to_bytes(LENGTH_BYTES, "big"), message):
        left = memoryview(part)
        while left:
            left = left[os.write(pipe.fileno(), left) :]


def receive(pipe: IO[bytes]) -> bytes | None:
    """The next message; ``None`` when the other side is gone."""
    length = pipe.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    size = int.from_bytes(length, "big")
    message = pipe.read(size)
    return message if len(message) == size else None
