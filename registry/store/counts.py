"""Counts of blocks of versions, kept with the rows that they count, in one transaction with them.

Commits keep counted blocks up to date, and the store counts the others one at a time. Stores of older
releases and loaded snapshots have no counts, and a commit that touches more than :data:`SUBJECTS_MAX`
subjects drops all: while a store catches up, counting once at the end costs less. Merely marking touched
blocks as not counted would leave all of them so under steady writes, and make each offset a walk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import sub
from typing import Any

import lmdb

from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.domain.rows.layout import (
    CLEAR,
    VERSION,
    after,
    is_version_key,
    scope_key,
    together,
    together_end,
)
from registry.domain.rows.version_row import is_deleted, offset_of
from registry.domain.rows.view import Counts

from . import id_counts
from .indexes import Adopt, Commit
from .layout import BLOCK, COUNTS, END, META_COUNTED, UNCOUNTED, Range, Touched, are_valid, range_at
from .layout import BLOCKS_PREFIX as PREFIX

SUBJECTS_MAX = 1000

_HIGHEST = b"\xff" * 5  # greater than every version's number
_CLEAR_ALL = scope_key(CLEAR, Subject(DEFAULT_CONTEXT, ""))


def drops_counts(changed: Collection[bytes]) -> bool:
    """Return true if a commit of rows with these keys drops all counts, because it touches many subjects."""
    if len(changed) <= SUBJECTS_MAX:
        return False
    return len({key[:-4] for key in changed if key.startswith(VERSION)}) > SUBJECTS_MAX


class CountIndex:
    """The counts of blocks of versions, see :mod:`.indexes`; ``block``: versions counted together."""

    def __init__(self, txn: lmdb.Transaction[bytes], meta: Any, block: int = BLOCK) -> None:
        self._meta = meta
        self._block = block
        # False while the store has no counts.
        self.valid = are_valid(txn, meta)
        self._to = b""  # before this key all blocks are counted

    @property
    def complete(self) -> bool:
        """True once all blocks are counted."""
        return self.valid and self._to == END

    def on_commit(self, commit: Commit) -> Adopt:
        """Bring the counts up to date with the changed versions, or drop them."""
        kept, clears = self.valid and not commit.new, commit.clears
        if kept and (commit.versions or clears):
            counting = Counting(commit.txn, commit.rows, commit.blocks, self._meta, self._block)
            kept = counting.commit(commit.versions, clears)
        if kept:
            commit.txn.put(META_COUNTED, commit.applied.to_bytes(8, "big"), db=self._meta)
        elif self.valid:
            commit.txn.delete(META_COUNTED, db=self._meta)
        commit.counted = kept

        def adopt() -> None:
            self.valid = kept
            self._to = b"" if clears else self._to

        return adopt

    def step(self, txn: lmdb.Transaction[bytes], applied: int) -> Adopt:
        """Count the next block of versions, in a transaction over the table of rows."""
        counting = Counting(txn, txn.cursor(), txn.cursor(self._meta), self._meta, self._block)
        if not self.valid:
            counting.begin()
            txn.put(META_COUNTED, applied.to_bytes(8, "big"), db=self._meta)
        reached = counting.next_block(self._to if self.valid else b"")

        def adopt() -> None:
            self.valid, self._to = True, END if reached is None else reached

        return adopt


class Counting:
    """Counts in a write transaction over the table of rows, with cursors over them and over the meta rows."""

    def __init__(
        self,
        txn: lmdb.Transaction[bytes],
        rows: lmdb.Cursor[bytes],
        blocks: lmdb.Cursor[bytes],
        meta: Any,
        block: int,
    ) -> None:
        self._txn = txn
        self._meta = meta
        self._block = block
        self._rows = rows
        self._blocks = blocks
        self._at: Range | None = None  # the block that a commit is at
        self._now, self._part = Counts(), False  # its counts, if it is counted; true for a part of a group
        self._clear = (b"", -1)  # a subject, and the offset of its last clear
        self._grown: list[bytes] = []
        self._shrunk: list[bytes] = []

    def begin(self) -> None:
        """Replace all counts by one block that is not counted."""
        while self._blocks.set_range(PREFIX) and self._blocks.key().startswith(PREFIX):
            self._blocks.delete()
        id_counts.delete(self._blocks)
        self._forget(Range(VERSION, END, None))

    def commit(self, touched: list[Touched], clears: list[bytes]) -> bool:
        """Bring the counts up to date with version rows that were changed, in the order of keys.

        ``clears``: keys of changed rows of clears. Returns false if all counts are to be dropped.
        """
        subjects: dict[bytes, list[Touched]] = {}
        for each in touched:
            subjects.setdefault(each[0][:-4], []).append(each)
        if len(subjects) > SUBJECTS_MAX or _CLEAR_ALL in clears:
            return False
        # First: what was counted is not known by the rows of clears as they are now.
        for key in clears:
            self._drop_counts(VERSION + key[1:])
        for prefix, changes in subjects.items():
            self._subject(prefix, changes)
        self._leave()
        # Not before: blocks that are counted again include all changes.
        for begin in self._grown:
            at = self._block_of(begin)
            self._count(at.begin, at.end)
        for begin in self._shrunk:
            self._merge(begin)
        return True

    def next_block(self, start: bytes) -> bytes | None:
        """Count the first uncounted block from ``start`` on; return its end, or None if there is none."""
        found = self._blocks.set_range(PREFIX + start)
        while found and self._blocks.key().startswith(PREFIX):
            if self._blocks.value() == UNCOUNTED:
                at = self._block_of(self._blocks.key()[1:])
                first = next(self._count_range(at.begin, at.end))
                self._put(first)
                if first.end != at.end:
                    self._forget(Range(first.end, at.end, None))
                return first.end
            found = self._blocks.next()
        return None

    def _subject(self, prefix: bytes, changes: list[Touched]) -> None:
        at = self._enter(prefix)
        if not self._part:
            if at.counts is not None:
                self._now = self._now.plus(self._change(prefix, changes))
            return
        for each in changes:
            if self._enter(each[0]).counts is not None:
                live, kept, _, _, rows = self._change(prefix, [each], part=True)
                self._now = self._now.plus(Counts(live, kept, rows=rows))

    def _enter(self, key: bytes) -> Range:
        if self._at is None or key >= self._at.end:
            self._leave()
            self._at = self._block_of(key)
            self._now, self._part = self._at.counts or Counts(), self._at.part
        return self._at

    def _leave(self) -> None:
        at, now = self._at, self._now
        if at is None or at.counts is None or now == at.counts:
            return
        self._put(Range(at.begin, at.end, now))
        if now.rows > 2 * self._block:
            self._grown.append(at.begin)
        elif now.rows < at.counts.rows and now.rows <= self._block // 2:
            self._shrunk.append(at.begin)

    def _change(self, prefix: bytes, changes: list[Touched], *, part: bool = False) -> Counts:
        """Return by how much the counts of a subject, or of a part of it, have changed."""
        was_live = was_kept = now_live = now_kept = rows = 0
        for _, old, new in changes:
            if old is not None:
                rows -= 1
                live = not is_deleted(old)
                was_live += live
                was_kept += live or self._is_kept(prefix, old)
            if new is not None:
                rows += 1
                live = not is_deleted(new)
                now_live += live
                now_kept += live or self._is_kept(prefix, new)
        live_subjects, subjects = (now_live > 0) - (was_live > 0), (now_kept > 0) - (was_kept > 0)
        if not part and (live_subjects or subjects):
            other, other_live = self._others(prefix, {key for key, _, _ in changes})
            live_subjects, subjects = 0 if other_live else live_subjects, 0 if other else subjects
        return Counts(now_live - was_live, now_kept - was_kept, live_subjects, subjects, rows)

    def _others(self, prefix: bytes, changed: set[bytes]) -> tuple[bool, bool]:
        """Return true for a subject that has other versions, and for one with a live one among them."""
        cursor, there = self._rows, False
        found = cursor.prev() if cursor.set_range(prefix + _HIGHEST) else cursor.last()
        while found and (key := cursor.key()).startswith(prefix):
            if key not in changed:
                value = cursor.value()
                if not is_deleted(value):
                    return True, True
                there = there or self._is_kept(prefix, value)
            found = cursor.prev()
        return there, False

    def _is_kept(self, prefix: bytes, value: bytes) -> bool:
        """Return false for a soft-deleted version of a subject that a clear made the registry forget."""
        return not is_deleted(value) or self._cleared_at(prefix) <= offset_of(value)

    def _cleared_at(self, prefix: bytes) -> int:
        """Return the offset of the last clear that covers a subject; -1 if there is none."""
        if self._clear[0] != prefix:
            subject = CLEAR + prefix[1:]
            context = subject[: subject.index(b"\0") + 1] + b"\0"
            found = (self._txn.get(key) for key in (subject, context, _CLEAR_ALL))
            offsets = (int.from_bytes(each, "big") for each in found if each is not None)
            self._clear = (prefix, max(offsets, default=-1))
        return self._clear[1]

    def _drop_counts(self, prefix: bytes) -> None:
        """Drop the counts of blocks with versions of a subject or, if it has no name, of a context."""
        named = not prefix.endswith(b"\0\0")
        begin, end = (prefix, after(prefix)) if named else (prefix[:-1], after(prefix[:-1]))
        at = self._block_of(begin)
        self._forget(at)
        while at.end < end:
            at = self._block_of(at.end)
            self._forget(at)

    def _block_of(self, key: bytes) -> Range:
        found = range_at(self._blocks, key)
        assert found is not None
        return found

    def _merge(self, begin: bytes) -> None:
        """Merge a block with a neighbor, if both together are small and may share a block."""
        at = self._block_of(begin)  # It may have been merged with another one.
        neighbors = [self._block_of(at.end)] if at.end < END else []
        if self._blocks.set_range(PREFIX + at.begin) and self._blocks.prev():
            key = self._blocks.key()
            neighbors += [self._block_of(key[1:])] if key.startswith(PREFIX) else []
        for each in neighbors:
            first, second = sorted((each, at))
            if each.counts is None or at.counts is None or each.part != at.part:
                continue
            united = each.counts.rows + at.counts.rows <= self._block // 2
            if united and is_version_key(second.begin) == at.part:
                self._txn.delete(PREFIX + second.begin, db=self._meta)
                self._count(first.begin, second.end)
                at = self._block_of(first.begin)

    def _forget(self, at: Range) -> None:
        self._txn.put(PREFIX + at.begin, UNCOUNTED, db=self._meta)

    def _put(self, at: Range) -> None:
        assert at.counts is not None
        self._txn.put(PREFIX + at.begin, COUNTS.pack(*at.counts), db=self._meta)

    def _count(self, begin: bytes, end: bytes) -> None:
        for each in self._count_range(begin, end):
            self._put(each)

    def _count_range(self, begin: bytes, end: bytes) -> Iterator[Range]:
        """Count rows from ``begin`` on and before ``end``, in blocks; the last one may be a small one."""
        part, size = is_version_key(begin) or is_version_key(end), self._block
        found, before = [0] * 5, [0] * 5  # in the block so far, and of these before the group
        group, border = begin, b""  # where the group begins and ends
        if part:
            border = min(together_end(begin), end) if is_version_key(begin) else end
        subject, live, kept = END, False, False
        cursor = self._rows
        for key, value in cursor if cursor.set_range(begin) else ():
            if key >= end:
                break
            if key >= border:
                group = together(key)
                if part or found[4] >= size:
                    reached = border if part else group
                    yield _range(begin, reached, found, part)
                    begin, found, part = reached, [0] * 5, False
                border, before = min(together_end(key), end), found[:]
            elif not part and found[4] - before[4] >= size:
                if begin < group:
                    yield _range(begin, group, before)
                    begin, found = group, list(map(sub, found, before))
                part = True
            if part and found[4] >= size:
                yield _range(begin, key, found, part)
                begin, found = key, [0] * 5
            if not key.startswith(subject):
                subject, live, kept = key[:-4], False, False
            found[4] += 1
            if self._is_kept(subject, value):
                found[1] += 1
                found[3] += not kept
                kept = True
                if not is_deleted(value):
                    found[0] += 1
                    found[2] += not live
                    live = True
        if part and border < end:
            yield _range(begin, border, found, part)
            begin, found, part = border, [0] * 5, False
        yield _range(begin, end, found, part)


def _range(begin: bytes, end: bytes, found: list[int], part: bool = False) -> Range:
    live, kept, live_subjects, subjects, rows = found
    return Range(begin, end, Counts(live, kept, 0 if part else live_subjects, 0 if part else subjects, rows))
