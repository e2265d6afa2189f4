"""Registered versions, found by subject, by id and by content.

Soft-deleted versions that a later ``CLEAR_SUBJECT`` covers are forgotten: absent everywhere in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import orjson

from registry.domain.model import DEFAULT_CONTEXT, ID_MAX, LATEST, Subject
from registry.domain.rows import layout, version_row
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import Counts, View, scan, scan_back

from .walks import Search, first, run_search

# Limit on the rows examined per content, so that text shared by many subjects stays cheap.
SHARED_ROWS_MAX = 64


class Registered(NamedTuple):
    """A registered version with its subject and number."""

    subject: Subject
    version: int
    row: VersionRow


def is_cleared(view: View, subject: Subject, row: VersionRow) -> bool:
    """Return true if a later clear of the subject, the context or everything covers a deleted version."""
    return row.deleted and _cleared_at(view, subject) > row.offset


def _cleared_at(view: View, subject: Subject) -> int:
    """Return the offset of the last clear that covers a subject; -1 if there is none."""
    scopes = (subject, Subject(subject.context, ""), Subject(DEFAULT_CONTEXT, ""))
    clears = (view.get(layout.scope_key(layout.CLEAR, scope)) for scope in scopes)
    return max((int.from_bytes(clear, "big") for clear in clears if clear is not None), default=-1)


def get(view: View, subject: Subject, version: int) -> VersionRow | None:
    """Return a version, soft-deleted or not."""
    value = view.get(layout.version_key(subject, version))
    if value is None:
        return None
    row = VersionRow.unpack(value)
    return None if row.deleted and is_cleared(view, subject, row) else row


def versions(
    view: View,
    subject: Subject,
    *,
    deleted: bool = False,
    newest_first: bool = False,
    leave_out: Callable[[bytes], bool] | None = None,
) -> Iterator[Registered]:
    """Yield the versions of a subject, ascending or newest first; soft-deleted ones only if ``deleted``.

    ``leave_out`` is called with the values of rows before they are unpacked.
    """
    found = walk(view, subject, deleted=deleted, newest_first=newest_first, leave_out=leave_out)
    return (each for each in found if each is not None)


def walk(
    view: View,
    subject: Subject,
    *,
    deleted: bool = False,
    newest_first: bool = False,
    below: int | None = None,
    leave_out: Callable[[bytes], bool] | None = None,
) -> Iterator[Registered | None]:
    """Walk the versions that :func:`versions` yields; ``below``, newest first: those before a version."""
    prefix = layout.scope_key(layout.VERSION, subject)
    counted = _rows_kept if deleted else _rows_live
    end = None if below is None else layout.version_key(subject, below)
    seen = scan_back(view, prefix, counted, end) if newest_first else scan(view, prefix)
    cleared_at: int | None = None
    for key, value in seen:
        if version_row.is_deleted(value):
            if not deleted:
                yield None
                continue
            if cleared_at is None:
                cleared_at = _cleared_at(view, subject)
            if cleared_at > version_row.offset_of(value):
                yield None
                continue
        left_out = leave_out is not None and leave_out(value)
        yield None if left_out else Registered(subject, layout.unnumber(key[-4:]), VersionRow.unpack(value))


def is_live(view: View, subject: Subject) -> Search[bool | None]:
    """Search for a version that is not soft-deleted; the result is None if all versions are forgotten."""
    if (yield from first(walk(view, subject, newest_first=True))) is not None:
        return True
    return False if (yield from find_any(view, subject, deleted=True)) else None


def _rows_live(counts: Counts) -> int:
    return counts.live_versions


def _rows_kept(counts: Counts) -> int:
    return counts.versions


def latest(view: View, subject: Subject) -> Registered | None:
    """Return the newest version that is not soft-deleted."""
    found = newest(view, subject)
    if found is None or not found.row.deleted:
        return found
    return next(versions(view, subject, newest_first=True), None)


def version_numbered(view: View, subject: Subject, number: int) -> Registered | None:
    """Return the version with this number, or the latest, which is never soft-deleted."""
    return run_search(find_named(view, subject, number))


def find_named(view: View, subject: Subject, number: int) -> Search[Registered | None]:
    """Search for the version that :func:`version_numbered` returns."""
    if number == LATEST:
        return (yield from first(walk(view, subject, newest_first=True)))
    row = get(view, subject, number)
    return None if row is None else Registered(subject, number, row)


def find_before(view: View, found: Registered, *, deleted: bool = False) -> Search[Registered | None]:
    """Search for the version before another one of its subject."""
    return first(walk(view, found.subject, deleted=deleted, newest_first=True, below=found.version))


def newest(view: View, subject: Subject) -> Registered | None:
    """Return the highest version, soft-deleted or not; the next one gets the number above it."""
    prefix = layout.scope_key(layout.VERSION, subject)
    row = view.seek_back(layout.after(prefix))
    if row is None or not row[0].startswith(prefix):
        return None
    if not version_row.is_deleted(row[1]):
        return Registered(subject, layout.unnumber(row[0][-4:]), VersionRow.unpack(row[1]))
    return next(versions(view, subject, deleted=True, newest_first=True), None)


def find_latest(view: View, subject: Subject) -> Search[Registered | None]:
    """Search for the newest version that is not soft-deleted, else for the newest soft-deleted one."""
    live = yield from first(walk(view, subject, newest_first=True))
    return live or (yield from first(walk(view, subject, deleted=True, newest_first=True)))


def exists(view: View, subject: Subject, *, deleted: bool = False) -> bool:
    """Return true if the subject has any version with this visibility."""
    return run_search(find_any(view, subject, deleted=deleted))


def find_any(view: View, subject: Subject, *, deleted: bool = False) -> Search[bool]:
    """Search for any version of the subject with this visibility."""
    found = yield from first(walk(view, subject, deleted=deleted, newest_first=True))
    return found is not None


def at(view: View, key: bytes) -> Registered | None:
    """Return the version in the row with this key, or None."""
    value = view.get(key)
    return None if value is None else _from_row(view, key, value)


def _from_row(view: View, key: bytes, value: bytes) -> Registered | None:
    row = VersionRow.unpack(value)
    subject = subject_at(key, value)
    if row.deleted and is_cleared(view, subject, row):
        return None
    return Registered(subject, layout.unnumber(key[-4:]), row)


def subject_at(key: bytes, value: bytes) -> Subject:
    """Return the subject of a version row; a name too long for the key comes from the row."""
    context, _, rest = key[1:-4].partition(b"\0")
    context_text, name_text = layout.unpart(context), layout.unpart(rest[:-1])
    if context_text is None or name_text is None:
        head = VersionRow.unpack(value).head
        return Subject.parse(orjson.loads(head + b"}").get("subject", ""))
    return Subject(context_text, name_text)


def walk_of_id(view: View, context: str, schema_id: int) -> Iterator[Registered | None]:
    """Walk the versions with this id in a context, the oldest record first."""
    prefix = layout.id_prefix(context, schema_id)
    for key, _ in scan(view, prefix):
        yield at(view, layout.version_key_of_id(key, prefix))


def of_id(view: View, context: str, schema_id: int) -> Iterator[Registered]:
    """Yield the versions of :func:`walk_of_id`."""
    return (each for each in walk_of_id(view, context, schema_id) if each is not None)


def by_id(view: View, context: str, schema_id: int) -> Registered | None:
    """Return the version that answers for an id in a context: the one recorded first."""
    return next(of_id(view, context, schema_id), None)


def owns_id(view: View, found: Registered, *, superseded: bool = False) -> bool:
    """Return true if the id of a version stands for its content.

    It does not if another program gave the id to another content before. ``superseded``: the version is about
    to go, and the id may then stand for any other content that the first of its rows name.
    """
    context, schema_id = found.subject.context, found.row.schema_id
    if superseded:
        rows = islice(of_id(view, context, schema_id), SHARED_ROWS_MAX)
        return all(each.row.md5 == found.row.md5 for each in rows)
    answering = by_id(view, context, schema_id)
    return answering is None or answering.row.md5 == found.row.md5


def by_id_in_scope(view: View, schema_id: int, scope: str) -> Search[Registered | None]:
    """Search for the version that answers for an id, given the query parameter ``subject`` (Confluent 8.x).

    Empty: the default context. ``:.ctx:``: that context. ``:.ctx:name``: only that pair. ``name``: the name
    in the default context, then in all others, then the id in the default context under any subject.
    """
    subject = Subject.parse(scope)
    if subject.is_context:
        return (yield from first(walk_of_id(view, subject.context, schema_id)))
    if subject.context != DEFAULT_CONTEXT:
        return (yield from find_id_in(view, subject, schema_id))
    for context in contexts(view):
        yield
        if context is not None:
            found = yield from find_id_in(view, Subject(context, subject.name), schema_id)
            if found is not None:
                return found
    return (yield from first(walk_of_id(view, DEFAULT_CONTEXT, schema_id)))


def find_id_in(view: View, subject: Subject, schema_id: int) -> Search[Registered | None]:
    """Search for the version of a subject that was recorded last with this id."""
    of_id = yield from first(walk_of_id(view, subject.context, schema_id))
    if of_id is None:
        return None
    newest = None
    for each in walk_of_content_in(view, subject, of_id.row.md5):
        yield
        if each is not None and each.row.schema_id == schema_id:
            newest = each if newest is None or each.row.offset > newest.row.offset else newest
    clashing = [] if newest is not None else _clashing(view, subject, schema_id)
    return max(clashing, key=lambda each: each.row.offset, default=newest)


def _clashing(view: View, subject: Subject, schema_id: int) -> list[Registered]:
    # Other writers can give an id to two contents, so the first row's content need not be the subject's.
    prefix = layout.id_prefix(subject.context, schema_id)
    name = layout.part(subject.name)
    keys = islice((key for key, _ in scan(view, prefix)), SHARED_ROWS_MAX)
    own = [key for key in keys if key[len(prefix) + 8 : -4] == name]
    found = (at(view, layout.version_key_of_id(key, prefix)) for key in own)
    return [each for each in found if each is not None]


def id_in_use(view: View, context: str, schema_id: int) -> bool:
    """Return true if any version has this id, including soft-deleted and forgotten ones."""
    prefix = layout.id_prefix(context, schema_id)
    row = view.seek(prefix)
    return row is not None and row[0].startswith(prefix)


def id_max(view: View, context: str, upto: int = ID_MAX) -> int:
    """Return the highest id, up to ``upto``, of any version in the context; 0 if there is none."""
    prefix = layout.context_key(layout.ID, context)
    row = view.seek_back(layout.after(layout.id_prefix(context, upto)))
    if row is None or not row[0].startswith(prefix):
        return 0
    return max(0, layout.unnumber(row[0][len(prefix) : len(prefix) + 4]))


def id_from(view: View, context: str, first: int) -> int | None:
    """Return the lowest id, from ``first`` on, of any version in the context."""
    prefix = layout.context_key(layout.ID, context)
    row = view.seek(layout.id_prefix(context, first))
    if row is None or not row[0].startswith(prefix):
        return None
    return layout.unnumber(row[0][len(prefix) : len(prefix) + 4])


def of_content(view: View, context: str, md5: bytes) -> Iterator[Registered]:
    """Yield the versions of one content in a context, at most :data:`SHARED_ROWS_MAX` rows, by subject."""
    prefix, packed = layout.guid_prefix(context, md5), layout.part(context)
    for count, (key, _) in enumerate(scan(view, prefix)):
        if count == SHARED_ROWS_MAX:
            return
        found = at(view, layout.VERSION + packed + key[len(prefix) :])
        if found is not None:
            yield found


def walk_of_content_in(view: View, subject: Subject, md5: bytes) -> Iterator[Registered | None]:
    """Walk the versions of one content under one subject, ascending, soft-deleted ones included."""
    prefix = layout.guid_prefix(subject.context, md5) + layout.part(subject.name)
    for key, _ in scan(view, prefix):
        number = layout.unnumber(key[-4:])
        row = get(view, subject, number)
        yield None if row is None else Registered(subject, number, row)


def of_content_in(view: View, subject: Subject, md5: bytes) -> list[Registered]:
    """Return the versions of :func:`walk_of_content_in`."""
    return [each for each in walk_of_content_in(view, subject, md5) if each is not None]


def by_guid(view: View, md5: bytes) -> Search[Registered | None]:
    """Search for this content: in the default context, else in the first other one that has it."""
    for context in contexts(view):
        yield
        found = next(of_content(view, context, md5), None) if context is not None else None
        if found is not None:
            return found
    return None


def contexts(view: View, prefix: str = "", after: str | None = None) -> Iterator[str | None]:
    """Walk the contexts whose name begins with ``prefix``: the default one first, then by code points."""
    if after is None:
        yield DEFAULT_CONTEXT if DEFAULT_CONTEXT.startswith(prefix) else None
    beginning = layout.CONTEXT + layout.part_prefix(prefix)
    start = (
        None if after in (None, DEFAULT_CONTEXT) else layout.context_key(layout.CONTEXT, after or "") + b"\0"
    )
    for key, value in scan(view, beginning, start and max(start, beginning)):
        name = context_at(key, value)
        yield name if name != DEFAULT_CONTEXT and name.startswith(prefix) else None


def contexts_known(view: View) -> list[str]:
    """Return the contexts that the log names, in code-point order, without the default one."""
    names = (context_at(key, value) for key, value in scan(view, layout.CONTEXT))
    return sorted(name for name in names if name != DEFAULT_CONTEXT)


def context_at(key: bytes, value: bytes) -> str:
    """Return the context whose row this is; a name too long for a key is read from the row."""
    name = layout.unpart(key[1:-1])
    return value.decode() if name is None else name
