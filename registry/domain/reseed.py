"""Reseeding: the records that restore the rows of a store in an empty log.

They are what compaction would have left of the old log, in its order. First come contexts, reservations of
ids, configs and modes, whose order does not matter; then versions, delete marks and clears by their old
offsets; then associations, and webhooks. So each mark deletes the versions that it deleted before, each clear
forgets what it forgot, and the oldest version with an id still answers for it. Reservations precede all
versions, so that no prefix of the records assigns an id twice.

These rows are restored unchanged: subjects, versions (ids, guids, texts, metadata, rules, references, soft
deletion), configs, modes, contexts, reservations, associations with their ``createTs``, and webhooks.
Different are:

* offsets, and with them the times of versions (``ts``) and of changes to associations (``updateTs``), which
  come from the new records;
* usage and the census are left out: they describe the data of a cluster, which may be another one now, and
  the next census publishes them again;
* positions of webhooks: they begin after their own records, so nothing of the old log is sent again;
* keys that other writers spelled differently are spelled as this registry does (table K is empty);
* a version soft-deleted by a mark that a later, lower mark replaced is now deleted by its own record
  (``own_deleted``);
* records about the old log itself (barrier, snapshot) and quarantined records, whose values no row holds, are
  left out;
* a row whose key holds a hash instead of a long name cannot be written if no other row has that name.
  :func:`left_out` counts such rows; except for reservations they have no effect.

The last record is the marker by which a node recognizes that this log continues the one of its store.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import orjson

from registry.domain.log_format.jackson import dumps
from registry.domain.log_format.records import (
    AssociationKey,
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    Entry,
    Key,
    ModeKey,
    SchemaKey,
)
from registry.domain.log_format.webhooks import position_value, read_webhook, webhook_value
from registry.domain.model import Subject
from registry.domain.queries.versions import subject_at
from registry.domain.rows import layout, version_row
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View, scan

from .log_format import records, subject_values, values, webhooks

_OFFSET = 8
_NO_ORDER = (layout.CONTEXT, layout.RESERVATION, layout.CONFIG, layout.MODE)
_SCOPED: dict[type, bytes] = {
    ConfigKey: layout.CONFIG,
    ModeKey: layout.MODE,
    DeleteSubjectKey: layout.DELETE_MARK,
    ClearSubjectKey: layout.CLEAR,
}
_COMPARED = (
    layout.ASSOCIATION, layout.WEBHOOK, layout.ID, layout.VERSION, layout.DELETE_MARK, layout.CLEAR,
)  # fmt: skip
_SAME = (
    layout.CONTEXT, layout.RESERVATION, layout.CONFIG, layout.MODE, layout.GUID, layout.REFERRER,
    layout.RESOURCE_NAME, layout.RESOURCE_ID, layout.ENCODED,
)  # fmt: skip


def entries(view: View) -> Iterator[Entry]:
    """Yield the records that restore the rows of ``view``, the same ones each time. ``view`` must not change.

    Keeps some hundred bytes per version in memory to sort them.
    """
    for table in _NO_ORDER:
        for key, value in scan(view, table):
            entry = _without_order(view, key, value)
            if entry is not None:
                yield entry
    for item in _history(view):
        entry = _of_history(view, item[_OFFSET:])
        if entry is not None:
            yield entry
    for _, value in scan(view, layout.ASSOCIATION):
        yield _association(value)
    for webhook in webhooks.webhooks(view):
        yield Entry(records.webhook_key(webhook.name), webhook_value(webhook))
        yield Entry(records.position_key(webhook.name), position_value(None))


def restoring_entry(view: View, key: Key) -> Entry | None:
    """Return the record that gives ``key`` the rows that it has in ``view``, whatever was written since.

    A tombstone if it has none; ``None`` for the keys of our own records.
    """
    row_key = _row_key(key)
    if row_key is None:
        return None
    value = view.get(row_key)
    if value is None:
        return Entry(records.canonical_key(key), None)
    match key:
        case SchemaKey():
            row = VersionRow.unpack(value)
            return Entry(records.canonical_key(key), values.schema_value_of(row, deleted=row.deleted))
        case AssociationKey():
            return _association(value)
        case ConfigKey() | ModeKey() | ContextKey():
            return _without_order(view, row_key, value)
    return _of_history(view, row_key)


def _row_key(key: Key) -> bytes | None:
    match key:
        case SchemaKey(subject, version):
            return layout.version_key(subject, version)
        case AssociationKey():
            return layout.association_key(key.subject, records.canonical_key(key))
        case ContextKey(context):
            return layout.context_key(layout.CONTEXT, context)
        case ConfigKey(subject) | ModeKey(subject) | DeleteSubjectKey(subject) | ClearSubjectKey(subject):
            return layout.scope_key(_SCOPED[type(key)], subject)
    return None


def marker(origin: str, applied: int, count: int) -> Entry:
    """Return the last record: the ``count`` records before it continue log ``origin`` from ``applied`` on.

    Confluent's readers skip it, like every ``NOOP`` of magic 0.
    """
    return Entry(records.RESEED_KEY, dumps({"from": origin, "at": applied, "records": count}))


def left_out(view: View) -> dict[str, int]:
    """Return how many rows :func:`entries` leaves out, by the reason in words; empty if none."""
    nameless = sum(
        _subject_of(view, key) is None
        for table in (layout.RESERVATION, layout.DELETE_MARK, layout.CLEAR)
        for key, _ in scan(view, table)
    )
    quarantined = sum(1 for _ in scan(view, layout.QUARANTINE))
    counted = {"quarantined records": quarantined, "rows whose long names are unknown": nameless}
    return {words: count for words, count in counted.items() if count}


def differences(old: View, new: View) -> Iterator[str]:
    """Yield the unexpected differences between the rows of a reseeded log and the original ones."""
    for table in (*_SAME, *_COMPARED):
        for first, second in zip_longest(_comparable(old, table), _comparable(new, table)):
            if first != second:
                shown = [("nothing" if each is None else repr(each)[:400]) for each in (first, second)]
                yield f"table {table.decode()}: {shown[0]} became {shown[1]}"
                break


def _without_order(view: View, key: bytes, value: bytes) -> Entry | None:
    table = key[:1]
    if table in (layout.CONFIG, layout.MODE):
        scope = layout.scope_of(key, value)
        if table == layout.CONFIG:
            return Entry(records.config_key(scope), value)
        return Entry(records.mode_key(scope), subject_values.mode_value(scope, layout.mode_of(value)))
    context = _context_of(view, key)
    if context is None:
        return None
    if table == layout.CONTEXT:
        return Entry(records.context_key(context), values.context_value(context))
    return Entry(records.reservation_key(context), values.reservation_value(layout.unnumber(value)))


def _history(view: View) -> list[bytes]:
    """Return the keys of all rows whose order matters, each prefixed with its offset, ascending."""
    found = [_pack(version_row.offset_of(value)) + key for key, value in scan(view, layout.VERSION)]
    found += [_pack(layout.read_mark(value)[0]) + key for key, value in scan(view, layout.DELETE_MARK)]
    found += [value + key for key, value in scan(view, layout.CLEAR)]
    found.sort()
    return found


def _pack(offset: int) -> bytes:
    return offset.to_bytes(_OFFSET, "big")


def _of_history(view: View, key: bytes) -> Entry | None:
    value = view.get(key)
    if value is None:
        raise ValueError(f"the history names a row {key!r} that does not exist")
    if key.startswith(layout.VERSION):
        return _version(view, key, value)
    subject = _subject_of(view, key)
    if subject is None:
        return None
    if key.startswith(layout.CLEAR):
        return Entry(records.clear_subject_key(subject), values.clear_subject_value(subject))
    _, upto = layout.read_mark(value)
    return Entry(records.delete_subject_key(subject), values.delete_subject_value(subject, upto))


def _version(view: View, key: bytes, value: bytes) -> Entry:
    row, subject, version = VersionRow.unpack(value), subject_at(key, value), layout.unnumber(key[-4:])
    deleted = row.own_deleted or (row.deleted and not _is_marked(view, key, row.offset))
    return Entry(records.schema_key(subject, version), values.schema_value_of(row, deleted=deleted))


def _is_marked(view: View, key: bytes, offset: int) -> bool:
    """Return true if the current delete mark covers a version recorded at ``offset``."""
    mark = view.get(layout.DELETE_MARK + key[1:-4])
    if mark is None:
        return False
    at, upto = layout.read_mark(mark)
    return at > offset and layout.unnumber(key[-4:]) <= upto


def _association(value: bytes) -> Entry:
    fields = _without_update(value)
    names = ("resourceName", "resourceNamespace", "resourceType", "associationType")
    key = AssociationKey(Subject.parse(fields.get("subject", "")), *(fields.get(name) for name in names))
    return Entry(records.association_key(key), dumps(fields))


def _without_update(value: bytes) -> dict[str, Any]:
    """Return an association as its record has it, without the time at which that was written."""
    fields: dict[str, Any] = orjson.loads(value)
    del fields["updateTs"]
    return fields


def _subject_of(view: View, key: bytes) -> Subject | None:
    """Return the owner of a row of table C, D, N or X; ``None`` if only a hash of a long name is left."""
    context, _, rest = key[1:].partition(b"\0")
    name = layout.unpart(rest[:-1])
    if name is None:
        # Without a version, the mark or clear of a subject has no effect.
        version = next(scan(view, layout.VERSION + key[1:]), None)
        return None if version is None else subject_at(*version)
    known = _context_name(view, context)
    return None if known is None else Subject(known, name)


def _context_of(view: View, key: bytes) -> str | None:
    return _context_name(view, key[1:-1])


def _context_name(view: View, context: bytes) -> str | None:
    known = layout.unpart(context)
    if known is not None:
        return known
    tail = context + b"\0"
    row = view.get(layout.CONTEXT + tail)
    if row is not None:
        return row.decode()
    version = next(scan(view, layout.VERSION + tail), None)
    if version is not None:
        return subject_at(*version).context
    for table in (layout.CONFIG, layout.MODE):
        scope = next(scan(view, table + tail), None)
        if scope is not None:
            return layout.scope_of(*scope).context
    return None


def _comparable(view: View, table: bytes) -> Iterator[tuple[bytes, object]]:
    """Yield the rows of a table without what always differs and what :func:`entries` leaves out."""
    for key, value in scan(view, table):
        if table == layout.VERSION:
            row = VersionRow.unpack(value)
            own = row.own_deleted or (row.deleted and not _is_marked(view, key, row.offset))
            yield key, row._replace(offset=0, ts=0, own_deleted=own)
        elif table == layout.ID:
            yield layout.without_offset(key), value
        elif table == layout.ASSOCIATION:
            yield key, _without_update(value)
        elif table == layout.WEBHOOK:
            yield key, webhook_value(read_webhook(value))
        elif table in _SAME and (table != layout.RESERVATION or _context_of(view, key) is not None):
            yield key, value
        elif table in (layout.DELETE_MARK, layout.CLEAR) and _subject_of(view, key) is not None:
            yield key, layout.read_mark(value)[1] if table == layout.DELETE_MARK else b""
