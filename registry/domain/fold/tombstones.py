"""Tombstones, and the key bytes that they must repeat.

Compaction compares the bytes of keys. If another writer spelled a key differently (older magic, other order
of members), that key needs its own tombstone: with one only under our bytes, the old record would stay, and
would count again once our tombstone has been compacted away. So the fold keeps such bytes in rows of their
own until the log's last record under them is a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from registry.domain.log_format.records import (
    AssociationKey,
    ConfigKey,
    ContextKey,
    Entry,
    Key,
    ModeKey,
    SchemaKey,
    canonical_key,
)
from registry.domain.model import Subject
from registry.domain.rows import layout
from registry.domain.rows.view import Change, View, scan

# The kinds of keys for which this registry writes tombstones.
_ROW_KEYS: dict[type, Callable[[Any], bytes]] = {
    SchemaKey: lambda key: layout.version_key(key.subject, key.version),
    ConfigKey: lambda key: layout.scope_key(layout.CONFIG, key.subject),
    ModeKey: lambda key: layout.scope_key(layout.MODE, key.subject),
    ContextKey: lambda key: layout.context_key(layout.CONTEXT, key.context),
    AssociationKey: lambda key: layout.association_key(key.subject, canonical_key(key)),
}


def written(view: View, key: Key, raw: bytes, *, gone: bool) -> list[Change]:
    """Return a record's changes to the rows that keep foreign bytes of its key; ``gone``: a tombstone."""
    row_key_of = _ROW_KEYS.get(type(key))
    if row_key_of is None or raw == canonical_key(key):
        return []
    row_key = layout.foreign_key(row_key_of(key), raw)
    if not gone:
        return [(row_key, raw)]
    return [] if view.get(row_key) is None else [(row_key, None)]


def tombstones(view: View, key: Key) -> list[Entry]:
    """Return the tombstones that delete what ``key`` holds, one for each spelling of it."""
    foreign = scan(view, layout.FOREIGN + _ROW_KEYS[type(key)](key))
    return [*(Entry(raw, None) for _, raw in foreign), Entry(canonical_key(key), None)]


def tombstones_of_versions(view: View, subject: Subject, numbers: Iterable[int]) -> list[Entry]:
    """Return the tombstones of versions of one subject, in their order."""
    keys = (SchemaKey(subject, number) for number in numbers)
    if next(scan(view, layout.FOREIGN + layout.scope_key(layout.VERSION, subject)), None) is None:
        return [Entry(canonical_key(key), None) for key in keys]
    return [null for key in keys for null in tombstones(view, key)]
