"""The rows of a base that the fold of some owners' records may ask for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from registry.domain.rows import layout
from snapshots.format.location import Location
from snapshots.format.manifest import Part

from .base_parts import keys_of_part
from .columns import KeysOf
from .folding import BASE_ROW

NEVER_ASKED = (
    layout.ENCODED, layout.GUID, layout.ID, layout.REFERRER, layout.RESOURCE_ID, layout.RESOURCE_NAME,
)  # fmt: skip
"""Tables that the fold writes blindly: what is to go from them follows from the rows that they lead to."""
_ROW = pa.schema([
    ("owner", pa.binary()), ("key", pa.binary()), ("offset", pa.int64()), ("ts", pa.int64()),
    ("value", pa.binary()),
])  # fmt: skip


def may_be_asked(part: Part) -> bool:
    """Whether a part has rows of tables that the fold reads."""
    table = part.first[:1]
    return table not in NEVER_ASKED or table != part.last[:1]


class Wanted(NamedTuple):
    """Which rows of which base."""

    uri: str
    base: str
    parts: tuple[Part, ...]
    owners: tuple[bytes, ...]
    """Sorted."""


def pick(wanted: Wanted, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From numbers of parts to the rows in them that belong to the owners, as the fold takes them."""
    location = Location.parse(wanted.uri)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            keys, values = keys_of_part(location, wanted.base, wanted.parts[number])
            yield _answer(rows_of(keys, values, wanted.owners))


def rows_of(
    keys: pa.BinaryArray, values: Callable[[], pa.BinaryArray], owners: Sequence[bytes]
) -> list[tuple[bytes, bytes, bytes]]:
    """Owner, key and value of the rows that belong to ``owners``, but for index rows.

    ``values`` is called if there are some.
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
    # By far the largest table: owners are looked up in it, instead of it in the owners.
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
    columns = (owners, keys, [BASE_ROW] * len(found), [0] * len(found), values)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _ROW.types, strict=True)]
    return pa.record_batch(arrays, schema=_ROW)
