"""Derived data of a store, in the transaction that changes its rows."""

from __future__ import annotations

from pathlib import Path

import lmdb

from registry.domain.log_format.lineage import NOTHING
from registry.domain.rows import digest
from registry.domain.rows.view import Change
from registry.store.indexes import Commit, Digest
from registry.store.layout import META_STATE, State


def test_each_commit_records_offset_and_digest_of_all_rows(tmp_path: Path) -> None:
    steps: list[tuple[list[tuple[bytes, bytes]], list[Change]]] = [
        ([(b"a", b"1"), (b"b", b"2")], []),
        ([(b"c", b"3")], [(b"a", b"4")]),
        ([], [(b"b", None)]),
    ]
    with lmdb.open(str(tmp_path), max_dbs=2, map_size=1 << 20) as env:
        rows, meta = env.open_db(b"rows"), env.open_db(b"meta")
        index = Digest(State(0, digest.EMPTY))
        for applied, (new, changed) in enumerate(steps, 1):
            with env.begin(write=True) as txn, txn.cursor(rows) as cursor:
                commit = Commit(txn, cursor, meta, new, changed, applied, NOTHING, None)
                for key, value in [*new, *changed]:
                    if old := cursor.pop(key):
                        commit.replaced.append((key, old))
                    if value is not None:
                        cursor.put(key, value)
                adopt = index.on_commit(commit)
            adopt()
            with env.begin() as txn:
                stored = State.unpack(txn.get(META_STATE, db=meta) or b"")
                found = State(applied, digest.of_rows(txn.cursor(rows)))
            assert stored == index.state == found
