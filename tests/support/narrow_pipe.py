"""A named pipe that holds little: what writes to it waits for a test to read."""

from __future__ import annotations

import os
from contextlib import suppress
from fcntl import F_SETPIPE_SZ, fcntl
from pathlib import Path

HELD_BYTES = 4096


def narrow_pipe(path: Path) -> int:
    """Make one that holds :data:`HELD_BYTES`; return its reading end, from which nothing is read."""
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    fcntl(reading, F_SETPIPE_SZ, HELD_BYTES)
    return reading


def drain(reading: int) -> bytes:
    """Return what it holds."""
    with suppress(BlockingIOError):
        return os.read(reading, 1 << 20)
    return b""
