"""The rows of a base that the fold of some owners' records may read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from registry.domain.rows import layout
from snapshots.format.location import Location
from snapshots.format.manifest import Part

from .bundles import bundle
from .chunks import Shared
from .columns import KeysOf, keys_of_part
from .owned_records import BASE_ROW, SCHEMA, version_of_row

# Tables that the fold only writes: deletions from them follow from the rows that they point to.
NEVER_ASKED = (
    layout.ENCODED, layout.GUID, layout.ID, layout.REFERRER, layout.RESOURCE_ID, layout.RESOURCE_NAME,
)  # fmt: skip


def may_be_asked(part: Part) -> bool:
    """Return whether a part has rows of tables that the fold reads."""
    table = part.first[:1]
    return table not in NEVER_ASKED or table != part.last[:1]


class BaseQuery(NamedTuple):
    """The owners whose rows of a base are needed."""

    uri: str
    base: str
    parts: tuple[Part, ...]
    # Sorted.
    owners: tuple[bytes, ...]
    # A place for each task that folds.
    places: Sequence[int]


def pick(shared: Shared[BaseQuery], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn numbers of parts into bundles of their rows that belong to the owners."""
    return bundle(_pick(shared.value, batches), shared.value.places)


def _pick(wanted: BaseQuery, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    location = Location.parse(wanted.uri)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            keys, values = keys_of_part(location, wanted.base, wanted.parts[number])
            yield _answer(rows_of(keys, values, wanted.owners))


def rows_of(
    keys: pa.BinaryArray, values: Callable[[], pa.BinaryArray], owners: Sequence[bytes]
) -> list[tuple[bytes, bytes, bytes]]:
    """Return owner, key and value of the rows that belong to ``owners``, without index rows.

    ``values`` is called only if there are any.
    """
    found = list(_places_of(KeysOf(keys), owners))
    if not found:
        return []
    held = values()
    return [(owner, keys[at].as_py(), held[at].as_py()) for owner, at in found]


def _places_of(keys: KeysOf, owners: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
    wanted = frozenset(owners)
    begin = 0
    while begin < len(keys):
        table = keys[begin][:1]
        end = bisect_left(keys, layout.after(table), begin)
        if table == layout.VERSION:
            yield from _versions_of(keys, begin, end, owners)
        elif table not in NEVER_ASKED:
            yield from ((own, at) for at in range(begin, end) if (own := layout.owner_of(keys[at])) in wanted)
        begin = end


def _versions_of(keys: KeysOf, begin: int, end: int, owners: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
    # By far the largest table: look up the owners in it rather than each row among the owners.
    first, last = keys[begin][1:], keys[end - 1][1:]
    start = max(0, bisect_left(owners, first) - 1)
    for index in range(start, bisect_left(owners, last)):
        if not owners[index]:
            continue  # the cluster has no versions
        prefix = layout.VERSION + owners[index]
        at = bisect_left(keys, prefix, begin, end)
        while at < end and keys[at].startswith(prefix):
            yield owners[index], at
            at += 1


def _answer(found: list[tuple[bytes, bytes, bytes]]) -> pa.RecordBatch:
    owners, keys, values = zip(*found, strict=True) if found else ((), (), ())
    versions = [version_of_row(key) for key in keys]
    columns = (owners, versions, [BASE_ROW] * len(found), [0] * len(found), keys, values)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.record_batch(arrays, schema=SCHEMA)
