"""Reading of messages with another schema than the one that they were written with, in Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from registry.cli.decoding.frame import CannotDecode
from registry.cli.decoding.message import Read, WriterSchema
from registry.cli.decoding.rereading import Reader

# The rows that tasks send: messages that cannot be read, by their writers and reasons.
FAILURES: Final = (
    "ref binary, reason string, messages bigint, places array<struct<partition: int, offset: bigint>>"
)
_SCHEMA = pa.schema([
    ("ref", pa.binary()), ("reason", pa.string()), ("messages", pa.int64()),
    ("places", pa.list_(pa.struct([("partition", pa.int32()), ("offset", pa.int64())]))),
])  # fmt: skip
# Places of messages that are kept of each writer and reason, and reasons of a writer: they may hold values.
PLACES_MAX = 10
REASONS_MAX = 20
OTHER_REASONS = "other reasons"
_REASON_CHARACTERS_MAX = 300


class Failures:
    """Messages that cannot be read: counts and the first places, by writer and reason."""

    def __init__(self) -> None:
        self.found: dict[tuple[bytes, str], tuple[int, list[tuple[int, int]]]] = {}
        self._reasons: dict[bytes, int] = {}

    def add(self, ref: bytes, reason: str, messages: int, places: Sequence[tuple[int, int]]) -> None:
        """Add messages; of a writer with too many reasons, they have no reason of their own."""
        if (ref, reason) not in self.found:
            if self._reasons.get(ref, 0) >= REASONS_MAX:
                reason = OTHER_REASONS
            else:
                self._reasons[ref] = self._reasons.get(ref, 0) + 1
        count, kept = self.found.get((ref, reason), (0, []))
        if len(kept) < PLACES_MAX or any(place < kept[-1] for place in places):
            kept = sorted([*kept, *places])[:PLACES_MAX]
        self.found[ref, reason] = count + messages, kept


class Rereading(NamedTuple):
    """The schemas that a task needs."""

    reader: Reader
    # By the bytes that name them in messages; a text says why there is none.
    writers: Mapping[bytes, WriterSchema | str]

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what cannot be read of batches with the columns ref, partition, offset and data."""
        failures, known = Failures(), dict[bytes, Read | str]()
        for batch in batches:
            for ref, partition, offset, data in zip(
                *(each.to_pylist() for each in batch.columns), strict=True
            ):
                if ref not in known:
                    known[ref] = self._reads(ref)
                if reason := _problem(known[ref], data):
                    failures.add(ref, reason[:_REASON_CHARACTERS_MAX], 1, [(partition, offset)])
        rows = [
            {
                "ref": ref, "reason": reason, "messages": count,
                "places": [{"partition": partition, "offset": offset} for partition, offset in places],
            }
            for (ref, reason), (count, places) in failures.found.items()
        ]  # fmt: skip
        if rows:
            yield pa.RecordBatch.from_pylist(rows, _SCHEMA)

    def _reads(self, ref: bytes) -> Read | str:
        writer = self.writers.get(ref, "it appeared while messages were read")
        if isinstance(writer, str):
            return writer
        try:
            return self.reader.reads(writer)
        except CannotDecode as error:
            return str(error)


def _problem(read: Read | str, data: bytes) -> str:
    if isinstance(read, str):
        return read
    try:
        read(data)
    except CannotDecode as error:
        return str(error)
    return ""
