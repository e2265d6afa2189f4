"""Reading the parts of a new snapshot again, to learn what their files hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from snapshots.format.location import Location
from snapshots.format.manifest import Part
from snapshots.format.stored import UnusableSnapshot
from snapshots.format.verify import Totals, read_back

from .columns import Columns
from .tallying import Tally

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
