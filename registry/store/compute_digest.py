"""Adding up all rows of a store beside the node that writes it, in a process of its own.

    python -m registry.store.compute_digest FOLDER

Ends with 0 when the rows give the digest that is kept with them, as of one and the same moment; otherwise it
prints what was found and ends with :data:`WRONG`.
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
    """What is wrong with the environment at ``path``; empty when nothing is."""
    with lmdb.open(
        str(path), max_dbs=layout.TABLES, readonly=True, create=False,
        map_size=0, max_readers=layout.READERS_MAX,
    ) as env:  # fmt: skip
        rows, meta = (env.open_db(name, create=False) for name in (layout.ROWS, layout.META))
        # The view lasts for some seconds: what is written meanwhile takes new pages.
        with env.begin(rows) as txn, txn.cursor() as cursor:
            state = State.unpack(txn.get(layout.META_STATE, db=meta) or b"")
            total, each = digest.EMPTY, iter(cursor)
            while some := list(islice(each, _ROWS)):
                total += digest.total(some)
    if total % digest.MODULUS != state.digest:
        return "its rows do not give the digest that was kept with them"
    return ""


def main() -> None:
    """Add up, when nobody else needs the processor."""
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
