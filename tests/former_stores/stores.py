"""Stores of former releases, as files: the folds of ``records.json`` by those releases (``write.py``).

``plain`` logs hold nothing that later releases keep further rows for; ``full`` ones do.
"""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import lmdb

from registry.domain.log_format.records import Entry
from registry.store import layout
from registry.store.layout import Current, write_current

HERE = Path(__file__).parent
FOLDS = (1, 2, 3, 4)
KINDS = ("plain", "full")


def entries(kind: str) -> list[Entry]:
    """Return the records of the log that the stores were built from, in their order."""
    said = json.loads((HERE / "records.json").read_text())
    pairs = said["plain"] + (said["full"] if kind == "full" else [])
    return [Entry(key.encode(), None if value is None else value.encode()) for key, value in pairs]


def place(path: Path, fold: int, kind: str, log: str = "LOG", *, name: str = "store-1") -> Path:
    """Make the store of a release the current one in folder ``path``, as if built from ``log`` just now."""
    folder = path / name
    folder.mkdir(parents=True)
    packed = (HERE / f"fold-{fold}-{kind}.mdb.gz").read_bytes()
    (folder / "data.mdb").write_bytes(gzip.decompress(packed))
    write_meta(folder, {layout.META_LOG: log.encode(), layout.META_AT_END: b"%d" % (time.time_ns() // 10**6)})
    write_current(path, Current(name, log))
    return folder


def write_meta(folder: Path, rows: dict[bytes, bytes]) -> None:
    """Change meta rows of an environment that nobody has open."""
    with lmdb.open(str(folder), max_dbs=layout.TABLES, map_size=64 << 20) as env:
        table = env.open_db(layout.META, create=False)
        with env.begin(table, write=True) as txn:
            for key, value in rows.items():
                txn.put(key, value)
    (folder / "lock.mdb").unlink()
