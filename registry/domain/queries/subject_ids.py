"""Subjects in the order of ids: that of the latest version, or of the newest deleted one if all are deleted.

By context, the default one first, then by id; those with the same id in the order of their records. Table I
holds the versions in this order, and a subject is listed at the row of its latest version. So an old version
costs a look and no more, and subjects that do not change in between are listed exactly once; one that gets a
version moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from registry.domain.model import Subject
from registry.domain.rows import layout, version_row
from registry.domain.rows.view import View

from . import subject_order, versions
from .subject_order import Prefix
from .subject_order_back import flip
from .walks import Search, in_order

FEW = 500  # so many subjects of a context are looked up and sorted, however many versions there are
BATCH = 8_000  # places held at once
_ROW = 12  # bytes of an id and an offset in keys


class Place(NamedTuple):
    """A subject and its place in this order: the id, record and number of its latest version."""

    subject: Subject
    schema_id: int
    offset: int
    version: int

    @property
    def qualified(self) -> str:
        """The subject's qualified name."""
        return self.subject.qualified

    @property
    def key(self) -> bytes:
        """The key of the version's row in table I; any numbers make one."""
        offset = min(max(self.offset, 0), 2**63).to_bytes(8, "big")
        head = layout.id_prefix(self.subject.context, self.schema_id)
        return head + offset + layout.part(self.subject.name) + layout.number(self.version)


class ById(NamedTuple):
    """The subjects to list, and the direction."""

    prefix: Prefix
    lists: Callable[[bool], bool]  # true if subjects that are deleted, or are not, are listed
    descending: bool = False
    few: int = FEW
    # True for contexts of which a view shows only some subjects: more of them are looked up and sorted.
    restricts: Callable[[str], bool] = lambda _: False

    def walk(self, view: View, after: Place | None = None) -> Iterator[Place | None]:
        """Walk the subjects behind ``after``."""
        last = after
        for context in _contexts(view, self.prefix, None if after is None else after.subject.context):
            yield None
            if last is not None and last.subject.context != context:
                last = None
            yield from self._in_context(view, context, last)

    def _in_context(self, view: View, context: str, after: Place | None) -> Iterator[Place | None]:
        prefix = Prefix(context, True, self.prefix.name)
        ids = layout.context_key(layout.ID, context)
        if (yield from self._many(view, prefix)) and _shows(view, ids):
            yield from self._by_rows(view, prefix, ids, after)
            return

        def places() -> Iterator[Place | None]:
            for found in subject_order.subjects(view, prefix):
                last = found and view.seek_back(layout.after(layout.scope_key(layout.VERSION, found[0])))
                yield (yield from self._place(view, found[0], last)) if found and last else None

        yield from in_order(places, self._rank, None if after is None else self._rank(after), BATCH)

    def _many(self, view: View, prefix: Prefix) -> Search[bool]:
        """Search for more subjects than few, or than are sorted at once."""
        count, few = 0, BATCH if self.restricts(prefix.context) else self.few
        for found in subject_order.subjects(view, prefix):
            count += found is not None
            if count > few:
                return True
            yield
        return False

    def _by_rows(self, view: View, prefix: Prefix, ids: bytes, after: Place | None) -> Iterator[Place | None]:
        """Walk all rows of a context in table I, whose keys begin with ``ids``."""
        context, name = ids[1:], layout.part_prefix(prefix.name)
        row = self._next(view, ids, None if after is None else after.key)
        while row is not None and row[0].startswith(ids):
            found = None
            if row[0].startswith(name, len(ids) + _ROW):
                key = layout.VERSION + context + row[0][len(ids) + _ROW :]
                found = yield from self._at(view, key, prefix)
            yield found
            row = self._next(view, ids, row[0])

    def _next(self, view: View, ids: bytes, last: bytes | None) -> tuple[bytes, bytes] | None:
        if self.descending:
            return view.seek_back(layout.after(ids) if last is None else last)
        return view.seek(ids if last is None else last + b"\0")

    def _at(self, view: View, key: bytes, prefix: Prefix) -> Search[Place | None]:
        """Search for the subject of a version row if that is its latest version."""
        newest = view.seek_back(layout.after(key[:-4]))
        if newest is None or not newest[0].startswith(key[:-4]):
            return None
        if newest[0] != key and not version_row.is_deleted(newest[1]):
            return None  # the most frequent case
        subject = versions.subject_at(*newest)
        found = (yield from self._place(view, subject, newest)) if prefix.admits(subject) else None
        return found if found is not None and layout.number(found.version) == key[-4:] else None

    def _place(self, view: View, subject: Subject, newest: tuple[bytes, bytes]) -> Search[Place | None]:
        """Search for the place of a subject with this newest row; None if it is not listed."""
        key, value = newest
        deleted = version_row.is_deleted(value)
        if deleted:
            found = yield from versions.find_latest(view, subject)
            if found is None:
                return None
            deleted = found.row.deleted
            place = Place(subject, found.row.schema_id, found.row.offset, found.version)
        else:
            number = layout.unnumber(key[-4:])
            place = Place(subject, version_row.id_of(value), version_row.offset_of(value), number)
        return place if self.lists(deleted) else None

    def _rank(self, place: Place) -> bytes:
        return flip(place.key) if self.descending else place.key


def _shows(view: View, ids: bytes) -> bool:
    """Return true if a view shows the rows of table I in their order, which not all views do."""
    row = view.seek_back(layout.after(ids))
    return row is not None and row[0].startswith(ids)


def _contexts(view: View, prefix: Prefix, start: str | None) -> Iterator[str]:
    """Yield the contexts under a prefix that have versions, from ``start`` on."""
    if prefix.whole:
        if start in (None, prefix.context):
            yield prefix.context
        return
    beginning = layout.part_prefix(prefix.context)
    first = beginning if start is None else max(beginning, subject_order.raw_part(start))
    row = view.seek(layout.VERSION + first)
    while row is not None and row[0].startswith(layout.VERSION + beginning):
        context = versions.subject_at(*row).context
        if context.startswith(prefix.context):
            yield context
        row = view.seek(layout.VERSION + subject_order.raw_part(context) + b"\x01")
