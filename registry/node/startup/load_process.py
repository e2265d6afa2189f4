"""The process that takes a snapshot for its node: what it needs for that is gone again when it ends.

It is given :class:`Given` on standard input, whose end is its own, and tells what it does in lines of JSON.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
from contextlib import closing
from importlib import import_module
from typing import Any, NamedTuple, cast

import orjson

from registry.config.settings import Settings
from registry.store.layout import StoreError
from snapshots.catalogue.open import open_catalogue
from snapshots.format.manifest import Manifest
from snapshots.loading.load_newest import LoadRequest, load_newest

LENGTH_BYTES = 4


class Given(NamedTuple):
    """What the process is to do."""

    settings: Settings
    wanted: LoadRequest


class _Telling:
    """The node hears of each step in one line."""

    def __init__(self) -> None:
        # What libraries print is not for the node: it goes where errors go.
        self._out = os.dup(1)
        os.dup2(2, 1)

    def tell(self, **fact: Any) -> None:
        """One line."""
        os.write(self._out, orjson.dumps(fact) + b"\n")

    def on_message(self, sentence: str) -> None:
        self.tell(said=sentence)

    def on_chosen(self, manifest: Manifest) -> None:
        self.tell(
            chosen=manifest.id, offset=manifest.offset, rows=manifest.rows, size=manifest.size,
            lineage=manifest.lineage.pack().hex(),
        )  # fmt: skip

    def on_step(self, step: str, rows: int, size: int) -> None:
        self.tell(step=step, rows=rows, size=size)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> None:
    """Take what is wanted, if there is such a snapshot; the last line says which."""
    # Its node says when it is to end, whatever a service manager tells all processes.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    telling = _Telling()
    # Arrow takes numpy along where it finds it: half of the time, for nothing that is needed here.
    sys.modules["numpy"] = cast("Any", None)
    # Mostly needed, and some work: what to do, or the catalogue, may have to be waited for meanwhile.
    threading.Thread(target=import_module, args=("pyarrow",), name="import", daemon=True).start()
    length = int.from_bytes(sys.stdin.buffer.read(LENGTH_BYTES), "big")
    if not length:
        os._exit(0)
    given: Given = pickle.loads(sys.stdin.buffer.read(length))  # noqa: S301 (from our own parent)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    # A third of the time would go into looking for cycles in rows, which have none.
    gc.disable()
    try:
        with closing(open_catalogue(given.settings)) as catalogue:
            taken = load_newest(catalogue, given.settings.snapshots_location, given.wanted, telling)
    except StoreError as error:
        telling.tell(said=f"No snapshot can be loaded: {error}", taken="")
    else:
        telling.tell(taken=taken.id if taken else "")
    # Libraries for places far away may have threads that take their time.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
