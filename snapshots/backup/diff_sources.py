"""The sides that can be compared: a snapshot or a running registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import lmdb
import msgspec
import orjson

from registry.domain.model import EVERYWHERE, TOP, Subject, guid_text
from registry.domain.queries import versions
from registry.domain.queries.scope import Config, Defaults
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.layout import after
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.version_row import VersionRow
from snapshots.building.task import Progress, silent
from snapshots.format.deltas import rows_between
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest, Part
from snapshots.format.parts import BadPart, Row
from snapshots.format.stored import UnusableSnapshot, read_part

from .diff import Fields, Item


class RunningRegistry(Protocol):
    """Subjects, versions, configs and modes of all contexts, soft-deleted ones included.

    The errors are those of the client, for the caller.
    """

    @property
    def subjects(self) -> Sequence[str]:
        """The qualified names of all subjects."""
        ...

    def versions(self) -> Iterator[dict[str, Any]]:
        """Yield all versions as ``GET /schemas`` shows them."""
        ...

    def configs(self) -> Iterator[tuple[Subject, dict[str, Any]]]:
        """Yield all configs with their scopes, as ``GET /config/{subject}`` shows them."""
        ...

    def modes(self) -> Iterator[tuple[Subject, dict[str, Any]]]:
        """Yield all modes with their scopes, as ``GET /mode/{subject}`` shows them."""
        ...


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
            if not versions.is_cleared(self._clears, found.subject, found.row):
                yield found

    def scopes(self, table: bytes) -> Iterator[Scoped]:
        """Yield all configs (table F) or modes (table M), by context and subject."""
        for key, value in self.rows(table):
            yield Scoped(layout.scope_of(key, value), key, value)

    def contexts(self) -> Iterator[str]:
        """The contexts that were made."""
        for key, value in self.rows(layout.CONTEXT):
            yield layout.unpart(key[1:-1]) or value.decode()


_READING = "reading the registry"
_LEVEL = "compatibilityLevel"
_BATCH = 1000
_MAP_BYTES = 1 << 40


class SnapshotSide:
    """A snapshot; see :class:`.diff.Side`."""

    def __init__(self, content: Content, defaults: Defaults) -> None:
        self._content, self._defaults = content, defaults

    def configs(self) -> Iterator[Item]:
        """Yield the configs that differ from the default."""
        for subject, key, value in self._content.scopes(layout.CONFIG):
            stored = msgspec.to_builtins(msgspec.json.decode(value, type=Config))
            if fields := _config(subject, stored, self._defaults):
                yield Item(key, subject.qualified, None, partial(dict, fields))

    def modes(self) -> Iterator[Item]:
        """Yield the modes that differ from the default."""
        for subject, key, value in self._content.scopes(layout.MODE):
            if fields := _mode(subject, {"mode": layout.mode_of(value)}):
                yield Item(key, subject.qualified, None, partial(dict, fields))

    def versions(self) -> Iterator[Item]:
        """Yield all versions."""
        for found in self._content.versions():
            key = layout.version_key(found.subject, found.version)
            yield Item(key, found.subject.qualified, found.version, partial(_of_version, found))


def _of_version(found: Registered) -> Fields:
    row = found.row
    return {"id": row.schema_id, "guid": guid_text(row.md5), "deleted": row.deleted}


def _config(subject: Subject, stored: Fields, defaults: Defaults) -> Fields:
    """Return a config as ``GET /config`` shows it; empty for one that equals the default."""
    default = {_LEVEL: defaults.compatibility}
    shown = default | stored
    return {} if subject in (TOP, EVERYWHERE) and shown == default else shown


def _mode(subject: Subject, stored: Fields) -> Fields:
    return {} if subject in (TOP, EVERYWHERE) and stored == {"mode": "READWRITE"} else stored


class LiveSide:
    """A running registry with Confluent's API; see :class:`.diff.Side`.

    Everything is read once and kept in a file in ``folder``. Writes that happen meanwhile may be missing.
    """

    def __init__(
        self, registry: RunningRegistry, folder: Path, defaults: Defaults, progress: Progress = silent
    ) -> None:
        self._defaults, self._progress = defaults, progress
        self._env = lmdb.open(str(folder), map_size=_MAP_BYTES, sync=False)
        self._known: dict[bytes, bytes] = {}
        try:
            self._read(registry)
        except BaseException:
            self.close()
            raise

    def _read(self, registry: RunningRegistry) -> None:
        for scope, config in registry.configs():
            if config and (shown := _config(scope, config, self._defaults)):
                self._keep(layout.scope_key(layout.CONFIG, scope), scope, shown)
        for scope, mode in registry.modes():
            if mode and (shown := _mode(scope, mode)):
                self._keep(layout.scope_key(layout.MODE, scope), scope, shown)
        subjects, seen, last = len(registry.subjects), 0, ""
        for entity in registry.versions():
            self._keep_version(entity)
            if entity["subject"] != last:
                seen, last = seen + 1, entity["subject"]
                self._progress(_READING, min(seen, subjects), subjects)
        self._flush()

    def _keep_version(self, entity: dict[str, Any]) -> None:
        subject, version = Subject.parse(entity["subject"]), int(entity["version"])
        fields: Fields = {name: entity[name] for name in ("id", "guid", "deleted") if name in entity}
        self._keep(layout.version_key(subject, version), subject, fields)

    def _keep(self, key: bytes, subject: Subject, fields: Fields) -> None:
        self._known[key] = orjson.dumps([subject.qualified, fields])
        if len(self._known) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        with self._env.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti(sorted(self._known.items()))
        self._known.clear()

    def configs(self) -> Iterator[Item]:
        """Yield the configs that differ from the default."""
        return self._items(layout.CONFIG)

    def modes(self) -> Iterator[Item]:
        """Yield the modes that differ from the default."""
        return self._items(layout.MODE)

    def versions(self) -> Iterator[Item]:
        """Yield all versions."""
        return self._items(layout.VERSION)

    def _items(self, table: bytes) -> Iterator[Item]:
        with self._env.begin() as txn, txn.cursor() as cursor:
            for key, value in cursor if cursor.set_range(table) else ():
                if not key.startswith(table):
                    return
                name, fields = orjson.loads(value)
                version = layout.unnumber(key[-4:]) if table == layout.VERSION else None
                yield Item(key, name, version, partial(dict, fields))

    def close(self) -> None:
        """Close the file."""
        self._env.close()
