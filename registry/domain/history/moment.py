"""Moments in the past of the log, and the rows of owners at one, from earlier rows and the records between.

The laws of the fold allow that: an owner's rows are made by its own records, and a record that a later one of
its key replaces can be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from registry.domain.events import Event, Kind
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record
from registry.domain.model import Subject
from registry.domain.queries.sensitive_metadata import Cipher, plain_row
from registry.domain.rows import layout
from registry.domain.rows.layout import VERSION, after
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.version_row import ENCODED_MARK
from registry.domain.rows.view import History, View, scan

from .entries import OFFSET_BYTES, HistoryEntry, entry_key, event_for, packed_owner, unpack


class Moment(msgspec.Struct, frozen=True):
    """A moment in the log: after a record, or after the records that are not newer than a time."""

    # The last record that counts; ``None``: given by time.
    offset: int | None = None
    # In ms since the epoch.
    time_ms: int = 0


class OwnerRows(msgspec.Struct, frozen=True):
    """The rows of some owners at one moment."""

    # The rows include the log up to this offset, exclusively.
    applied: int
    # By owner, as packed in row keys; those of :data:`CONTEXTS` are the rows of all contexts.
    rows: dict[bytes, list[tuple[bytes, bytes]]]


# Asks for the contexts that there were; no subject or context has this owner.
CONTEXTS = b""
# Owners of one request.
OWNERS_MAX = 256


def plain_owners(found: OwnerRows, cipher: Cipher | None) -> OwnerRows:
    """Return the rows with sensitive metadata decrypted, if there is a cipher."""
    if cipher is None:
        return found
    rows = {
        owner: [
            (key, plain_row(value, cipher) if key.startswith(VERSION) and ENCODED_MARK in value else value)
            for key, value in each
        ]
        for owner, each in found.rows.items()
    }
    return OwnerRows(found.applied, rows)


def has_any(history: History, subject: Subject) -> bool:
    """Return true if the history has an entry of a subject or a context."""
    return newest(history, packed_owner(subject)) is not None


def newest(history: History, owner: bytes) -> int | None:
    """Return the offset of the newest entry of an owner, packed as in keys."""
    found = history.seek_back(after(owner))
    return int.from_bytes(found[0][-OFFSET_BYTES:], "big") if found and _is_of(found[0], owner) else None


def entries(history: History, owner: bytes, begin: int = 0) -> Iterator[HistoryEntry]:
    """Yield the entries of an owner from an offset on, ascending."""
    found = history.seek(entry_key(owner, begin))
    while found is not None and _is_of(found[0], owner):
        yield unpack(*found)
        found = history.seek(found[0] + b"\0")


def event_at(history: History, subject: Subject, offset: int) -> Event | None:
    """Return the event of a subject at an offset; ``None`` if the history has none there."""
    key = entry_key(packed_owner(subject), offset)
    found = history.seek(key)
    return event_for(unpack(*found), subject) if found is not None and found[0] == key else None


def walk(
    view: View, subject: Subject, past: int | None = None, *, ascending: bool = False
) -> Iterator[Event]:
    """Walk the events of a subject or a context, the newest first, after the one at the offset ``past``."""
    owner = packed_owner(subject)
    key = entry_key(owner, past) if past is not None else owner if ascending else after(owner)
    while (history := view.history()) is not None:
        found = history.seek(key + b"\0") if ascending else history.seek_back(key)
        if found is None or not _is_of(found[0], owner):
            return
        key = found[0]
        yield event_for(unpack(*found), subject)


def _is_of(key: bytes, owner: bytes) -> bool:
    return len(key) == len(owner) + OFFSET_BYTES and key.startswith(owner)


Row = tuple[bytes, bytes]

# The tables that reads of one subject look at, and in which an owner's rows stand together.
TABLES = (layout.VERSION, layout.CONFIG, layout.MODE, layout.CLEAR, layout.DELETE_MARK)


def prefixes(owner: bytes) -> Iterator[bytes]:
    """Yield the prefixes of an owner's rows in these tables; a context also has a row of its own."""
    yield from (table + owner for table in TABLES)
    if owner.endswith(b"\0\0"):
        yield layout.CONTEXT + owner[:-1]


def rows_of(view: View, owner: bytes) -> list[Row]:
    """Return an owner's rows in a view."""
    return [row for prefix in prefixes(owner) for row in scan(view, prefix)]


