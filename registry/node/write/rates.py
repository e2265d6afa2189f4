"""Rates of writes of each principal: token buckets, which fill up within a minute."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from registry.domain.errors import TOO_MANY_REQUESTS
from registry.domain.lru import Lru

# Principals whose buckets are remembered; the one that wrote least recently is forgotten, with a full bucket.
PRINCIPALS_MAX = 10_000


class _Bucket(NamedTuple):
    """The writes that a principal had left at some moment."""

    left: float
    moment: float


class WriteRates:
    """Counts writes by principal. ``clock`` returns seconds.

    Writes are counted for one batch at a time, and paid for only once that batch is in the log: a batch that
    is decided again must not cost its principals twice.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._paid = Lru[str, _Bucket](PRINCIPALS_MAX)
        # The buckets of the principals with writes in the current batch, once it is paid for.
        self._batch: dict[str, _Bucket] = {}

    def begin(self) -> None:
        """Begin a batch; writes of the one before that were not paid for do not count."""
        self._batch.clear()

    def take(self, name: str, per_minute: int) -> None:
        """Count one write. Raises 429 if the principal has made ``per_minute`` of them; 0 is no limit."""
        if not per_minute:
            return
        now, rate = self._clock(), per_minute / 60
        bucket = self._batch.get(name) or self._paid.get(name) or _Bucket(float(per_minute), now)
        left = min(float(per_minute), bucket.left + (now - bucket.moment) * rate)
        if left < 1:
            seconds = math.ceil((1 - left) / rate)
            message = f"More than {per_minute} writes a minute; try again in {seconds} s"
            raise TOO_MANY_REQUESTS(message).with_retry_after(seconds)
        self._batch[name] = _Bucket(left - 1, now)

    def pay(self) -> None:
        """Pay for the writes of the current batch, which is in the log."""
        for name, bucket in self._batch.items():
            self._paid.put(name, bucket)
        self._batch.clear()
