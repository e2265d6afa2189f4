"""Write the store that an older revision makes of ``records.json``; run with that revision's packages.

    git worktree add ../former REVISION
    PYTHONPATH=../former python tests/former_stores/write.py

Revisions: 1431fce (fold version 1), b841247 (2), 6833f51 (3) and fe8905b (4).
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import lmdb

HERE = Path(__file__).parent


def _first(*names: str) -> Any:
    """Return the first module that this revision has."""
    for name in names:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise SystemExit(f"none of {names} exists")


def main() -> None:
    fold = _first("registry.domain.fold.fold", "registry.domain.fold")
    record = _first("registry.domain.log_format.records", "registry.domain.records").Record
    views = _first("registry.domain.rows.memory_views", "registry.domain.views")
    opening = _first("registry.store.open", "registry.store.opening")
    said = json.loads((HERE / "records.json").read_text())
    for kind, entries in (("plain", said["plain"]), ("full", said["plain"] + said["full"])):
        rows = views.DictView()
        for offset, (key, value) in enumerate(entries):
            raw = None if value is None else value.encode()
            rows.commit(fold.apply(rows, record(offset, 1000 + offset, key.encode(), raw)))
        with tempfile.TemporaryDirectory() as made:
            path = Path(made)
            store, _ = opening.open_store(path / "store", "LOG", len(entries), map_bytes=1 << 20)
            store.commit(list(rows.rows()), len(entries))
            if hasattr(store, "complete"):  # since fold version 4
                store.complete()
            store.close()
            (path / "copy").mkdir()
            with lmdb.open(str(path / "store" / "store-1"), max_dbs=3) as env:
                env.copy(str(path / "copy"), compact=True)
            content = (path / "copy" / "data.mdb").read_bytes()
        name = HERE / f"fold-{fold.FOLD_VERSION}-{kind}.mdb.gz"
        name.write_bytes(gzip.compress(content, 9, mtime=0))
        sys.stdout.write(f"{name.name}: {len(content)} bytes\n")


if __name__ == "__main__":
    main()
