"""Log lines that could repeat with every request, limited to one a second."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

# Interval between two lines, at least.
EVERY_S = 1.0


class Throttled:
    """Passes one error a second to ``logger``, with the number of errors skipped before it.

    Any thread may call. ``clock`` is monotonic, in seconds.
    """

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._lock = threading.Lock()
        self._next = float("-inf")
        self._left_out = 0

    def error(self, text: str, *given: object) -> None:
        """Log ``text % given`` unless another line was logged less than a second ago."""
        with self._lock:
            now = self._clock()
            if now < self._next:
                self._left_out += 1
                return
            left_out, self._left_out = self._left_out, 0
            self._next = now + EVERY_S
        if left_out:
            text, given = f"{text} (%d more such failures since the last line)", (*given, left_out)
        self._logger.error(text, *given)
