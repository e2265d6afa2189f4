"""The steps of reseeding a log: the records to write, those it already holds, the rest, and reading it back.

An interrupted reseed can be resumed: the records of a store are always the same, so comparing shows which of
them the log already holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from typing import NamedTuple, Protocol

import orjson

from registry.domain import reseed
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import (
    BARRIER,
    SNAPSHOT,
    Entry,
    NoopKey,
    Record,
    UnreadableKey,
    decode_key,
)
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.view import View
from registry.log.contract import Claim, Fetched, Log, Unreachable

BATCH_RECORDS = 1000
BATCH_BYTES = 800_000
_READ_RECORDS, _READ_BYTES = 5000, 8 << 20
_TIMEOUT_S = 30.0

# Called with the number of records that the log holds so far.
RecordProgress = Callable[[int], None]


class ForeignRecords(Exception):
    """The log holds records that are not those of this reseed; the text says which."""


class ReseedPlan(NamedTuple):
    """The records that a reseed of a store writes."""

    # The last record.
    marker: Entry
    # Number of the other records by key type, their bytes, and the largest of them.
    kinds: Counter[str]
    bytes: int
    largest: Entry | None

    @property
    def records(self) -> int:
        """Number of records without the marker."""
        return self.kinds.total()


class Resumed(NamedTuple):
    """The part of a reseed that the log already holds."""

    records: int
    # The log's end when it was read.
    end: int


class Store(Protocol):
    """The store that the log is folded back into."""

    def view(self) -> AbstractContextManager[View]:
        """Open a view of the committed rows."""
        ...

    def commit(self, changes: dict[bytes, bytes | None], applied: int) -> None:
        """Write the changes."""
        ...


def plan(view: View, origin: str, applied: int) -> ReseedPlan:
    """Return the plan of a reseed of the rows of ``view``."""
    kinds: Counter[str] = Counter()
    size, largest = 0, None
    for entry in reseed.entries(view):
        kinds[str(orjson.loads(entry.key)["keytype"])] += 1
        size += size_of(entry)
        if largest is None or size_of(entry) > size_of(largest):
            largest = entry
    return ReseedPlan(reseed.marker(origin, applied, kinds.total()), kinds, size, largest)


def every(view: View, marker: Entry) -> Iterator[Entry]:
    """Yield all records of a reseed, the marker last."""
    return chain(reseed.entries(view), [marker])


def skip_held(log: Log, remaining: Iterator[Entry], progress: RecordProgress) -> Resumed:
    """Consume from ``remaining`` the records that the log holds; return how many there are.

    No-ops between them are ignored. Raises :class:`ForeignRecords` for any other record, and the errors of
    the log.
    """
    end, offset, count = log.query_end(_TIMEOUT_S), 0, 0
    while offset < end:
        fetched = _read(log, offset)
        for record in fetched.records:
            if _is_noop(record):
                continue
            entry = next(remaining, None)
            if entry is None or (record.key, record.value) != (entry.key, entry.value):
                raise ForeignRecords(_what_else(record, count))
            count += 1
        offset = fetched.next
        progress(count)
    return Resumed(count, end)


def claim(log: Log, found: Resumed) -> Claim | None:
    """Claim the log. Raises :class:`ForeignRecords` if others have written to it since it was read."""
    claimed = log.claim()
    end = log.query_end(_TIMEOUT_S)
    if end != found.end:
        raise ForeignRecords(f"{end - found.end} other records were added")
    return claimed


def publish(log: Log, remaining: Iterator[Entry], found: Resumed, progress: RecordProgress) -> None:
    """Append ``remaining`` to the claimed log."""
    count = found.records
    for batch in _batches(remaining):
        log.append(batch)
        count += len(batch)
        progress(count)


def fold_back(log: Log, store: Store, progress: RecordProgress) -> None:
    """Fold the whole log into an empty store."""
    end, offset, count = log.query_end(_TIMEOUT_S), 0, 0
    while offset < end:
        fetched = _read(log, offset)
        changes: dict[bytes, bytes | None] = {}
        with store.view() as view:
            overlay = OverlayView(view, changes)
            for record in fetched.records:
                overlay.commit(apply(overlay, record))
        store.commit(changes, fetched.next)
        offset = fetched.next
        count += len(fetched.records)
        progress(count)


def _read(log: Log, offset: int) -> Fetched:
    if not log.wait(offset, _TIMEOUT_S):
        raise Unreachable(f"nothing could be read from offset {offset} on within {_TIMEOUT_S:g} s")
    return log.read(offset, _READ_RECORDS, _READ_BYTES)


def _batches(remaining: Iterator[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    size = 0
    for entry in remaining:
        if batch and (len(batch) == BATCH_RECORDS or size + size_of(entry) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += size_of(entry)
    if batch:
        yield batch


def size_of(entry: Entry) -> int:
    """Return the number of bytes of key and value."""
    return len(entry.key) + len(entry.value or b"")


def _is_noop(record: Record) -> bool:
    """Return whether a record belongs to no state: a bare no-op, a barrier, a snapshot's marker."""
    try:
        key = decode_key(record.key)
    except UnreadableKey:
        return False
    return isinstance(key, NoopKey) and key.registrar in (None, BARRIER, SNAPSHOT)


def _what_else(record: Record, count: int) -> str:
    key = "no key" if record.key is None else record.key[:200].decode(errors="backslashreplace")
    before = f" after {count} records of such a reseed" if count else ""
    return f"it has another record at offset {record.offset}{before}: {key}"
