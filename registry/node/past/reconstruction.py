"""Reconstruction of rows as they were at an earlier offset, upon a snapshot or from the history.

An owner that has not changed since has the rows that it has now. Otherwise its rows are those in the newest
snapshot before the moment, or none if its history is known from the beginning, and the records since then,
whose offsets are in the history. What cannot be reconstructed is an error, never a guess.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, takewhile

from registry.domain.errors import BAD_REQUEST, PAST_LOST, UNAVAILABLE, UNPROCESSABLE, RegistryError
from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.history import moment
from registry.domain.history.entries import HistoryEntry, is_of
from registry.domain.history.moment import (
    CONTEXTS,
    Moment,
    OwnerRows,
    Row,
    find_lost,
    prefixes,
    replay,
    rows_of,
)
from registry.domain.log_format.records import Record
from registry.domain.lru import Lru
from registry.domain.rows import layout
from registry.domain.rows.layout import after
from registry.domain.rows.view import History, Span, gap_below
from registry.log.contract import Log, LogError
from registry.store.lmdb import Store
from snapshots.catalogue.catalogue import Entry
from snapshots.format.deltas import rows_between
from snapshots.format.files import BadLocation, LocationUnreachable
from snapshots.format.location import Location
from snapshots.format.manifest import FORMATS, Manifest, ManifestKeys, Part
from snapshots.format.parts import BadPart
from snapshots.format.stored import UnusableSnapshot, read_manifest, read_part

# A snapshot may have several deltas.
_MANIFESTS_MAX, _PARTS_MAX = 4, 12
_log = logging.getLogger(__name__)


class SnapshotRows:
    """The snapshots of ``log`` that ``entries`` lists; used by one thread. ``keys``: of their manifests."""

    def __init__(
        self, log: Log, entries: Callable[[], list[Entry]], keys: Callable[[], ManifestKeys] = ManifestKeys
    ) -> None:
        self._log, self._entries, self._keys = log, entries, keys
        self._manifests = Lru[str, Manifest](_MANIFESTS_MAX)
        self._parts = Lru[str, bytes](_PARTS_MAX)
        self._refused: set[str] = set()

    def ready(self) -> list[Entry]:
        """Return the snapshots that may be used, ascending by offset."""
        found = [
            each
            for each in self._entries()
            if each.state == "ready" and each.format in FORMATS and each.fold == FOLD_VERSION
            and each.log == self._log.identity and each.id not in self._refused
        ]  # fmt: skip
        return sorted(found, key=lambda each: each.offset)

    def rows(self, entry: Entry, owner: bytes) -> list[Row] | None:
        """Return the rows of an owner in a snapshot; ``None`` if it cannot be used.

        Raises :class:`registry.log.contract.LogError`.
        """
        try:
            location = Location.parse(entry.uri, self._keys())
            manifest = self._manifest(location, entry.id, entry.manifest)
            return [row for prefix in prefixes(owner) for row in self._under(location, manifest, prefix)]
        except LocationUnreachable as error:
            _log.warning("cannot read snapshot %s to reconstruct past state: %s", entry.id, error)
        except (BadLocation, UnusableSnapshot, BadPart) as error:
            _log.warning("snapshot %s cannot be used to reconstruct past state: %s", entry.id, error)
            self._refused.add(entry.id)
        return None

    def _manifest(self, location: Location, id: str, announced: str) -> Manifest:
        manifest = self._manifests.get(id)
        if manifest is None:
            manifest = read_manifest(location, id, announced)
            self._check_lineage(manifest)
            self._manifests.put(id, manifest)
        return manifest

    def _check_lineage(self, manifest: Manifest) -> None:
        """Raise :class:`UnusableSnapshot` if the snapshot holds records that the log has lost."""
        for trace in reversed(manifest.lineage.traces):
            records = self._log.read_again(trace.offset, 1, 1).records
            if records and records[0].offset == trace.offset:
                diverged = manifest.lineage.divergence(records[0], self._log.end(), None)
                if diverged is not None:
                    raise UnusableSnapshot(
                        f"it holds records from offset {diverged} on that the log has lost"
                    )
                return

    def _under(self, location: Location, manifest: Manifest, prefix: bytes) -> Iterator[Row]:
        """Yield the rows whose key begins with ``prefix``."""
        for rows in rows_between(manifest, partial(self._content, location), prefix, after(prefix)):
            yield from rows

    def _content(self, location: Location, id: str, part: Part) -> bytes:
        content = self._parts.get(part.name)
        if content is None:
            content = read_part(location, id, part)
            self._parts.put(part.name, content)
        return content


# What one answer may take: records of one owner, and bytes of all rows.
ENTRIES_MAX = 20_000
BYTES_MAX = 32 << 20
CONTEXTS_MAX = 1_000
CACHE_BYTES = 16 << 20
_FILLING_S = 5
_READ_RECORDS, _READ_BYTES = 64, 64 << 10


class PastReader:
    """Reconstructs the rows of owners at past moments; used by one thread.

    ``now_ms`` is the wall clock. ``check_time`` is called often, and raises if it takes too long.
    """

    def __init__(self, log: Log, store: Store, bases: SnapshotRows, now_ms: Callable[[], int]) -> None:
        self._log, self._store, self._snapshot_rows, self._now_ms = log, store, bases, now_ms
        self._cache = Lru[tuple[bytes, int], list[Row]](CACHE_BYTES)

    def reconstruct(
        self, moment: Moment, owners: Sequence[bytes], check_time: Callable[[], None]
    ) -> OwnerRows:
        """Return the rows of owners, packed as in row keys. Raises :class:`RegistryError`."""
        try:
            applied = self._resolve_moment(moment)
            found: dict[bytes, list[Row]] = {}
            size = 0
            for owner in owners:
                found[owner] = self._contexts(applied, check_time) if owner == CONTEXTS else (
                    self._rows(owner, applied, check_time)
                )  # fmt: skip
                size += _size(found[owner])
                if size > BYTES_MAX:
                    raise UNPROCESSABLE("The requested state is too large for one response")
            return OwnerRows(applied, found)
        except LogError as error:
            raise UNAVAILABLE(f"Cannot read the log to reconstruct past state: {error}") from error

    def _resolve_moment(self, moment: Moment) -> int:
        """Return the offset after the last record that counts."""
        applied = self._store.applied
        if moment.offset is None:
            if moment.time_ms > self._now_ms():
                raise BAD_REQUEST("atTime is in the future")
            first = self._log.first_after(moment.time_ms)
            return applied if first is None else min(first, applied)
        if moment.offset >= applied:
            raise BAD_REQUEST(f"atOffset is beyond the log's last record, which is at offset {applied - 1}")
        return moment.offset + 1

    def _contexts(self, applied: int, check_time: Callable[[], None]) -> list[Row]:
        """Return the rows of all contexts."""
        with self._store.view() as view:
            contexts = list(islice(_contexts_in(_require_history(view.history())), CONTEXTS_MAX + 1))
        if len(contexts) > CONTEXTS_MAX:
            raise UNPROCESSABLE("There are too many contexts to search for that time")
        owners = (context + b"\0" for context in contexts)
        rows = (row for owner in owners for row in self._rows(owner, applied, check_time))
        return [row for row in rows if row[0].startswith(layout.CONTEXT)]

    def _rows(self, owner: bytes, applied: int, check_time: Callable[[], None]) -> list[Row]:
        rows = self._cache.get((owner, applied))
        if rows is None:
            rows = self._reconstruct_owner(owner, applied, check_time)
            self._cache.put((owner, applied), rows, _size(rows))
        return rows

    def _reconstruct_owner(self, owner: bytes, applied: int, check_time: Callable[[], None]) -> list[Row]:
        with self._store.view() as view:
            history = _require_history(view.history())
            span, newest = _whole(history), moment.newest(history, owner)
            if span.since <= applied and (newest is None or newest < applied):
                return rows_of(view, owner)
            filling = gap_below(history.spans(), history.applied()) is not None
            known = takewhile(lambda each: each.offset < applied, moment.entries(history, owner, span.since))
            entries = list(islice(known, ENTRIES_MAX + 1))
        if len(entries) > ENTRIES_MAX:
            raise UNPROCESSABLE("Reconstructing that state requires too many records")
        # The owner's present rows are those of all offsets from here on.
        later = [max(span.since, 0 if newest is None else newest + 1)]
        bases = [each for each in self._snapshot_rows.ready() if each.offset >= span.since]
        later += [begin for each in bases if (begin := max(each.offset, each.comparable_from)) > applied]
        begin, rows = self._base(owner, applied, bases, check_time)
        if begin < span.since:
            if filling:
                raise UNAVAILABLE("The history of that time is still being read").with_retry_after(_FILLING_S)
            raise _past_lost("its records were removed before this server saw them", applied, min(later))
        entries = [each for each in entries if each.offset >= begin]
        found = self._records(entries, check_time)
        missing = find_lost(entries, found)
        if missing is not None:
            raise _past_lost(f"compaction has removed the record at {missing.offset}", applied, min(later))
        return replay(owner, rows, entries, found)

    def _base(
        self, owner: bytes, applied: int, bases: Sequence[Entry], check_time: Callable[[], None]
    ) -> tuple[int, list[Row]]:
        """Return an owner's rows at the newest offset up to ``applied`` where they stand; none at 0."""
        for each in reversed(bases):
            if max(each.offset, each.comparable_from) <= applied:
                check_time()
                rows = self._snapshot_rows.rows(each, owner)
                if rows is not None:
                    return each.offset, rows
        return 0, []

    def _records(self, entries: Sequence[HistoryEntry], check_time: Callable[[], None]) -> dict[int, Record]:
        """Return those records that the log still has."""
        wanted = {each.offset: each for each in entries}
        found: dict[int, Record] = {}
        reached = size = 0
        for offset in wanted:
            if offset < reached:
                continue
            check_time()
            fetched = self._log.read_again(offset, _READ_RECORDS, _READ_BYTES)
            if fetched.next <= offset:
                raise LogError(f"it does not return its records from {offset} on")
            reached = fetched.next
            for record in fetched.records:
                entry = wanted.get(record.offset)
                if entry is not None:
                    if not is_of(entry, record):
                        raise LogError(
                            f"its record at offset {record.offset} is not the one that was applied"
                        )
                    found[record.offset] = record
                    size += len(record.key or b"") + len(record.value or b"")
            if size > BYTES_MAX:
                raise UNPROCESSABLE("Reconstructing that state requires too many records")
        return found


def _past_lost(why: str, applied: int, later: int) -> RegistryError:
    """Return the error of a lost past; ``later``: where the log ends at which it can be reconstructed."""
    return PAST_LOST(applied - 1, why, later - 1)


def _require_history(history: History | None) -> History:
    assert history is not None, "the node's own store has a history"
    return history


def _whole(history: History) -> Span:
    """Return the span up to the applied offset."""
    spans, applied = history.spans(), history.applied()
    if applied and not (spans and spans[-1].end == applied):
        raise UNAVAILABLE("The history is still being read").with_retry_after(1)
    return spans[-1] if spans else Span(0, 0, 0)


def _contexts_in(history: History) -> Iterator[bytes]:
    """Yield the packed contexts of all owners."""
    found = history.seek(b"\x01")
    while found is not None:
        context = found[0][: found[0].index(b"\0") + 1]
        yield context
        found = history.seek(layout.after(context))


def _size(rows: Sequence[Row]) -> int:
    return sum(len(key) + len(value) + 100 for key, value in rows) + 200
