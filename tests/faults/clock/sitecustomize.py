"""Shift of a Python process' wall clock: Python imports this module before the program.

The file that ``SHIFT_CLOCK_BY`` names holds seconds; the clock jumps when they change. Clocks that only run
evenly (monotonic, boottime) stay as they are, as they do where an administrator sets the time.
"""

from __future__ import annotations

import os
import time

_file = os.environ.get("SHIFT_CLOCK_BY", "")
_time, _time_ns = time.time, time.time_ns


def _shift() -> float:
    try:
        with open(_file) as given:  # noqa: PTH123 (as little as possible is imported here)
            return float(given.read() or 0)
    except (OSError, ValueError):
        return 0.0


if _file:
    time.time = lambda: _time() + _shift()
    time.time_ns = lambda: _time_ns() + int(_shift() * 1e9)
