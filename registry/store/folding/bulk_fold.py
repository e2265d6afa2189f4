"""Folding a long log with few commits, because new rows in random order cost most when they are committed.

A commit of a few thousand of them writes about as many pages again, so most of a large store is written
several times. Here the second process only says which rows its records add, and which records are to be
folded after them (:class:`NewVersions`). The node keeps both, the rows on the disk
(:mod:`.spool`), and commits all at once when the log's end is reached, or a bound. Until then the store stays
as it was: after a kill, the same records are read again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
from xxhash import xxh3_64_intdigest

from registry.domain.fold.fold import TOGETHER, apply_all, first_rows, has_quarantine, owner
from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import Record
from registry.domain.rows.layout import QUARANTINE
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.view import Change, View
from registry.log.contract import Fetched
from registry.store.indexes import NewRows
from registry.store.layout import StoreError
from registry.store.lmdb import Store
from registry.store.reader import StoreReader

from .parallel_fold import Batch, Bounds, Changes, FoldingEnded, FoldingProcess, answer_batches, receive_from
from .spool import Row, Spool, decode_rows

# What is kept until a commit: new versions and the bytes of their rows on the disk, and records in memory.
VERSIONS_MAX, SPOOL_BYTES_MAX = 2_000_000, 2 << 30
WAITING_MAX, WAITING_BYTES_MAX = 8_000, 16 << 20
# With fewer new rows for each record that waits, a log is folded batch by batch: here the node alone folds
# what waits.
_ROWS_PER_WAITING = 10


class Sorted(NamedTuple):
    """The rows that some records add, and the records that wait."""

    rows: list[tuple[bytes, bytes]]
    waiting: list[Record]


class NewVersions:
    """Sorts the records of a log, which come in its order. ``expected``: the most versions that it adds.

    Owners may be folded apart (:mod:`registry.domain.fold.fold`). So a plain version that has no rows yet may
    be folded before all records that wait, unless one of its own owner does.
    """

    def __init__(self, expected: int) -> None:
        self._added = _Keys(expected)
        # Of records that wait. All later ones of these owners wait too.
        self._owners: set[bytes] = set()

    def sort(self, view: View, records: Sequence[Record]) -> Sorted:
        """Return the rows that ``records`` add to ``view`` and to what was added before.

        The other records are to be folded in the log's order, over all rows that were added.
        """
        rows: list[Change] = []
        waiting: list[Record] = []
        owners, add, quarantined = self._owners, self._added.add, has_quarantine(view)
        left = iter(records)
        while some := list(islice(left, TOGETHER)):
            for record, found in zip(some, first_rows(view, some), strict=True):
                if found is None:
                    own = owner(record.key)
                else:
                    key = found[-1][0]
                    own = key[1:-4]
                    is_new = own not in owners and add(key)
                    if is_new and not (quarantined and view.get(QUARANTINE + key) is not None):
                        rows += found
                        continue
                owners.add(own)
                waiting.append(record)
        return Sorted(cast("list[tuple[bytes, bytes]]", rows), waiting)


# Of all expected keys, about one of a thousand is then taken for one that was added before.
_BYTES_FOR_A_KEY = 3
# One or two of the bits of a byte.
_BITS = [1 << (pair & 7) | 1 << (pair >> 3) for pair in range(64)]


class _Keys:
    """A set of keys in little memory, which may take a key for one that it has: a Bloom filter.

    The bits of a key lie in two bytes, because looking at more of them takes longer.
    """

    def __init__(self, expected: int) -> None:
        size = 1 << (_BYTES_FOR_A_KEY * max(1, expected) - 1).bit_length()
        self._bytes, self._mask = bytearray(size), size - 1

    def add(self, key: bytes) -> bool:
        """Add a key; return true if it certainly was not there."""
        found = xxh3_64_intdigest(key)
        first, second, bits = found & self._mask, found >> 29 & self._mask, _BITS[found >> 58]
        held = self._bytes
        if held[first] & held[second] & bits == bits:
            return False
        held[first] |= bits
        held[second] |= bits
        return True


class Sifted(NamedTuple):
    """The answer of the second process to a batch, see :class:`Sorted`."""

    rows: list[Row]
    waiting: list[Record]
    # The store's applied offset after this batch.
    applied: int


_decode_sifted = msgspec.msgpack.Decoder(Sifted).decode


class BulkFold(FoldingProcess):
    """The node's side. ``log_end`` returns the end of the log as last known."""

    _MODULE = "registry.store.folding.bulk_fold"

    def __init__(
        self,
        read: Callable[[int, int, int], Fetched],
        store: Store,
        bounds: Bounds,
        log_end: Callable[[], int],
    ) -> None:
        """Raises :class:`StoreError` if the disk does not take a file."""
        self._log_end = log_end
        self._waiting: list[Record] = []
        self._waiting_bytes = 0
        self._folder = store.path.parent
        self._began = self._reached = store.applied
        expected = min(log_end() - store.applied, VERSIONS_MAX)
        try:
            self._spool = Spool(self._folder)
        except OSError as error:
            raise self._without_room(error) from error
        super().__init__(read, store, bounds, expected)
        self._sorter: subprocess.Popen[bytes] | None = None
        self._rows = 0
        # True once the process has ended, to commit everything; what comes next needs another one.
        self.is_over = False

    @property
    def progress(self) -> int:
        """The offset up to which batches came back from the process; the store may hold none of them yet."""
        return self._reached

    @property
    def pays(self) -> bool:
        """True if the log has many new versions among its records."""
        return self._rows >= _ROWS_PER_WAITING * len(self._waiting)

    def _without_room(self, error: OSError) -> StoreError:
        return StoreError(f"new rows cannot be kept in {self._folder}: {error.strerror or error}")

    def _may_send(self) -> bool:
        return not self._is_full()

    def _is_full(self) -> bool:
        spool = self._spool.size
        if len(self._waiting) >= WAITING_MAX or self._waiting_bytes >= WAITING_BYTES_MAX:
            return True
        if self._sent - self._began >= VERSIONS_MAX or spool >= SPOOL_BYTES_MAX:
            return True
        # The commit needs as much room again.
        return spool > 0 and shutil.disk_usage(self._folder).free < 2 * spool

    def _take(self, answer: bytes, lineage: Lineage) -> None:
        sifted = _decode_sifted(answer)
        try:
            self._spool.add(sifted.rows)
        except OSError as error:
            raise self._without_room(error) from error
        self._rows += len(sifted.rows)
        self._waiting += sifted.waiting
        self._waiting_bytes += sum(len(each.key or b"") + len(each.value or b"") for each in sifted.waiting)
        self._reached = sifted.applied
        if not self._lineages and (self._is_full() or self._sent >= self._log_end()):
            self._commit(lineage)

    def _commit(self, lineage: Lineage) -> None:
        def rest(view: View) -> Changes:
            changes: Changes = {}
            apply_all(OverlayView(view, changes), self._waiting, changes)
            return changes

        # Nothing is under way, and the process that puts the rows in order needs its memory.
        self._end()
        new = NewRows(self._in_order(), self._spool.hashes, self._spool.size)
        self._store.commit_bulk(new, rest, self._reached, lineage)

    def _in_order(self) -> Iterator[list[Row]]:
        try:
            self._sorter = process = self._spool.sorter()
        except OSError as error:
            raise FoldingEnded from error
        while rows := decode_rows(receive_from(process.stdout)):
            yield rows

    def close(self) -> None:
        """End the process; what was not committed is folded again later."""
        self._end()
        self._spool.close()
        if self._sorter is not None:
            self._sorter.kill()
            self._sorter.communicate()

    def _end(self) -> None:
        if not self.is_over:
            self.is_over = True
            super().close()


def main() -> None:
    """Sift batches over the store in the folder on the command line; see NewVersions for the number."""
    versions = NewVersions(int(sys.argv[2]))
    with closing(StoreReader(Path(sys.argv[1]))) as store:

        def sift(batch: Batch) -> Sifted:
            with store.view() as view:
                return Sifted(*versions.sort(view, batch.records), batch.next)

        answer_batches(sift)


if __name__ == "__main__":
    main()
