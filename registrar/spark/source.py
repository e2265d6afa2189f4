"""The registry itself as tables: ``spark.read.format("registrar").load("versions")``.

Each table is a list of the registry's API, read page by page on one worker. The history can also be followed
as a stream, whose offsets are those of the registry's log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.types import StructType

from .client import Registry
from .formats import DEFAULT_TYPE

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Rows of a page; and pages of a batch of a stream, which is read on the driver.
_PAGE: Final = 1000
# The registry answers no more sources at once, because each may have many uses.
_USAGE_PAGE: Final = 100
_BATCH_PAGES: Final = 20
_OPTIONS: Final = ("url", "token", "ca", "certificate", "key", "timeout_s")
_ALL_CONTEXTS: Final = ":*:"

Options = Mapping[str, str]
Row = tuple[Any, ...]


class _Table(NamedTuple):
    """A table: its columns as DDL, and its rows."""

    columns: str
    rows: Callable[[Registry, Options], Iterator[Row]]


def _subjects(registry: Registry, options: Options) -> Iterator[Row]:
    prefix = options.get("prefix", _ALL_CONTEXTS)
    for deleted in (False, True):
        for name in _pages(registry, "subjects", subjectPrefix=prefix, deletedOnly=deleted):
            yield str(name), deleted


def _versions(registry: Registry, options: Options) -> Iterator[Row]:
    prefix = options.get("prefix", _ALL_CONTEXTS)
    for each in _pages(registry, "schemas", subjectPrefix=prefix, deleted=True):
        names = ("name", "subject", "version")
        references = [tuple(map(one.get, names)) for one in each.get("references") or ()]
        registered, is_deleted = _time(each.get("ts")), bool(each.get("deleted"))
        yield (
            each["subject"], each["version"], each["id"], each.get("guid"),
            each.get("schemaType", DEFAULT_TYPE), each["schema"], references, registered, is_deleted,
        )  # fmt: skip


def _usage(registry: Registry, options: Options) -> Iterator[Row]:
    for each in _pages(registry, "usage", "sources", size=_USAGE_PAGE):
        about = each["source"], each["state"], each.get("reason")
        if not each.get("uses"):
            yield (*about, *(None,) * 9)
        for side, framing, schema, messages, size, first, last, *exact in each.get("uses", ()):
            named = (schema, None) if isinstance(schema, int) else (None, schema)
            times = _time(first), _time(last)
            yield (*about, side, framing, *named, messages, size, *times, exact != [False])


def _history(registry: Registry, options: Options) -> Iterator[Row]:
    end, after = _now(registry), -1
    while after < end:
        events, after = _events(registry, after, options)
        yield from events


def _pages(registry: Registry, *path: str, size: int = _PAGE, **params: str | bool) -> Iterator[Any]:
    """Yield the members of a list. Registries without pages answer all at once."""
    offset = 0
    while found := registry.get(*path, **params, offset=offset, limit=size):
        yield from found
        if len(found) != size:
            return
        offset += size


def _now(registry: Registry) -> int:
    """Return the offset of the log's last record."""
    return int(registry.get("changes", limit=1)["next"])


def _events(registry: Registry, after: int, options: Options) -> tuple[list[Row], int]:
    """Return the next page of events, and the offset up to which there are no others."""
    prefix = options.get("prefix", _ALL_CONTEXTS)
    page = registry.get("changes", after=after, limit=_PAGE, subjectPrefix=prefix)
    return [_event(each) for each in page["events"]], int(page["next"])


def _event(each: Mapping[str, Any]) -> Row:
    members = ("context", "subject", "version", "id", "type", "principal")
    return each["offset"], _time(each["time"]), each["kind"], *map(each.get, members), json.dumps(each)


def _time(ms: int | None) -> datetime | None:
    return None if ms is None or ms < 0 else _EPOCH + timedelta(milliseconds=ms)


_TABLES: Final[Mapping[str, _Table]] = {
    "subjects": _Table("subject STRING, deleted BOOLEAN", _subjects),
    "versions": _Table(
        "subject STRING, version INT, id INT, guid STRING, type STRING, schema STRING,"
        " references ARRAY<STRUCT<name: STRING, subject: STRING, version: INT>>,"
        " registered TIMESTAMP, deleted BOOLEAN",
        _versions,
    ),
    "history": _Table(
        "offset BIGINT, time TIMESTAMP, kind STRING, context STRING, subject STRING, version INT, id INT,"
        " type STRING, principal STRING, event STRING",
        _history,
    ),
    "usage": _Table(
        "source STRING, state STRING, reason STRING, side STRING, framing STRING, id INT, guid STRING,"
        " messages BIGINT, bytes BIGINT, first TIMESTAMP, last TIMESTAMP, exact BOOLEAN",
        _usage,
    ),
}


class RegistrarSource(DataSource):
    """The data source ``registrar``; register it with ``spark.dataSource.register(RegistrarSource)``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "registrar"

    def schema(self) -> str:
        """Return the columns of the table. Raises :class:`ValueError` for one that does not exist."""
        return self._table().columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        return _Reader(self._table(), self._registry(), dict(self.options))

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802 (Spark's)
        """Return the reader of a streaming query; only the history can be followed."""
        if self._table() is not _TABLES["history"]:
            raise ValueError("only the table history can be read as a stream")
        return _HistoryStream(self._registry(), dict(self.options))

    def _table(self) -> _Table:
        named = self.options.get("table") or self.options.get("path") or ""
        if named not in _TABLES:
            raise ValueError(f"name one of the tables {', '.join(_TABLES)}, as in load({'versions'!r})")
        return _TABLES[named]

    def _registry(self) -> Registry:
        given = {name: self.options[name] for name in _OPTIONS if name in self.options}
        if "url" not in given:
            raise ValueError('name the registry: option("url", "http://127.0.0.1:8081")')
        token = given.pop("token", "")
        lines = {"Authorization": f"Bearer {token}"} if token else None
        timeout_s = float(given.pop("timeout_s", "30"))
        return Registry(given.pop("url"), http_headers=lines, timeout_s=timeout_s, **given)


class _Reader(DataSourceReader):
    def __init__(self, table: _Table, registry: Registry, options: Options) -> None:
        self._table, self._registry, self._options = table, registry, options

    def read(self, partition: InputPartition) -> Iterator[Row]:
        return self._table.rows(self._registry, self._options)


class _HistoryStream(SimpleDataSourceStreamReader):
    """The registry's changes by their offsets in its log; ``startingOffset``: after which it begins."""

    def __init__(self, registry: Registry, options: Options) -> None:
        self._registry, self._options = registry, options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's)
        wanted = self._options.get("startingOffset", "earliest")
        if wanted == "latest":
            return {"after": _now(self._registry)}
        return {"after": -1 if wanted == "earliest" else int(wanted)}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Row], dict[str, int]]:
        after, rows = start["after"], []
        for _ in range(_BATCH_PAGES):
            events, reached = _events(self._registry, after, self._options)
            rows += events
            if reached == after:
                break
            after = reached
        return iter(rows), {"after": after}

    def readBetweenOffsets(  # noqa: N802 (Spark's)
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[Row]:
        after = start["after"]
        while after < end["after"]:
            events, reached = _events(self._registry, after, self._options)
            yield from (each for each in events if each[0] <= end["after"])
            if reached == after:
                return
            after = reached
