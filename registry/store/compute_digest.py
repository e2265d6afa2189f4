"""Verification of a store's digest in a separate process, while the node writes to the store.

    python -m registry.store.compute_digest FOLDER

Exit status: 0 if the rows match the stored digest, in one consistent view; otherwise prints the finding and
exits with :data:`WRONG`.
"""

from __future__ import annotations

import gc
import os
import sys
from itertools import islice
from pathlib import Path

import lmdb

from registry.domain.rows import digest

from . import layout
from .layout import State

WRONG = 4
_ROWS = 4096
_LAST_NICE = 19


def wrong(path: Path) -> str:
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
            while some := list(islice(each, _ROWS)):
                total += digest.total(some)
    if total % digest.MODULUS != state.digest:
        return "its rows do not match the stored digest"
    return ""


def main() -> None:
    """Compute the digest at the lowest priority."""
    os.nice(_LAST_NICE)
    gc.disable()
    try:
        found = wrong(Path(sys.argv[1]))
    except (lmdb.Error, ValueError) as error:
        found = f"its rows cannot be read: {error}"
    if found:
        sys.stdout.write(found)
        sys.exit(WRONG)


if __name__ == "__main__":
    main()
