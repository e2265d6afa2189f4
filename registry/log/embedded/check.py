"""Check of the embedded log's files before it serves.

Runs in a child process (:mod:`registry.base.processes.lmdb_check`). All records of a small log are read. Of a
larger log, the tail and an even sample are read, and :meth:`.log.EmbeddedLog.verify_step` checks the rest
later.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb

from registry.base.processes.lmdb_check import CannotExamine, examine, is_short, look_inside, progress, report
from registry.log.contract import LogError

from . import layout

FULL_RECORDS_MAX = 50_000
FULL_BYTES_MAX = 256 << 20
TAIL_RECORDS = 20_000
SAMPLES = 2_000
_PROGRESS_EVERY = 4_096
_NAMED_MAX = 10


def check(path: Path) -> list[str]:
    """Return the damage found in the log at ``path``; empty if there is none.

    Raises :class:`LogError` if the check itself fails.
    """
    try:
        return examine("registry.log.embedded.check", path)
    except CannotExamine as error:
        raise LogError(str(error)) from error


def look(path: Path) -> Iterator[str]:
    """Yield the findings, in the child process."""
    return look_inside(path, layout.TABLES, lambda env: _look_inside(path, env))


def _look_inside(path: Path, env: lmdb.Environment) -> Iterator[str]:
    names = (layout.RECORDS, layout.KEYS, layout.GRAVES, layout.META)
    try:
        records, _, _, meta = (env.open_db(name, create=False) for name in names)
    except lmdb.NotFoundError:
        yield "its tables are missing, and with them every record"
        return
    with env.begin(records) as txn:
        if (found := bytes(txn.get(layout.META_FORMAT, b"", db=meta))) != layout.FORMAT:
            yield f"it has the unknown format {found!r}; this version knows {layout.FORMAT!r}"
            return
        if not txn.get(layout.META_IDENTITY, db=meta):
            yield "its identity is missing"
        try:
            state = layout.LogState.unpack(bytes(txn.get(layout.META_STATE, b"", db=meta)))
        except ValueError as error:
            yield str(error)
            return
        progress(f"its meta rows; it should hold {state.records} records up to offset {state.end - 1}")
        yield from _look_at_counts(txn, records, state)
        page_bytes, last_page = env.stat()["psize"], env.info()["last_pgno"]
        small = state.records <= FULL_RECORDS_MAX and last_page * page_bytes <= FULL_BYTES_MAX
        every = small or is_short(path, page_bytes, last_page)
        yield from _name(_scan(txn, state) if every else _sample(txn, state))


def _look_at_counts(txn: lmdb.Transaction[Any], records: Any, state: layout.LogState) -> Iterator[str]:
    entries = txn.stat(records)["entries"]
    if entries != state.records:
        yield f"it should have {state.records} records, but has {entries}"
    with txn.cursor() as cursor:
        last = layout.unpack_offset(cursor.key()) if cursor.last() else -1
    if last != state.end - 1:
        yield f"the last record should have offset {state.end - 1}, but has {last}"


def _scan(txn: lmdb.Transaction[Any], state: layout.LogState) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, last) of lost offsets, by reading every record."""
    expected = seen = 0
    with txn.cursor() as cursor:
        for raw_offset, raw in cursor:
            offset = layout.unpack_offset(raw_offset)
            if offset > expected and offset > state.cleaned:
                yield max(expected, state.cleaned), offset - 1
            if not _holds(raw_offset, raw):
                yield offset, offset
            expected = offset + 1
            seen += 1
            if seen % _PROGRESS_EVERY == 0:
                progress(f"offset {offset}")


def _sample(txn: lmdb.Transaction[Any], state: layout.LogState) -> Iterator[tuple[int, int]]:
    """Yield ranges of lost offsets, by reading a sample of all records and the whole tail."""
    with txn.cursor() as cursor:
        for offset in range(0, state.end, max(1, state.end // SAMPLES)):
            raw_offset = layout.pack_offset(offset)
            if not cursor.set_range(raw_offset):
                break
            if cursor.key() != raw_offset and offset >= state.cleaned:
                yield offset, offset
            elif not _holds(cursor.key(), cursor.value()):
                found = layout.unpack_offset(cursor.key())
                yield found, found
        expected = state.end - 1
        progress("a sample of its records")
        for raw_offset, raw in cursor.iterprev() if cursor.last() else ():
            offset = layout.unpack_offset(raw_offset)
            if offset < expected and expected >= state.cleaned:
                yield max(offset + 1, state.cleaned), expected
            if not _holds(raw_offset, raw):
                yield offset, offset
            expected = offset - 1
            if offset < state.end - TAIL_RECORDS:
                break


def _holds(raw_offset: bytes, raw: bytes) -> bool:
    try:
        layout.unpack(raw_offset, raw)
    except layout.BadRecord:
        return False
    return True


def _name(ranges: Iterator[tuple[int, int]]) -> Iterator[str]:
    """Describe the ranges, the first few explicitly."""
    merged: list[list[int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(last, merged[-1][1])
        else:
            merged.append([first, last])
    if not merged:
        return
    lost = sum(last - first + 1 for first, last in merged)
    names = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in merged[:_NAMED_MAX])
    more = f" and {len(merged) - _NAMED_MAX} more places" if len(merged) > _NAMED_MAX else ""
    yield f"{lost} records are missing or unreadable, at offsets {names}{more}"


if __name__ == "__main__":
    report(look)
