"""A limit on the time of what waits or computes: for Java, a broker or a location, or in a pattern."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Over(BaseException):
    """Not an :class:`Exception`, so that no library that is interrupted takes it for an error of its own."""


@contextmanager
def time_limit(seconds: float, failure: Exception) -> Iterator[None]:
    """Raise ``failure`` if a ``with`` block takes longer; limits within limits may be nested.

    It interrupts the main thread as Ctrl-C does. Blocks of other threads are not limited.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    over = _Over()

    def raise_over(number: int, frame: FrameType | None) -> None:
        raise over

    began, outer_s = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)[0]
    if 0 < outer_s <= seconds:  # The outer limit passes first.
        yield
        return
    outer = signal.signal(signal.SIGALRM, raise_over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Over as raised:
        if raised is not over:
            raise
        raise failure from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer)
        if outer_s:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, outer_s - (time.monotonic() - began)))