def find_lost(entries: Sequence[HistoryEntry], found: Mapping[int, Record]) -> HistoryEntry | None:
    """Return an entry that the rows need and whose record is gone; ``None`` if there is none.

    ``found``: the records of the entries that the log still has.
    """
    last = {each.about: each.offset for each in entries}
    marked = 0  # the highest version that a later delete mark names
    for entry in reversed(entries):
        upto = _marked_by(entry.event)
        if entry.offset not in found:
            replaced = upto <= marked if upto else last[entry.about] > entry.offset
            kind = entry.event.kind
            if kind in _ALWAYS_COUNT or not (replaced or kind in _NOT_REPLACED):
                return entry
        marked = max(marked, upto)
    return None


def _marked_by(event: Event) -> int:
    """Return the highest version that a delete mark names; 0 if the event is none."""
    return event.version or 0 if event.kind is Kind.SUBJECT_SOFT_DELETED else 0


def replay(
    owner: bytes, rows: Iterable[Row], entries: Sequence[HistoryEntry], found: Mapping[int, Record]
) -> list[Row]:
    """Return an owner's rows after the records of ``entries``, of which none that counts is lost."""
    view = DictView(rows)
    for entry in entries:
        record = found.get(entry.offset)
        if record is not None:
            view.commit(apply(view, record))
        elif entry.event.kind in _DELETED_ROW:
            view.commit([(_row_key(owner, entry.event), None)])
    return rows_of(view, owner)


# Deletions that change only one of the rows above. Compaction removes their records after a while.
_DELETED_ROW = {
    Kind.VERSION_DELETED: layout.VERSION,
    Kind.CONFIG_DELETED: layout.CONFIG,
    Kind.MODE_DELETED: layout.MODE,
    Kind.SUBJECT_UNCLEARED: layout.CLEAR,
    Kind.CONTEXT_DELETED: layout.CONTEXT,
}


def _row_key(owner: bytes, event: Event) -> bytes:
    table = _DELETED_ROW[event.kind]
    if table == layout.CONTEXT:
        return table + owner[:-1]
    return table + owner + (layout.number(event.version or 0) if table == layout.VERSION else b"")


# Events that need no record: what they delete is known, or is in other tables.
_NOT_REPLACED = frozenset((*_DELETED_ROW, Kind.ASSOCIATION_SET, Kind.ASSOCIATION_DELETED))
# Events that also count if a later record has the same key: they may restore what a delete mark has deleted.
_ALWAYS_COUNT = frozenset((Kind.SUBJECT_RESTORED, Kind.QUARANTINED))


class Unloaded(Exception):
    """Raised by a read of rows that are not there yet; ``owner``: the one whose rows are needed."""

    def __init__(self, owner: bytes) -> None:
        super().__init__(owner)
        self.owner = owner


class OwnersView:
    """The rows of some owners at one moment, in the tables of the history; others cannot be read.

    A seek begins with a whole owner, except over contexts, and ends with the owner's rows in its table.
    """

    def __init__(self, rows: Mapping[bytes, Iterable[Row]]) -> None:
        self._owners = frozenset(rows)
        self._rows = DictView(row for each in rows.values() for row in each)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        self._require(_owner(key))
        return self._rows.get(key)

    def seek(self, key: bytes) -> Row | None:
        """Return the first row of the same owner and table whose key is ``key`` or greater."""
        owner = CONTEXTS if key[:1] == layout.CONTEXT else _owner(key)
        self._require(owner)
        return _within(key[:1] + owner, self._rows.seek(key))

    def seek_back(self, key: bytes) -> Row | None:
        """Return the last row of the same owner and table whose key is less than ``key``."""
        # What follows all keys of an owner ends with another byte than the owner itself.
        ends = key.count(b"\0") == 1 and key.endswith(b"\x01")
        owner = key[1:-1] + b"\0" if ends else _owner(key)
        self._require(owner)
        return _within(key[:1] + owner, self._rows.seek_back(key))

    def _require(self, owner: bytes) -> None:
        if owner not in self._owners:
            raise Unloaded(owner)

    def revision(self) -> None:
        """Return nothing: these rows have no revision."""

    def block(self, key: bytes) -> None:
        """Return nothing: these rows are not counted."""

    def history(self) -> None:
        """Return nothing: these rows come without their history."""


def _owner(key: bytes) -> bytes:
    """Return the owner that a key names."""
    table, context_end = key[:1], key.find(b"\0") + 1
    if table == layout.CONTEXT and context_end == len(key):
        return key[1:] + b"\0"
    if table not in TABLES or not context_end:
        raise ValueError(f"a view of the past has no rows at {key!r}")
    name_end = key.find(b"\0", context_end) + 1
    # Walks of versions begin before the zero byte that ends the name.
    return key[1:name_end] if name_end else key[1:] + b"\0"


def _within(prefix: bytes, row: Row | None) -> Row | None:
    return row if row is not None and row[0].startswith(prefix) else None
