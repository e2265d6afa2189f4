"""Summaries of tasks, for the driver: what they folded, and what their files hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_128_intdigest

from registry.domain.rows import digest
from snapshots.format.location import Location
from snapshots.format.manifest import Part
from snapshots.format.parts import KEY_BYTES_MAX, beginning
from snapshots.format.stored import UnusableSnapshot
from snapshots.format.verify import Totals, read_back

from .columns import Columns, first_bytes, without_deletions


class TallyMessage(msgspec.Struct, frozen=True):
    """A tally on its way between processes."""

    counts: dict[str, int]
    # In hexadecimal.
    digest: str

    @property
    def value(self) -> tuple[dict[str, int], int]:
        """The counts and the digest."""
        return self.counts, int(self.digest, 16)


_LENGTHS = pa.array([b"%d:" % length for length in range(KEY_BYTES_MAX + 1)], pa.binary())
_NOTHING = pa.scalar(b"", pa.binary())
_decode = msgspec.msgpack.Decoder(TallyMessage).decode
_encode = msgspec.msgpack.Encoder().encode


class Tally:
    """Counts rows that are added and removed, by the letter of their table, and sums their hashes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.digest = digest.EMPTY

    def put_all(self, rows: Columns) -> None:
        """Add rows."""
        tables = np.bincount(first_bytes(rows.keys), minlength=1)
        self.counts.update({chr(table): int(tables[table]) for table in np.flatnonzero(tables)})
        self.digest += _total(rows)

    def remove(self, key: bytes, value: bytes) -> None:
        """Remove a row."""
        self.counts[chr(key[0])] -= 1
        self.digest -= digest.row_hash(key, value)

    def message(self) -> TallyMessage:
        """Return the tally as it travels."""
        return TallyMessage(dict(self.counts), digest.text(self.digest % digest.MODULUS))

    def dumps(self) -> bytes:
        """Return the tally, for :func:`loads`."""
        return _encode(self.message())


def loads(raw: bytes) -> tuple[dict[str, int], int]:
    """Return the counts and the digest of a tally."""
    return _decode(raw).value


def _total(rows: Columns) -> int:
    """Return what :func:`registry.domain.rows.digest.total` returns, in half the time."""
    lengths = _LENGTHS.take(pc.binary_length(rows.keys))
    hashed = pc.binary_join_element_wise(lengths, rows.keys, rows.values, _NOTHING)
    return sum(map(xxh3_128_intdigest, hashed.to_pylist()))


_TALLY = pa.schema([("tally", pa.binary())])
FIELDS = "tally binary"
# Columns of the parts, as in their description.
_PART = pa.schema([
    ("name", pa.string()), ("rows", pa.int64()), ("size", pa.int64()), ("sha256", pa.string()),
    ("first", pa.binary()), ("last", pa.binary()),
])  # fmt: skip


class WrongPart(Exception):
    """A file is not the part that a task has written."""


def parts_table(parts: Iterable[Part]) -> pa.Table:
    """Return descriptions of parts, for :func:`tally_files`."""
    return pa.Table.from_pylist([part._asdict() for part in parts], _PART)


def tally_files(uri: str, id: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn descriptions of parts into tallies of the rows in their files. Raises :class:`WrongPart`."""
    location = Location.parse(uri)
    for batch in batches:
        held = _Totals()
        try:
            read_back(location, id, (Part(**each) for each in batch.to_pylist()), totals=held)
        except UnusableSnapshot as error:
            raise WrongPart(str(error)) from error
        yield pa.record_batch([pa.array([held.tally.dumps()], pa.binary())], schema=_TALLY)


class _Totals(Totals):
    """Totals that are taken from columns."""

    def __init__(self) -> None:
        super().__init__()
        self.tally = Tally()

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add the next rows of a file."""
        self.tally.put_all(Columns(*batch.columns))


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
