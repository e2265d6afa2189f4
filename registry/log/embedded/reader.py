"""Read access to the embedded log from processes other than the node, whether or not the node runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import lmdb

from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import Record
from registry.log.contract import DamagedLog, Fetched, ForeignLog, LogError

from . import layout


class EmbeddedLogReader:
    """The log in folder ``path``, read-only. Raises :class:`.contract.LogError` if there is none.

    Every call sees the current log; compaction may remove records between two calls. One thread uses it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if not (path / "data.mdb").exists():
            raise LogError(f"there is no log in {path}: name the folder of a node (data), or brokers (kafka)")
        try:
            self._env = lmdb.open(str(path), max_dbs=layout.TABLES, readonly=True, create=False, map_size=0)
            self._records = self._env.open_db(layout.RECORDS, create=False)
            self._meta = self._env.open_db(layout.META, create=False)
            with self._env.begin(self._meta) as txn:
                self.identity = (txn.get(layout.META_IDENTITY) or b"").decode()
                found = txn.get(layout.META_FORMAT)
        except lmdb.Error as error:
            raise LogError(f"the log in {path} cannot be read: {error}") from error
        if found != layout.FORMAT:
            self._env.close()
            raise LogError(
                f"the log in {path} has the unknown format {found!r}; this version knows {layout.FORMAT!r}"
            )

    def query_end(self, timeout_s: float) -> int:
        """Read the log's end from its environment, see :meth:`.contract.Log.query_end`."""
        try:
            with self._begin(self._meta) as txn:
                return layout.LogState.unpack(txn.get(layout.META_STATE) or b"").end
        except (lmdb.Error, ValueError) as error:
            raise DamagedLog(f"the log in {self._path} is damaged: {error}") from error

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Read records, see :meth:`.contract.Log.read`; without their principals, which no row has."""
        try:
            with self._begin(self._records) as txn:
                return read_records(txn, offset, records_max, bytes_max)
        except layout.BadRecord as bad:
            raise DamagedLog(
                f"the log in {self._path} is damaged: the record at offset {bad.offset} is unreadable"
            ) from bad
        except lmdb.Error as error:
            raise LogError(f"the log in {self._path} cannot be read: {error}") from error

    def divergence(self, lineage: Lineage) -> int | None:
        """Return an offset where this log differs from ``lineage``, see :meth:`.contract.Log.divergence`."""
        return divergence(self, lineage)

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Return True if a read from ``offset`` would advance. Does not wait."""
        end = self.query_end(timeout_s)
        if end < offset:
            raise ForeignLog(f"the log in {self._path} ends at {end}, before offset {offset}")
        return end > offset

    def _begin(self, table: Any) -> lmdb.Transaction[bytes]:
        """Begin a read transaction, with a larger map if a node has enlarged it."""
        try:
            return self._env.begin(table)
        except lmdb.MapResizedError:
            self._env.set_mapsize(0)  # allowed because the only thread has no transaction open
            return self._env.begin(table)

    def close(self) -> None:
        """Release the log."""
        self._env.close()


class Readable(Protocol):
    """A log whose records can all be read without waiting."""

    def query_end(self, timeout_s: float) -> int:
        """Return the log's end, see :meth:`.contract.Log.query_end`."""
        ...

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Read records, see :meth:`.contract.Log.read`."""
        ...


def divergence(log: Readable, lineage: Lineage) -> int | None:
    """Return an offset where ``log`` differs from ``lineage``, see :meth:`.contract.Log.divergence`."""
    found = None
    for trace in reversed(lineage.traces):
        records = log.read(trace.offset, 1, 1).records
        if records and records[0].offset == trace.offset:
            found = records[0]
            break
    return lineage.divergence(found, log.query_end(0.0), None)


def read_records(txn: Any, offset: int, records_max: int, bytes_max: int) -> Fetched:
    """Read records in a transaction on the table records; see :meth:`.contract.Log.read`.

    Raises :class:`.layout.BadRecord` and LMDB's errors.
    """
    found: list[Record] = []
    size = 0
    with txn.cursor() as cursor:
        if not cursor.set_range(layout.pack_offset(offset)):
            return Fetched(found, offset)
        for raw_offset, raw in cursor:
            size += len(raw)
            if found and size > bytes_max:
                break
            found.append(layout.unpack(raw_offset, raw))
            if len(found) >= records_max:
                break
    return Fetched(found, found[-1].offset + 1)


def with_principals(txn: Any, principals: Any, fetched: Fetched) -> Fetched:
    """Return the records with their principals, from the table ``principals``."""
    records = fetched.records
    if not records:
        return fetched
    found: dict[int, bytes] = {}
    with txn.cursor(principals) as cursor:
        positioned = cursor.set_range(layout.pack_offset(records[0].offset))
        for raw_offset, raw in cursor if positioned else ():
            offset = layout.unpack_offset(raw_offset)
            if offset > records[-1].offset:
                break
            found[offset] = layout.unpack_principal(raw_offset, raw)
    if not found:
        return fetched
    named = [each._replace(principal=found.get(each.offset, b"")) for each in records]
    return fetched._replace(records=named)
