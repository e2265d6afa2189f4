"""Threads that work beside a block of a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def in_threads(stop: threading.Event, *works: Callable[[], None]) -> Iterator[None]:
    """Run each function in a thread beside the block; all of them return once ``stop`` is set after it."""
    threads = [threading.Thread(target=each) for each in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
