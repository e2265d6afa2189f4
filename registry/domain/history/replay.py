"""The rows of one owner at an offset, from its rows at an earlier one and the records between.

The laws of the fold allow that: an owner's rows are made by its own records, and a record that a later one of
its key replaces can be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from registry.domain.events.event import Event, Kind
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record
from registry.domain.rows import layout
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import View, scan

from .entries import HistoryEntry

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


def lost(entries: Sequence[HistoryEntry], found: Mapping[int, Record]) -> HistoryEntry | None:
    """Return an entry without which the rows cannot be told, because its record is gone; ``None`` if none is.

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


def replayed(
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
