"""Waits in which a program would seem to hang: announced within the first second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Long enough for a server that is well, and less than a second.
ANNOUNCE_AFTER_S = 0.7


def print_waiting(text: str) -> None:
    """Print a remark of a command to standard error."""
    print(f"registrar: {text}", file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def announced_if_slow(text: str, announce: Callable[[str], None] = print_waiting) -> Iterator[None]:
    """Call ``announce`` with what is waited for, unless the block ends within :data:`ANNOUNCE_AFTER_S`."""
    timer = threading.Timer(ANNOUNCE_AFTER_S, announce, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
