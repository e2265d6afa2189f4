"""Reseeding a log: what it must hold, how far it is, the rest of it, and whether it gives the rows again.

A reseed that was interrupted is gone on with: the records of a store are the same ones each time, so those
that the log holds already are found by comparing them.
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
from registry.domain.log_format.records import IDS, RESEED, Entry, NoopKey, Record, UnreadableKey, decode_key
from registry.domain.rows.layout import View
from registry.domain.rows.memory_views import OverlayView
from registry.log.contract import Claim, Fetched, Log, Unreachable

BATCH_RECORDS = 1000
BATCH_BYTES = 800_000
_READ_RECORDS, _READ_BYTES = 5000, 8 << 20
_TIMEOUT_S = 30.0

Progress = Callable[[int], None]
"""Called with the number of records that the log holds so far."""


class NotOurs(Exception):
    """The log holds something else than a reseed of this store; the text says what."""


class Wanted(NamedTuple):
    """What a reseed of a store is made of."""

    marker: Entry
    kinds: Counter[str]
    """Records by their key type, the marker apart."""
    bytes: int
    largest: Entry | None

    @property
    def records(self) -> int:
        """How many, the marker apart."""
        return self.kinds.total()


class Held(NamedTuple):
    """What the log holds of the wanted records."""

    records: int
    end: int
    """The log's end when that was found."""


class Store(Protocol):
    """Where the log is folded back into."""

    def view(self) -> AbstractContextManager[View]:
        """The committed rows, for a ``with`` block."""
        ...

    def commit(self, changes: dict[bytes, bytes | None], applied: int) -> None:
        """Write the changes."""
        ...


def wanted(view: View, origin: str, applied: int) -> Wanted:
    """What a reseed of the rows of ``view`` is made of, counted."""
    kinds: Counter[str] = Counter()
    size, largest = 0, None
    for entry in reseed.entries(view):
        kinds[str(orjson.loads(entry.key)["keytype"])] += 1
        size += size_of(entry)
        if largest is None or size_of(entry) > size_of(largest):
            largest = entry
    return Wanted(reseed.marker(origin, applied, kinds.total()), kinds, size, largest)


def every(view: View, marker: Entry) -> Iterator[Entry]:
    """All records of a reseed, the marker last."""
    return chain(reseed.entries(view), [marker])


def held(log: Log, remaining: Iterator[Entry], progress: Progress) -> Held:
    """How much of ``remaining`` the log holds, which is taken from it.

    No-ops between them say nothing. Raises :class:`NotOurs` for any other record, and the log's errors.
    """
    end, offset, count = log.query_end(_TIMEOUT_S), 0, 0
    while offset < end:
        fetched = _read(log, offset)
        for record in fetched.records:
            if _is_noop(record):
                continue
            entry = next(remaining, None)
            if entry is None or (record.key, record.value) != entry:
                raise NotOurs(_what_else(record, count))
            count += 1
        offset = fetched.next
        progress(count)
    return Held(count, end)


def claim(log: Log, found: Held) -> Claim | None:
    """Claim the log. Raises :class:`NotOurs` when somebody else has written to it since it was looked at."""
    claimed = log.claim()
    end = log.query_end(_TIMEOUT_S)
    if end != found.end:
        raise NotOurs(f"{end - found.end} records were added meanwhile")
    return claimed


def publish(log: Log, remaining: Iterator[Entry], found: Held, progress: Progress) -> None:
    """Append ``remaining`` to the log that was claimed."""
    count = found.records
    for batch in _batches(remaining):
        log.append(batch)
        count += len(batch)
        progress(count)


def fold_back(log: Log, store: Store, progress: Progress) -> None:
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
    """Bytes of key and value together."""
    return len(entry.key) + len(entry.value or b"")


def _is_noop(record: Record) -> bool:
    """Whether a record is no part of any state: a bare no-op, a barrier, a snapshot's marker."""
    try:
        key = decode_key(record.key)
    except UnreadableKey:
        return False
    return isinstance(key, NoopKey) and key.registrar not in (IDS, RESEED)


def _what_else(record: Record, count: int) -> str:
    key = "no key" if record.key is None else record.key[:200].decode(errors="backslashreplace")
    before = f" after {count} records of such a reseed" if count else ""
    return f"at offset {record.offset}{before} there is another record: {key}"
