"""Summaries of tasks that fold, for the driver: one a task, however many rows it makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from snapshots.format.parts import beginning

from .columns import Columns, without_deletions
from .tallying import Tally, TallyMessage

# Samples of its keys that a task reports at most.
SAMPLES_MAX = 64


class SummaryMessage(msgspec.Struct, frozen=True):
    """A summary on its way between processes."""

    # Keys that begin a part: of rows that are put, and of rows that are deleted.
    begins: list[bytes]
    gone: list[bytes]
    # Keys, ascending, with the bytes of changes from about that key on up to the next one.
    samples: list[tuple[bytes, int]]
    tally: TallyMessage


decode = msgspec.msgpack.Decoder(SummaryMessage).decode
_encode = msgspec.msgpack.Encoder().encode


class FoldSummary:
    """Collects the summary of one task. At any time it holds a bounded number of samples."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._begins: list[bytes] = []
        self._gone: list[bytes] = []
        self._samples: list[tuple[bytes, int]] = []

    def add(self, changes: Columns) -> None:
        """Add changes."""
        self.tally.put_all(without_deletions(changes))
        for at in beginning(changes.keys.to_pylist()):
            (self._begins if changes.values[at].is_valid else self._gone).append(changes.keys[at].as_py())

    def weigh(self, key: bytes, size: int) -> None:
        """Add the bytes of a chunk that begins with the key."""
        self._samples.append((key, size))
        if len(self._samples) >= 64 * SAMPLES_MAX:
            self._samples = list(_thin(self._samples))

    def dumps(self) -> bytes:
        """Return the summary, for :data:`decode`."""
        samples = list(_thin(self._samples))
        return _encode(SummaryMessage(self._begins, self._gone, samples, self.tally.message()))


def _thin(samples: Iterable[tuple[bytes, int]]) -> Iterator[tuple[bytes, int]]:
    """Yield at most :data:`SAMPLES_MAX` samples in key order, of about equal size or a single one each."""
    samples = sorted(samples)
    share = sum(size for _, size in samples) / SAMPLES_MAX
    begun, total = b"", 0
    for key, size in samples:
        if not total:
            begun = key
        total += size
        if total >= share:
            yield begun, total
            total = 0
    if total:
        yield begun, total
