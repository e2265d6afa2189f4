"""The files of a census in a location: Parquet, and a manifest that is written last.

``<location>/census/<id>/uses-….parquet`` holds the uses, ``partitions.parquet`` the partitions, and
``manifest.json`` describes both. A folder without a manifest is not a census. Like that of a snapshot, the
manifest ends with the hash of everything before it and holds the hashes of the files, and with a
``snapshots_key``, ``manifest.hmac`` signs it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from secrets import randbits
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from snapshots.format import manifest
from snapshots.format.files import MissingFile
from snapshots.format.location import Location
from snapshots.format.manifest import (
    MANIFEST,
    SIGNATURE,
    BadManifest,
    is_id,
    seal,
    unseal,
)
from snapshots.format.stored import reason_not_trusted

from .plan import UNREAD, PartitionRow, Use

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "census"
FORMAT = "registrar-census 1"
PARTITIONS = "partitions.parquet"
ROWS_IN_FILE = 2_000_000
# Columns that earlier releases do not write.
_ADDED = {"epoch"}
# A file of so many rows, with long names of sources, is smaller.
_FILE_BYTES_MAX = 1 << 30


class BadCensus(Exception):
    """The census is not usable, or there is none of that name; the text says why."""


class CensusFile(msgspec.Struct, frozen=True):
    """A file of rows."""

    name: str
    rows: int
    size: int
    sha256: str


class SourceCounts(msgspec.Struct, frozen=True):
    """Numbers of sources by their state."""

    read: int
    unread: int


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a census. Times are ms since the epoch."""

    format: str = FORMAT
    id: str
    # The id of the census that it continues; empty for none.
    base: str
    # When the ends of its sources were asked for.
    started_ms: int
    ended_ms: int
    # Kafka's id of the cluster; empty if only files were read.
    cluster: str
    patterns: tuple[str, ...]
    complete: bool
    # How many sources were read and how many were not.
    sources: SourceCounts = SourceCounts(0, 0)
    partitions: int = 0
    # Committed messages: each has a value, which may be null.
    messages: int
    files: tuple[CensusFile, ...] = ()

    def dumps(self) -> bytes:
        """Return the content of the file ``manifest.json``."""
        return seal(msgspec.to_builtins(self))

    @property
    def sha256(self) -> str:
        """SHA-256 of the file ``manifest.json`` in hexadecimal digits."""
        return hashlib.sha256(self.dumps()).hexdigest()


class Rows(NamedTuple):
    """All rows of a census."""

    uses: list[Use]
    partitions: list[PartitionRow]


def write(location: Location, census: Census, rows: Rows) -> Census:
    """Write the files, then the manifest; return the census with its files.

    Raises :class:`snapshots.format.files.LocationUnreachable`, and :class:`BadCensus` if files are gone.
    """
    folder, files = f"{FOLDER}/{census.id}", list[CensusFile]()
    for name, table in _tables(rows):
        data = _parquet(table)
        location.write(f"{folder}/{name}", data)
        files.append(CensusFile(name, table.num_rows, len(data), hashlib.sha256(data).hexdigest()))
    unread = {row.source for row in rows.partitions if row.state == UNREAD}
    census = msgspec.structs.replace(
        census,
        sources=SourceCounts(len({row.source for row in rows.partitions} - unread), len(unread)),
        partitions=len(rows.partitions),
        files=tuple(files),
    )
    if {each.name for each in files} - {*location.files(folder)}:
        raise BadCensus(
            f"files of the census {census.id} are gone: another run has deleted them; run it again"
        )
    content = census.dumps()
    if location.keys.current:
        location.write(f"{folder}/{SIGNATURE}", location.keys.sign(content))
    location.write(f"{folder}/{MANIFEST}", content)
    return census


def ids(location: Location) -> list[str]:
    """Return the folders that are, were or will be censuses, the newest first.

    Raises :class:`snapshots.format.files.LocationUnreachable`.
    """
    return [name for name in reversed(location.folders(FOLDER)) if is_id(name)]


def new_id(location: Location, partitions: int, started_ms: int) -> str:
    """Return an id for a census, greater than all others: also than one of the same second.

    Raises :class:`snapshots.format.files.LocationUnreachable`.
    """
    newest, chance = max(ids(location), default=""), randbits(24)
    while (found := manifest.new_id(partitions, started_ms, chance)) <= newest:
        started_ms += 1000
    return found


