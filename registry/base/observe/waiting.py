"""Waits in which a program would seem to hang: told in the first second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Long enough for a server that is well, and less than a second.
TELL_AFTER_S = 0.7


def print_waiting(text: str) -> None:
    """Print a remark of a command to standard error."""
    print(f"registrar: {text}", file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def told(text: str, tell: Callable[[str], None] = print_waiting) -> Iterator[None]:
    """Call ``tell`` with what is waited for, unless the block ends within :data:`TELL_AFTER_S`."""
    timer = threading.Timer(TELL_AFTER_S, tell, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
