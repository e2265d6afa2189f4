"""The versions, configs and modes of a snapshot, read from its parts one after another."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.layout import after
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.version_row import VersionRow
from snapshots.format.deltas import rows_between
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest, Part
from snapshots.format.parts import BadPart, Row
from snapshots.format.stored import UnusableSnapshot, read_part


class Scoped(NamedTuple):
    """A config or mode with its scope."""

    subject: Subject
    key: bytes
    value: bytes


class Content:
    """The content of one snapshot. Every part is checked against its hash before it is read.

    Every method raises :class:`snapshots.format.stored.UnusableSnapshot` and
    :class:`snapshots.format.files.LocationUnreachable`.
    """

    def __init__(self, location: Location, manifest: Manifest) -> None:
        self.location, self.manifest = location, manifest

    def rows(self, table: bytes) -> Iterator[Row]:
        """Yield the rows of one table in key order, reading only the parts that have some."""

        def read(id: str, part: Part) -> bytes:
            return read_part(self.location, id, part)

        try:
            for rows in rows_between(self.manifest, read, table, after(table)):
                yield from rows
        except BadPart as error:
            raise UnusableSnapshot(f"a part is damaged: {error}") from error

    @cached_property
    def _clears(self) -> DictView:
        return DictView(self.rows(layout.CLEAR))

    def versions(self) -> Iterator[Registered]:
        """Yield all versions, soft-deleted ones included, by context, subject and version."""
        for key, value in self.rows(layout.VERSION):
            found = Registered(
                versions.subject_at(key, value), layout.unnumber(key[-4:]), VersionRow.unpack(value)
            )
            if not versions.cleared(self._clears, found.subject, found.row):
                yield found

    def scoped(self, table: bytes) -> Iterator[Scoped]:
        """Yield all configs (table F) or modes (table M), by context and subject."""
        for key, value in self.rows(table):
            yield Scoped(layout.scope_of(key, value), key, value)

    def contexts(self) -> Iterator[str]:
        """The contexts that were made."""
        for key, value in self.rows(layout.CONTEXT):
            yield layout.unpart(key[1:-1]) or value.decode()
