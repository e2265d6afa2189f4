"""Counts of blocks of versions, kept with the rows that they count, in one transaction with them.

Each block is a meta row: :data:`PREFIX` and the key at which the block begins, then four numbers; it ends
where the next one begins. :data:`.layout.META_COUNTED` holds the offset that the counts stand for and the key
up to which blocks are counted. Stores of older versions and loaded snapshots have none, and a commit that
touches more than :data:`SUBJECTS_MAX` subjects drops all: while a store catches up, counting once at the end
costs less. Missing blocks are counted one at a time; commits keep those that are counted up to date.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import lmdb

from registry.domain.rows.layout import VERSION, after, together
from registry.domain.rows.version_row import is_deleted
from registry.domain.rows.view import Block, Counts

PREFIX = b"#"
END = after(VERSION)
BLOCK = 1024  # versions in a block at first; it is split at twice as many, and merged below half
SUBJECTS_MAX = 1000

_COUNTS = struct.Struct(">4I")
_HIGHEST = b"\xff" * 5  # behind every version's number

Touched = tuple[bytes, bytes | None, bytes | None]  # a version row's key, its value before and after a commit


class Counted(NamedTuple):
    """Progress of counting a store's versions."""

    applied: int = -1  # offset that the counts stand for
    upto: bytes = b""  # key before which all blocks are counted; empty: there are none

    def pack(self) -> bytes:
        """Return the row's value."""
        return (self.applied + 1).to_bytes(8, "big") + self.upto

    @classmethod
    def unpack(cls, raw: bytes | None) -> Counted:
        """Read a row's value."""
        return cls(int.from_bytes(raw[:8], "big") - 1, raw[8:]) if raw else cls()

    def complete(self, applied: int) -> bool:
        """Return true if all versions are counted as of this offset."""
        return self.upto == END and self.applied == applied


def block_at(cursor: lmdb.Cursor[bytes], key: bytes) -> Block | None:
    """Return the block that holds the key; ``cursor`` is one over the meta rows."""
    wanted = PREFIX + key
    found = cursor.set_range(wanted)
    if not (found and cursor.key() == wanted) and not (cursor.prev() if found else cursor.last()):
        return None
    begin, raw = cursor.item()
    if not begin.startswith(PREFIX):
        return None
    following = cursor.next() and cursor.key().startswith(PREFIX)
    return Block(begin[1:], cursor.key()[1:] if following else END, Counts(*_COUNTS.unpack(raw)))


class Counting:
    """Counts in a write transaction of a store."""

    def __init__(self, txn: lmdb.Transaction[bytes], table: Any, meta: Any, block: int = BLOCK) -> None:
        self._txn = txn
        self._meta = meta
        self._block = block
        self._rows: lmdb.Cursor[bytes] = txn.cursor(table)
        self._blocks: lmdb.Cursor[bytes] = txn.cursor(meta)

    def commit(self, touched: list[Touched], upto: bytes) -> bytes:
        """Bring the counts up to date with version rows that were changed; return the key they reach to.

        ``touched`` is in the order of keys.
        """
        subjects: dict[bytes, list[Touched]] = {}
        for each in touched:
            subjects.setdefault(each[0][:-4], []).append(each)
        if len(subjects) > SUBJECTS_MAX:
            return b""
        before = None
        grown, shrunk = list[bytes](), list[bytes]()
        for prefix, changes in subjects.items():
            if prefix >= upto:
                break
            if before is None or prefix >= before.end:
                before = self._at(prefix)
                counts = before.counts
            change = self._change(prefix, changes)
            if not any(change):
                continue
            counts = counts.plus(change)
            self._put(before.begin, counts)
            if counts.versions // self._block > max(1, before.counts.versions // self._block):
                grown.append(before.begin)
            elif change.versions < 0 and counts.versions <= self._block // 2:
                shrunk.append(before.begin)
        # Not before: what is counted again has all changes in it.
        for begin in dict.fromkeys(grown):
            self._split(begin, upto)
        for begin in dict.fromkeys(shrunk):
            self._merge(begin, upto)
        return upto

    def next_block(self, upto: bytes) -> bytes:
        """Count one block more; return the key that the counts reach to then."""
        if not upto:
            while self._blocks.set_range(PREFIX) and self._blocks.key().startswith(PREFIX):
                self._blocks.delete()
        begin, end, counts = next(self._counted(upto or VERSION, END))
        self._put(begin, counts)
        return end

    def _change(self, prefix: bytes, changes: list[Touched]) -> Counts:
        """Return by how much a subject's counts have changed."""
        was = [old for _, old, _ in changes if old is not None]
        now = [new for _, _, new in changes if new is not None]
        was_live, now_live = (len(values) - sum(map(is_deleted, values)) for values in (was, now))
        there, live = self._others(prefix, {key for key, _, _ in changes})
        return Counts(
            now_live - was_live,
            len(now) - len(was),
            0 if live else (now_live > 0) - (was_live > 0),
            0 if there else bool(now) - bool(was),
        )

    def _others(self, prefix: bytes, changed: set[bytes]) -> tuple[bool, bool]:
        """Return true for a subject that has other versions, and for one with a live one among them."""
        cursor, there = self._rows, False
        found = cursor.prev() if cursor.set_range(prefix + _HIGHEST) else cursor.last()
        while found and (key := cursor.key()).startswith(prefix):
            if key not in changed:
                there = True
                if not is_deleted(cursor.value()):
                    return True, True
            found = cursor.prev()
        return there, False

    def _at(self, key: bytes) -> Block:
        block = block_at(self._blocks, key)
        assert block is not None
        return block

    def _split(self, begin: bytes, upto: bytes) -> None:
        for each in self._counted(begin, min(self._at(begin).end, upto)):
            self._put(each.begin, each.counts)

    def _merge(self, begin: bytes, upto: bytes) -> None:
        """Unite a block with a neighbour, if both together are small."""
        block = self._at(begin)  # which another one may have been united with
        neighbours = [self._at(block.end)] if block.end < upto else []
        if self._blocks.set_range(PREFIX + block.begin) and self._blocks.prev():
            neighbours += [self._at(self._blocks.key()[1:])] if self._blocks.key().startswith(PREFIX) else []
        for each in neighbours:
            if each.counts.versions + block.counts.versions <= self._block // 2:
                first, second = sorted((each, block))
                self._txn.delete(PREFIX + second.begin, db=self._meta)
                block = Block(first.begin, second.end, first.counts.plus(second.counts))
                self._put(block.begin, block.counts)

    def _put(self, begin: bytes, counts: Counts) -> None:
        self._txn.put(PREFIX + begin, _COUNTS.pack(*counts), db=self._meta)

    def _counted(self, begin: bytes, end: bytes) -> Iterator[Block]:
        """Count rows from ``begin`` on and before ``end``, in blocks; the last one may be a small one."""
        found = [0, 0, 0, 0]
        subject, group, live = END, b"", False
        cursor = self._rows
        for key, value in cursor if cursor.set_range(begin) else ():
            if key >= end:
                break
            if not key.startswith(subject):
                subject, live = key[:-4], False
                before, group = group, together(key)
                if found[1] >= self._block and group != before:
                    yield Block(begin, group, Counts(*found))
                    begin, found = group, [0, 0, 0, 0]
                found[3] += 1
            found[1] += 1
            if not is_deleted(value):
                found[0] += 1
                found[2] += not live
                live = True
        yield Block(begin, end, Counts(*found))