def read_manifest(location: Location, id: str) -> Census:
    """Return the manifest of a census. Raises :class:`BadCensus`, and ``LocationUnreachable``."""
    folder = f"{FOLDER}/{id}"
    try:
        content = location.read(f"{folder}/{MANIFEST}")
        if why := reason_not_trusted(location, folder, content):
            raise BadCensus(f"the manifest of the census {id} {why}")
        fields = unseal(content)
        if fields.get("format") != FORMAT:
            raise BadCensus(f"the census {id} has the format {fields.get('format')!r}, not {FORMAT!r}")
        census = msgspec.convert(fields, Census)
    except MissingFile as error:
        raise BadCensus(f"{location} has no manifest of a census {id}") from error
    except (BadManifest, ValueError, RecursionError) as error:
        raise BadCensus(f"the manifest of the census {id} cannot be used: {error}") from error
    if census.id != id:
        raise BadCensus(f"the manifest of the census {id} is that of {census.id}")
    return census


def newest_first(location: Location) -> Iterator[Census]:
    """Yield the usable censuses. Raises :class:`snapshots.format.files.LocationUnreachable`."""
    for name in ids(location):
        try:
            yield read_manifest(location, name)
        except BadCensus:
            continue


def read_rows(location: Location, census: Census) -> Rows:
    """Return the rows of a census. Raises as :func:`read_manifest`."""
    uses, partitions = list[Use](), list[PartitionRow]()
    for file in census.files:
        for fields in _read_table(location, census.id, file).to_pylist():
            if file.name == PARTITIONS:
                partitions.append(PartitionRow(**fields))
            else:
                uses.append(Use(**fields | {"samples": tuple(fields["samples"] or ())}))
    return Rows(uses, partitions)


def _read_table(location: Location, id: str, file: CensusFile) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - it takes longer to load than most commands
    from pyarrow import parquet  # noqa: PLC0415 - as above

    path = f"{FOLDER}/{id}/{file.name}"
    try:
        data = location.read(path, min(file.size, _FILE_BYTES_MAX))
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise BadCensus(f"{path} is damaged: its SHA-256 is not the one in the manifest")
        wanted = _partitions_schema() if file.name == PARTITIONS else _uses_schema()
        found = parquet.read_table(io.BytesIO(data))
        for name in _ADDED.intersection(wanted.names).difference(found.column_names):
            found = found.append_column(name, pa.nulls(found.num_rows))
        return found.select(wanted.names).cast(wanted)
    except MissingFile as error:
        raise BadCensus(f"{path} is missing") from error
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise BadCensus(f"{path} cannot be read: {error}") from error


def delete_unfinished(location: Location, before: str) -> None:
    """Delete what killed runs have left that began before the census with this id.

    Raises :class:`snapshots.format.files.LocationUnreachable`.
    """
    for name in ids(location):
        if name < before and MANIFEST not in location.files(f"{FOLDER}/{name}"):
            location.delete(f"{FOLDER}/{name}")


def delete_older(location: Location, newest: Census, keep: int) -> None:
    """Delete the censuses of the same cluster, topics and files beyond the ``keep`` newest ones.

    Raises :class:`snapshots.format.files.LocationUnreachable`.
    """
    same = [
        each
        for each in newest_first(location)
        if (each.cluster, each.patterns) == (newest.cluster, newest.patterns)
    ]
    for each in same[keep:]:
        location.delete(f"{FOLDER}/{each.id}")


def _tables(rows: Rows) -> Iterator[tuple[str, pa.Table]]:
    for number, first in enumerate(range(0, len(rows.uses), ROWS_IN_FILE)):
        yield f"uses-{number:05d}.parquet", _table(rows.uses[first : first + ROWS_IN_FILE], _uses_schema())
    yield PARTITIONS, _table(rows.partitions, _partitions_schema())


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - as above

    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)], schema)


def _parquet(table: pa.Table) -> bytes:
    from pyarrow import parquet  # noqa: PLC0415 - as above

    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def _uses_schema() -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415 - as above

    text, long = pa.string(), pa.int64()
    return pa.schema({
        "source": text, "partition": pa.int32(), "side": text, "framing": text, "id": pa.int32(),
        "guid": text, "messages": long, "bytes": long, "first_offset": long, "last_offset": long,
        "first_ms": long, "last_ms": long, "exact": pa.bool_(), "samples": pa.list_(long),
    })  # fmt: skip


def _partitions_schema() -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415 - as above

    text, long = pa.string(), pa.int64()
    return pa.schema({
        "source": text, "partition": pa.int32(), "begin": long, "end": long, "size": long,
        "compacted": pa.bool_(), "topic_id": text, "state": text, "reason": text,
        "epoch": pa.int32(),
    })  # fmt: skip
