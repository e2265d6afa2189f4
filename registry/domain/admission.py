"""Admission: rates of writes, room for waiting commands by their size, and turns of those who ask.

So large commands neither exhaust memory nor delay small ones, and nobody who asks a lot holds up the others.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from .commands import Condition, Submitted
from .errors import TOO_MANY_REQUESTS
from .lru import Lru
from .principal import CheckedNames

T = TypeVar("T")
# Larger commands wait in a queue of their own and travel in pieces.
LARGE_BYTES = 64 << 10
# One in this many of the bytes that may wait is reserved for small commands.
_SHARE_OF_SMALL = 4
# Memory that a value takes besides its text.
_VALUE_BYTES = 64
# Principals whose buckets are remembered; the one that wrote least recently is forgotten, with a full bucket.
PRINCIPALS_MAX = 10_000


def size_of(
    command: Submitted, checked: CheckedNames | None = None, condition: Condition | None = None
) -> int:
    """Return roughly how much memory a command takes; at least as much as its text has bytes in UTF-8."""
    size = 0
    found: list[Any] = [command, checked, condition]
    for value in found:  # which grows
        if value is None:
            continue
        size += _VALUE_BYTES
        if value is False or value is True:  # as most members are
            continue
        if isinstance(value, str):
            size += len(value) if value.isascii() else 4 * len(value)
        elif isinstance(value, msgspec.Struct):
            found += msgspec.structs.astuple(value)
        elif isinstance(value, dict):
            found += value
            found += value.values()
        elif isinstance(value, (list, frozenset)):
            found += value
    return size


def is_large(size: int) -> bool:
    """Return true if commands of ``size`` bytes wait in the queue of large ones."""
    return size > LARGE_BYTES


class Room:
    """A bound for the number and the total size of waiting commands.

    It refuses large commands while there is still room for small ones. Not thread-safe.
    """

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._count = 0
        small_bytes_max = bytes_max // _SHARE_OF_SMALL
        # Indexed by whether the command is large.
        self._bytes_max = {False: small_bytes_max, True: bytes_max - small_bytes_max}
        self._bytes = {False: 0, True: 0}

    def fits(self, size: int) -> bool:
        """Return true if a command of ``size`` bytes may wait, too; the only one always may."""
        large = size > LARGE_BYTES
        fits = not self._bytes[large] or self._bytes[large] + size <= self._bytes_max[large]
        return fits and self._count < self._count_max

    def add(self, size: int) -> None:
        """Add a command to the count."""
        self._count += 1
        self._bytes[size > LARGE_BYTES] += size

    def remove(self, size: int) -> None:
        """Remove a command from the count."""
        self._count -= 1
        self._bytes[size > LARGE_BYTES] -= size


class FairQueue(Generic[T]):
    """Items that wait, by who asked: each asker has one turn after another. Not thread-safe."""

    def __init__(self) -> None:
        # The next one to have its turn comes first; none is empty.
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Return the number of items."""
        return self._count

    def count(self, asker: str) -> int:
        """Return the number of an asker's items."""
        return len(self._waiting.get(asker, ()))

    def askers(self) -> Iterator[str]:
        """Yield those who wait, in the order of their turns."""
        return iter(self._waiting)

    def put(self, asker: str, item: T) -> None:
        """Append an item to those of its asker."""
        self._waiting.setdefault(asker, deque()).append(item)
        self._count += 1

    def pop(self, asker: str | None = None) -> T | None:
        """Return the first item of an asker, or of the one whose turn it is; ``None`` if nobody waits."""
        asker = next(iter(self._waiting), None) if asker is None else asker
        if asker is None:
            return None
        items = self._waiting[asker]
        item = items.popleft()
        self._count -= 1
        if items:
            self._waiting.move_to_end(asker)
        else:
            del self._waiting[asker]
        return item

    def give_way(self, asker: str | None, rank: Callable[[str], int] = lambda _: 0) -> T | None:
        """Take the last item of the asker with the highest rank and then the most items, and return it.

        ``None`` if a further item of ``asker`` would rank as high, so it is this one that has to give way.
        Without an ``asker`` everybody's does.
        """
        worst = max(self._waiting, key=lambda each: (rank(each), self.count(each)), default=None)
        own = (-1, 0) if asker is None else (rank(asker), self.count(asker) + 1)
        if worst is None or (rank(worst), self.count(worst)) <= own:
            return None
        item = self._waiting[worst].pop()
        self._count -= 1
        if not self._waiting[worst]:
            del self._waiting[worst]
        return item


class _Bucket(NamedTuple):
    """The writes that a principal had left at some moment."""

    left: float
    moment: float


class WriteRates:
    """Counts writes by principal, in token buckets that fill up within a minute. ``clock`` returns seconds.

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
