"""The fold: how a record changes the rows. Rows change in no other way.

Only the last record of a key counts: it replaces everything that the key held before. A value of the wrong
kind leaves a quarantine row instead of the key's rows; a key that cannot be read is quarantined under its raw
bytes. Nothing but JSON is parsed and nothing raises, so the offset always advances.

This has consequences:

* A record reads and writes only rows of its own owner (:func:`owner`), so owners may be folded separately.
* ``DELETE_SUBJECT`` leaves a mark. Older versions up to its version are *seen* as deleted, whatever their own
  records hold, until they are written again or the mark is removed. A later mark of a lower version restores
  nothing: this is the one case that a compacted log cannot reproduce. (This registry's marks name the highest
  version that exists, so a later mark covers the earlier ones.)
* ``CLEAR_SUBJECT`` only leaves its own row. Versions are read together with it, and soft-deleted ones before
  it are then taken for forgotten, so that not even a clear of everything changes rows of other owners.
* References of soft-deleted versions stay indexed (Confluent forgets them when the log is compacted).
* Foreign spellings of keys stay in rows as long as the log has them (:mod:`.versions`).
* An id that other writers assigned to two contents keeps both; reads by id return the row of the lowest
  offset.
* An empty value and JSON's ``null`` mean the same as a tombstone, but compaction keeps them. Karapace deletes
  with empty values, and its backups write ``null``.
* The key decides which version a record is. Confluent takes that from the value, but always writes both
  alike.
* A version without id or text, or with one of the wrong type, is quarantined; Confluent fails to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import orjson

from registry.domain.log_format import subject_values, usage, values, webhooks
from registry.domain.log_format.jackson import dumps
from registry.domain.log_format.records import (
    BARRIER,
    CENSUS,
    POSITION,
    RESEED,
    SNAPSHOT,
    USAGE,
    WEBHOOK,
    AssociationKey,
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    Key,
    ModeKey,
    NoopKey,
    Record,
    SchemaKey,
    UnreadableKey,
    canonical_key,
    decode_key,
)
from registry.domain.log_format.values import BadValue
from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.domain.rows import layout, version_row
from registry.domain.rows.layout import QUARANTINE, VERSION, number, part
from registry.domain.rows.view import Change, View, scan

from .fast_path import CONTEXT as PLAIN_CONTEXT
from .fast_path import (
    PlainKey,
    PlainRecords,
    PlainVersion,
    content_of,
    plain_key,
    plain_keys,
    plain_rows,
    plain_values,
)
from .versions import RowParts, deletes, foreign_key_changes, quarantine_row, schema_changes, version_changes

# Version of the rows that the fold makes. A store of another version is rebuilt from the log.
FOLD_VERSION = 5

# Values that other writers use in place of a tombstone.
_DELETES = (b"", b"null")
_PLAIN_VERSIONS = VERSION + PLAIN_CONTEXT
# Records whose plain versions are read together.
_TOGETHER = 500


def apply(view: View, record: Record) -> list[Change]:
    """Return the changes that ``record`` makes to the rows of ``view``; no row is named twice.

    Records come in the order of their offsets, at least those of one owner. Never raises.
    """
    changes: dict[bytes, bytes | None] = {}
    apply_all(view, [record], changes, may_have_quarantine=True)
    return list(changes.items())


def apply_all(
    view: View,
    records: Iterable[Record],
    changes: dict[bytes, bytes | None],
    parsed: PlainRecords | None = None,
    *,
    may_have_quarantine: bool | None = None,
) -> set[bytes]:
    """Apply ``records`` one by one and add to ``changes``, which ``view`` must show on top of earlier rows.

    Return the keys of changes that may have had a row before; all others are puts of new keys. ``parsed``
    receives the contents of those plain versions that are parsed. ``may_have_quarantine``: as
    :func:`has_quarantine` says of the view, if the caller knows that.
    """
    known: set[bytes] = set()
    # Usually nothing is quarantined; then there is no need to look for a quarantine row of each key.
    if may_have_quarantine is None:
        may_have_quarantine = has_quarantine(view)
    left = iter(records)
    while some := list(islice(left, _TOGETHER)):
        for record, rows in zip(some, _first_rows(view, some, parsed), strict=True):
            # Whatever came before it in this batch is among the changes.
            if rows is not None and rows[-1][0] not in changes:
                quarantine = QUARANTINE + rows[-1][0]
                if not may_have_quarantine or view.get(quarantine) is None:
                    changes.update(rows)
                    continue
            each = _changes(view, record)
            keys = [key for key, _ in each]
            known.update(keys)
            may_have_quarantine = may_have_quarantine or any(key.startswith(QUARANTINE) for key in keys)
            changes.update(each)
    return known


def has_quarantine(view: View) -> bool:
    """Return true if the view has quarantine rows."""
    return next(scan(view, QUARANTINE), None) is not None


def _first_rows(
    view: View, records: Sequence[Record], parsed: PlainRecords | None
) -> list[list[Change] | None]:
    """Return for each record the puts of a plain version that has no rows in the view, its own row last.

    ``None`` for all other records. ``parsed`` receives the contents.
    """
    # Loops, because a comprehension is a call, and there is one for each lone record.
    found: list[list[Change] | None] = [None] * len(records)
    keys, get = plain_keys([record.key or b"" for record in records]), view.get
    new: list[tuple[int, PlainKey]] = []
    values: list[bytes] = []
    for at, key in enumerate(keys):
        value = records[at].value
        if key is not None and value is not None and get(_PLAIN_VERSIONS + key.end) is None:
            new.append((at, key))
            values.append(value)
    if not new:
        return found
    plain: list[int] = []
    versions: list[PlainVersion] = []
    for (at, key), parts in zip(new, plain_values(values), strict=True):
        if parts is not None:
            (offset, ts, *_), schema = records[at], content_of(parts)
            plain.append(at)
            versions.append((key, schema, offset, ts))
            if parsed is not None:
                parsed[offset] = key, schema
    for at, rows in zip(plain, plain_rows(versions), strict=True):
        found[at] = rows
    return found


def _changes(view: View, record: Record) -> list[Change]:
    raw, tombstone = record.key, record.value is None
    if record.value in _DELETES:
        record = record._replace(value=None)
    plain = None if raw is None else plain_key(raw)
    if plain is not None:
        return version_changes(view, record, RowParts(DEFAULT_CONTEXT, PLAIN_CONTEXT, plain.end, plain.head))
    try:
        key = decode_key(raw)
    except UnreadableKey as error:
        row_key = layout.unreadable_key(raw)
        if record.value is None:
            return deletes(view, row_key)
        return [(row_key, quarantine_row(record, error.reason))]
    changes = _FOLDS[type(key)](view, key, record)
    return changes + foreign_key_changes(view, key, raw or b"", gone=tombstone)


def owner(key: bytes | None) -> bytes:
    """Return the owner of a key's records as packed in row keys: a subject, a context, or ``b""``.

    A context owns the records about itself. Keys that cannot be read belong to the cluster.
    """
    try:
        return owner_of(decode_key(key))
    except UnreadableKey:
        return b""


def owner_of(key: Key) -> bytes:
    """Return the owner of a key that was read, as :func:`owner` does."""
    if not isinstance(key, ContextKey | NoopKey):
        subject = key.subject
    elif key.context is not None:
        subject = Subject(key.context, "")
    else:
        return b""
    return part(subject.context) + part(subject.name)


def _delete_subject(view: View, key: DeleteSubjectKey, record: Record) -> list[Change]:
    def mark(value: bytes) -> bytes:
        return layout.delete_mark(record.offset, values.read_delete_mark(value), record.ts)

    row_key = layout.scope_key(layout.DELETE_MARK, key.subject)
    marked = view.get(row_key) is not None
    changes = _single(view, record, row_key, mark)
    new = dict(changes).get(row_key)
    if new is not None:
        _, upto = layout.read_mark(new)
        changes += _deleted_upto(view, key.subject, upto)
    elif marked:
        changes += _deleted_by_themselves(view, key.subject)
    return changes


def _deleted_upto(view: View, subject: Subject, upto: int) -> Iterator[Change]:
    # All rows here are older than the mark, because records come in order.
    last = layout.version_key(subject, upto)
    for key, value in scan(view, layout.scope_key(layout.VERSION, subject)):
        if key > last:
            return
        if not version_row.is_deleted(value):
            yield key, version_row.with_deleted(value, True)


def _deleted_by_themselves(view: View, subject: Subject) -> Iterator[Change]:
    for key, value in scan(view, layout.scope_key(layout.VERSION, subject)):
        if version_row.is_deleted(value) and not version_row.is_own_deleted(value):
            yield key, version_row.with_deleted(value, False)


def _clear_subject(view: View, key: ClearSubjectKey, record: Record) -> list[Change]:
    def row(value: bytes) -> bytes:
        values.read_object(value)
        return record.offset.to_bytes(8, "big")

    return _single(view, record, layout.scope_key(layout.CLEAR, key.subject), row)


def _config(view: View, key: ConfigKey, record: Record) -> list[Change]:
    row_key = layout.scope_key(layout.CONFIG, key.subject)
    return _single(view, record, row_key, lambda value: subject_values.read_config(key.subject, value))


def _mode(view: View, key: ModeKey, record: Record) -> list[Change]:
    row_key = layout.scope_key(layout.MODE, key.subject)
    return _single(
        view, record, row_key, lambda value: layout.mode_row(key.subject, subject_values.read_mode(value))
    )


def _context(view: View, key: ContextKey, record: Record) -> list[Change]:
    def row(value: bytes) -> bytes:
        values.read_object(value)
        return layout.context_row(key.context)

    return _single(view, record, layout.context_key(layout.CONTEXT, key.context), row)


def _association(view: View, key: AssociationKey, record: Record) -> list[Change]:
    row_key = layout.association_key(key.subject, canonical_key(key))
    old = view.get(row_key)
    changes = _single(
        view, record, row_key, lambda value: subject_values.read_association(key, value, record.ts)
    )
    before = _resource_rows(key, row_key, old)
    after = _resource_rows(key, row_key, dict(changes).get(row_key))
    changes += [(each, None) for each in before if each not in after]
    return changes + [(each, b"") for each in after if each not in before]


def _resource_rows(key: AssociationKey, row_key: bytes, row: bytes | None) -> list[bytes]:
    """Return the keys of the rows that lead from a resource to its association."""
    if row is None:
        return []
    found = [layout.resource_name_prefix(key.resource_name or "", key.resource_namespace or "") + row_key[1:]]
    resource_id = orjson.loads(row).get("resourceId")
    return [*found, layout.resource_id_prefix(resource_id) + row_key[1:]] if resource_id else found


def _noop(view: View, key: NoopKey, record: Record) -> list[Change]:
    def cluster_row(value: bytes) -> bytes:
        return dumps(values.read_object(value) | {"offset": record.offset, "ts": record.ts})

    if key.context is not None:
        row_key = layout.context_key(layout.RESERVATION, key.context)
        return _single(view, record, row_key, lambda value: number(values.read_reservation(value)))
    if key.registrar == WEBHOOK and key.name is not None:
        row_key, name = layout.webhook_key(layout.WEBHOOK, key.name), key.name
        return _single(view, record, row_key, lambda value: webhooks.webhook_row(name, value, record))
    if key.registrar == POSITION and key.name is not None:
        row_key = layout.webhook_key(layout.POSITION, key.name)
        return _single(view, record, row_key, lambda value: webhooks.position_row(value, record))
    if key.registrar == USAGE:
        return _usage(view, key, record)
    if key.registrar == CENSUS:
        row_key = layout.cluster_key(CENSUS)
        return _single(view, record, row_key, lambda value: usage.census_row(value, record))
    if key.registrar in (BARRIER, SNAPSHOT, RESEED):
        return _single(view, record, layout.cluster_key(key.registrar), cluster_row)
    return []  # no-ops of other writers have no effect, whatever their value


def _usage(view: View, key: NoopKey, record: Record) -> list[Change]:
    row_key = layout.source_key(key.name or "", key.part)
    before = usage.use_rows(view.get(row_key))
    changes = _single(view, record, row_key, lambda value: usage.usage_row(key, value, record))
    after = usage.use_rows(dict(changes).get(row_key))
    changes += [(each, None) for each in before if each not in after]
    return changes + list(after.items())


def _single(view: View, record: Record, row_key: bytes, read: Callable[[bytes], bytes]) -> list[Change]:
    """Return the changes of a record that makes one row, whose value ``read`` derives from the record's."""
    quarantine = layout.quarantine_key(row_key)
    if record.value is None:
        return deletes(view, row_key, quarantine)
    try:
        row = read(record.value)
    except BadValue as error:
        return [*deletes(view, row_key), (quarantine, quarantine_row(record, error.reason))]
    return [(row_key, row), *deletes(view, quarantine)]


_FOLDS: dict[type, Callable[[View, Any, Record], list[Change]]] = {
    SchemaKey: schema_changes,
    ConfigKey: _config,
    ModeKey: _mode,
    DeleteSubjectKey: _delete_subject,
    ClearSubjectKey: _clear_subject,
    ContextKey: _context,
    AssociationKey: _association,
    NoopKey: _noop,
}
