"""Counts of blocks of an id's rows, by which lists of its subjects skip many at once.

A block holds :data:`.layout.BLOCK` rows of one id. Ids with fewer rows have no blocks, and neither has
the end of a list, where new rows come. Each is a meta row: :data:`PREFIX` and the key at which the block
begins, then the number of its live and of all items, and its end. A commit that may change a block's items
deletes it, and the store counts it again later.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import lmdb

from registry.domain.queries.lists import held_by
from registry.domain.rows.layout import ID, number
from registry.domain.rows.version_row import id_of, offset_of
from registry.domain.rows.view import Block, Counts, View, scan

from .indexes import Commit
from .layout import Touched

PREFIX = b"%"
BUDGET = 4  # by the rows of a block, how many are looked at to count or to delete one

_COUNTS = struct.Struct(">2I")


def block_at(cursor: lmdb.Cursor[bytes], key: bytes) -> Block | None:
    """Return the block that holds the key; ``cursor`` is one over the meta rows."""
    wanted = PREFIX + key
    found = cursor.set_range(wanted)
    if not (found and cursor.key() == wanted) and not (cursor.prev() if found else cursor.last()):
        return None
    begin, raw = cursor.item()
    end = raw[_COUNTS.size :]
    if not begin.startswith(PREFIX) or end <= key:
        return None
    return Block(begin[1:], end, Counts(*_COUNTS.unpack_from(raw)))


def put(txn: lmdb.Transaction[bytes], block: Block) -> None:
    """Write a block's row."""
    counts = _COUNTS.pack(block.counts.live_versions, block.counts.versions)
    txn.put(PREFIX + block.begin, counts + block.end)


class IdCountIndex:
    """The counts of ids, see :mod:`.indexes`; they hold only as long as those of versions do."""

    def __init__(self, block: int) -> None:
        self._block = block
        self._next = ID  # where to look for ids to count
        # The applied offsets when this round over them began, and when the last one did.
        self._applied = self._done = -1

    def on_commit(self, commit: Commit) -> None:
        """Delete the blocks whose items may have changed."""
        if commit.counted and (commit.versions or commit.clears):
            IdCounting(commit.rows, commit.blocks, self._block).commit(commit.versions, commit.clears)

    def restart(self) -> None:
        """Look at all ids again, because counting starts again."""
        self._next, self._done = ID, -1

    def is_complete(self, applied: int) -> bool:
        """Return true if nothing was applied since all ids were looked at."""
        return self._done == applied

    def find(self, view: View, keys_from: Callable[[bytes], Iterator[bytes]]) -> BlockSearch:
        """Look for the next block that is to be counted; ``keys_from`` yields the keys of rows."""
        return next_block(view, keys_from(self._next), self._block)

    def advance(self, step: BlockSearch, applied: int) -> bool:
        """Go on after a step, whose block is stored; return true at the end of a round."""
        if self._next == ID:
            self._applied = applied
        self._next = step.end or ID
        if step.end is None:
            self._done = self._applied
        return step.end is None


class IdCounting:
    """Counts of ids in a write transaction, with cursors over the store's rows and meta rows."""

    def __init__(self, rows: lmdb.Cursor[bytes], blocks: lmdb.Cursor[bytes], block: int) -> None:
        self._rows = rows
        self._blocks = blocks
        self._block = block
        self._counted: dict[bytes, bool] = {}  # by the prefix of an id's rows: true if the id has blocks

    def commit(self, touched: list[Touched], clears: list[bytes]) -> None:
        """Delete the blocks whose items may have changed with the version rows."""
        if not _has_blocks(self._blocks, ID):
            return
        for key in clears:
            delete(self._blocks, ID + key[1 : key.index(b"\0") + 1])
        for key, old, new in touched:
            context = ID + key[1 : key.index(b"\0") + 1]
            ids = {context + number(id_of(value)): id_of(value) for value in (old, new) if value is not None}
            changed = {prefix: schema_id for prefix, schema_id in ids.items() if self._is_counted(prefix)}
            if not changed:
                continue
            if old is not None:
                self._delete_at(_id_key(context, key, old))
            self._delete_of_subject(context, key[:-4], changed)

    def _delete_of_subject(self, context: bytes, subject: bytes, changed: dict[bytes, int]) -> None:
        """Delete the blocks with other versions of a subject that have one of the ids."""
        ids, cursor = set(changed.values()), self._rows
        found = cursor.set_range(subject)
        for _ in range(BUDGET * self._block):
            if not found or not cursor.key().startswith(subject):
                return
            key, value = cursor.item()
            if id_of(value) in ids:
                self._delete_at(_id_key(context, key, value))
            found = cursor.next()
        for prefix in changed:
            delete(self._blocks, prefix)

    def _is_counted(self, prefix: bytes) -> bool:
        if prefix not in self._counted:
            self._counted[prefix] = _has_blocks(self._blocks, prefix)
        return self._counted[prefix]

    def _delete_at(self, key: bytes) -> None:
        block = block_at(self._blocks, key)
        if block is not None and self._blocks.set_key(PREFIX + block.begin):
            self._blocks.delete()


def _has_blocks(cursor: lmdb.Cursor[bytes], prefix: bytes) -> bool:
    return cursor.set_range(PREFIX + prefix) and cursor.key().startswith(PREFIX + prefix)


def delete(cursor: lmdb.Cursor[bytes], prefix: bytes = ID) -> None:
    """Delete all blocks that begin with ``prefix``; ``cursor`` is one over the meta rows."""
    while _has_blocks(cursor, prefix):
        cursor.delete()


class BlockSearch(NamedTuple):
    """The next block, if one was found, and the key from which to go on; None after the last row."""

    block: Block | None
    end: bytes | None


def next_block(view: View, keys: Iterator[bytes], size: int) -> BlockSearch:
    """Look for the next rows that are to be counted among ``keys``, ascending from a row of an id on."""
    prefix, begin, run, seen = b"", b"", 0, 0
    for key in keys:
        if not key.startswith(ID):
            break
        seen += 1
        if not prefix or not key.startswith(prefix):
            if seen > 4 * size:
                return BlockSearch(None, key)
            prefix, begin, run = key[: key.index(b"\0") + 5], key, 0
        run += 1
        if run < size:
            continue
        counted = view.block(begin)
        if counted is not None:
            return BlockSearch(None, counted.end)
        return _count_range(view, prefix, begin, key + b"\0", BUDGET * size)
    return BlockSearch(None, None)


def _count_range(view: View, prefix: bytes, begin: bytes, end: bytes, budget: int) -> BlockSearch:
    """Count the rows from ``begin`` up to ``end``, up to the next counted block or to one that takes long."""
    live, items, steps = 0, 0, iter(range(budget))
    for key, _ in scan(view, prefix, begin):
        if key >= end:
            break
        if key > begin and view.block(key) is not None:
            end = key
            break
        search, found = held_by(view, key, prefix), None
        try:
            for _ in steps:
                next(search)
        except StopIteration as stop:
            found = stop.value
        else:
            if key == begin:
                return BlockSearch(None, key + b"\0")
            end = key
            break
        items += found is not None
        live += found is not None and not found.row.deleted
    return BlockSearch(Block(begin, end, Counts(live, items)), end)


def _id_key(context: bytes, key: bytes, value: bytes) -> bytes:
    """Return the key of a version's row in the table of ids."""
    subject = key[len(context) : -4]
    return b"".join((context, number(id_of(value)), offset_of(value).to_bytes(8, "big"), subject, key[-4:]))
