"""Rates of writes of each principal: token buckets, which fill up within a minute."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable

from registry.domain.errors import TOO_MANY_REQUESTS

# Principals whose buckets are remembered; the one that wrote least recently is forgotten, with a full bucket.
PRINCIPALS_MAX = 10_000


class WriteRates:
    """Counts writes by principal. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # For each name the tokens left, and when they were counted.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, per_minute: int) -> None:
        """Count one write. Raises 429 if the principal has made ``per_minute`` of them; 0 is no limit."""
        if not per_minute:
            return
        now, rate = self._clock(), per_minute / 60
        left, counted = self._buckets.get(name, (float(per_minute), now))
        left = min(float(per_minute), left + (now - counted) * rate)
        if left < 1:
            seconds = math.ceil((1 - left) / rate)
            message = f"More than {per_minute} writes a minute; try again in {seconds} s"
            raise TOO_MANY_REQUESTS(message).retried_after(seconds)
        self._buckets[name] = left - 1, now
        self._buckets.move_to_end(name)
        if len(self._buckets) > PRINCIPALS_MAX:
            self._buckets.popitem(last=False)
