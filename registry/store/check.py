"""Checks of a store's files in a child process (:mod:`registry.base.processes.lmdb_check`).

    python -m registry.store.check FOLDER            report findings before the store serves, and its position
    python -m registry.store.check FOLDER standing   print its log, and its position there
    python -m registry.store.check FOLDER digest     verify the digest of all rows

Before a store serves, all rows of a small one are compared with its digest. Of a larger store, a sample of
rows is read, and :meth:`.lmdb.Store.verify_step` checks the digest later. The digest may also be verified
while the node writes to the store: exit status 0 if the rows match the stored digest, in one consistent view;
otherwise the finding is printed and the exit status is :data:`WRONG`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import lmdb

from registry.base.processes.lmdb_check import is_short, look_inside, progress, read_only, report, say
from registry.domain.log_format.lineage import Lineage
from registry.domain.rows import digest

from . import layout
from .layout import State

FULL_ROWS_MAX = 100_000
FULL_BYTES_MAX = 128 << 20
SAMPLES = 2_000
_PROGRESS_EVERY = 4_096
# Exit status of the verification of a digest that is wrong.
WRONG = 4
_BATCH_ROWS = 4096
_LAST_NICE = 19


def look(path: Path) -> Iterator[str]:
    """Say where the store stands, and yield the findings, in the child process."""
    with suppress(lmdb.Error, ValueError):
        say(" ".join(map(str, standing(path))))
    return look_inside(path, layout.TABLES, lambda env: _look_inside(path, env))


def _look_inside(path: Path, env: lmdb.Environment) -> Iterator[str]:
    try:
        rows, meta = (env.open_db(name, create=False) for name in (layout.ROWS, layout.META))
    except lmdb.NotFoundError:
        yield "its tables are missing"
        return
    with env.begin(rows) as txn:
        if (found := txn.get(layout.META_FORMAT, db=meta)) != layout.FORMAT:
            yield f"it has the unknown format {found!r}; this version knows {layout.FORMAT!r}"
            return
        names = (layout.META_FOLD, layout.META_LOG, layout.META_BOOT, layout.META_CLEAN)
        if any(txn.get(name, db=meta) is None for name in names):
            yield "meta rows are missing"
            return
        try:
            state = State.unpack(bytes(txn.get(layout.META_STATE, b"", db=meta)))
            Lineage.unpack(bytes(txn.get(layout.META_LINEAGE, b"", db=meta)))
        except ValueError as error:
            yield str(error)
            return
        progress(f"its meta rows; it should hold the log up to offset {state.applied}")
        yield from _look_at_rows(path, env, txn, rows, state)


def _look_at_rows(
    path: Path, env: lmdb.Environment, txn: lmdb.Transaction[bytes], rows: Any, state: State
) -> Iterator[str]:
    entries, page_bytes, last_page = txn.stat(rows)["entries"], env.stat()["psize"], env.info()["last_pgno"]
    if entries <= FULL_ROWS_MAX and last_page * page_bytes <= FULL_BYTES_MAX:
        total = 0
        with txn.cursor() as cursor:
            for seen, (key, value) in enumerate(cursor, 1):
                total += digest.row_hash(key, value)
                if seen % _PROGRESS_EVERY == 0:
                    progress(f"{seen} of {entries} rows")
        if total % digest.MODULUS != state.digest:
            yield "its rows do not match the stored digest"
    elif is_short(path, page_bytes, last_page):
        _touch_all(txn)
    else:
        _touch_some(txn)


def _touch_all(txn: lmdb.Transaction[bytes]) -> None:
    """Read every row: a page beyond the file's end kills this process."""
    with txn.cursor() as cursor:
        for seen, _ in enumerate(cursor, 1):
            if seen % _PROGRESS_EVERY == 0:
                progress(f"{seen} rows")


def _touch_some(txn: lmdb.Transaction[bytes]) -> None:
    """Read a sample of rows: repeatedly the one half-way between two neighbors in the sample."""
    with txn.cursor() as cursor:
        if not cursor.first():
            return
        low = cursor.key()
        cursor.last()
        pairs = deque([(low, cursor.key())])
        for _ in range(SAMPLES):
            if not pairs:
                return
            low, high = pairs.popleft()
            if cursor.set_range(_half_way(low, high)) and low < (key := cursor.key()) < high:
                cursor.value()
                pairs += (low, key), (key, high)


def _half_way(low: bytes, high: bytes) -> bytes:
    """Return a key between two keys."""
    differing = (at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    shared = next(differing, min(len(low), len(high)))
    a, b = (int.from_bytes(key[shared : shared + 8].ljust(8, b"\0"), "big") for key in (low, high))
    return low[:shared] + ((a + b) // 2).to_bytes(8, "big")


def standing(path: Path) -> tuple[str, int, int, str]:
    """Return the log's identity, the applied offset, when that was last the log's end, and the lineage.

    Runs in the child process; the lineage is in hexadecimal digits.
    """
    with (
        read_only(path, layout.TABLES) as env,
        env.begin(env.open_db(layout.META, create=False)) as txn,
    ):
        state = State.unpack(txn.get(layout.META_STATE) or b"")
        lineage = bytes(txn.get(layout.META_LINEAGE) or b"")
        log = bytes(txn.get(layout.META_LOG) or b"").decode()
        return log, state.applied, int(txn.get(layout.META_AT_END) or b"0"), lineage.hex()


def _wrong(path: Path) -> str:
    """Return what is wrong with the environment at ``path``; empty if nothing is."""
    with lmdb.open(
        str(path), max_dbs=layout.TABLES, readonly=True, create=False,
        map_size=0, max_readers=layout.READERS_MAX,
    ) as env:  # fmt: skip
        rows, meta = (env.open_db(name, create=False) for name in (layout.ROWS, layout.META))
        # The view lasts for some seconds, during which commits cannot reuse pages and the file grows.
        with env.begin(rows) as txn, txn.cursor() as cursor:
            state = State.unpack(txn.get(layout.META_STATE, db=meta) or b"")
            total, each = digest.EMPTY, iter(cursor)
            while some := list(islice(each, _BATCH_ROWS)):
                total += digest.total(some)
    if total % digest.MODULUS != state.digest:
        return "its rows do not match the stored digest"
    return ""


def verify_digest(path: Path) -> None:
    """Verify the digest at the lowest priority, in the child process."""
    os.nice(_LAST_NICE)
    gc.disable()
    try:
        found = _wrong(path)
    except (lmdb.Error, ValueError) as error:
        found = f"its rows cannot be read: {error}"
    if found:
        sys.stdout.write(found)
        sys.exit(WRONG)


if __name__ == "__main__":
    if sys.argv[2:] == ["standing"]:
        sys.stdout.write(" ".join(map(str, standing(Path(sys.argv[1])))))
    elif sys.argv[2:] == ["digest"]:
        verify_digest(Path(sys.argv[1]))
    else:
        report(look)
