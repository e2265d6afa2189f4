"""Child processes that run a module of this project, and messages over their pipes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

_ROOT = Path(__file__).parents[3]
# Read by glibc's allocator when a process starts. Threads share two heaps, and freed blocks of a mebibyte and
# more return to the system. By default, the memory of large requests stays in a heap for each thread.
_ALLOCATOR = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 20),
}
LENGTH_BYTES = 8


def module_command(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return command and environment that run a module in this interpreter.

    Settings of the allocator in the present environment are kept. ``-P`` keeps a module of the same name in
    the working directory from being run instead.
    """
    environment = {**_ALLOCATOR, **os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), environment.get("PYTHONPATH"))))
    return [sys.executable, "-P", "-m", module, *arguments], environment


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
