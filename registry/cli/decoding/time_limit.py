"""A limit on the time that a computation may take."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TimeLimitExceeded(Exception):
    """The computation took too long."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End what runs in the ``with`` block after some time by :class:`TimeLimitExceeded`.

    Only in the main thread: signals reach no other. Python's patterns look for signals, too.
    """

    def end(number: int, frame: object) -> None:
        raise TimeLimitExceeded

    former = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
