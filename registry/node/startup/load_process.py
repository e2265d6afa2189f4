"""Process that loads a snapshot for its node and frees the libraries and memory needed for that when it ends.

It receives :class:`LoadInput` on standard input, ends when that is closed, and reports each step as a line of
JSON.
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

from registry.base.config.settings import Settings
from registry.base.processes.child_process import keep_freed_memory
from registry.store.layout import StoreError
from snapshots.catalogue.open import open_catalogue
from snapshots.format.manifest import Manifest
from snapshots.format.parts import BATCH_BYTES
from snapshots.loading.load_newest import LoadRequest, load_newest

LENGTH_BYTES = 4
# By which most batches exceed their bound.
_ROW_BYTES = 64 << 10


class LoadInput(NamedTuple):
    """Input of the process."""

    settings: Settings
    wanted: LoadRequest


class _Reporter:
    """Reporter of steps to the node, as one line of JSON each."""

    def __init__(self) -> None:
        # Redirect the output of libraries to standard error; the node must not receive it.
        self._out = os.dup(1)
        os.dup2(2, 1)

    def report(self, **fact: Any) -> None:
        """Write one line."""
        os.write(self._out, orjson.dumps(fact) + b"\n")

    def on_message(self, sentence: str) -> None:
        self.report(message=sentence)

    def on_waiting(self, sentence: str) -> None:
        self.report(waiting=sentence)

    def on_chosen(self, manifest: Manifest) -> None:
        self.report(
            chosen=manifest.id, offset=manifest.offset, rows=manifest.rows, size=manifest.size,
            lineage=manifest.lineage.pack().hex(),
        )  # fmt: skip

    def on_step(self, step: str, rows: int, size: int) -> None:
        self.report(step=step, rows=rows, size=size)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> None:
    """Load the newest suitable snapshot, if any; report its id, or an empty one, in the last line."""
    # The node ends this process; ignore the signal that a service manager sends to all processes.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    reporter = _Reporter()
    # Arrow's own allocators do not return freed memory to the system.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Arrow imports numpy if it is installed, which takes half of the time and is not needed here.
    sys.modules["numpy"] = cast("Any", None)
    # Each batch needs as much as the one before. A part may be larger, and what it leaves fits nothing else.
    # With a heap for each thread, more would be kept.
    keep_freed_memory(keep=True, block_bytes=BATCH_BYTES + _ROW_BYTES, heaps=1)
    # Usually needed and slow to import, so start now: the input and the catalogue may take a while as well.
    threading.Thread(target=import_module, args=("pyarrow.compute",), name="import", daemon=True).start()
    length = int.from_bytes(sys.stdin.buffer.read(LENGTH_BYTES), "big")
    if not length:
        os._exit(0)
    load: LoadInput = pickle.loads(sys.stdin.buffer.read(length))  # noqa: S301 (from our own parent)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    # Searching the rows for reference cycles, of which there are none, would take a third of the time.
    gc.disable()
    try:
        with closing(open_catalogue(load.settings)) as catalogue:
            taken = load_newest(catalogue, load.settings.snapshots_location, load.wanted, reporter)
    except StoreError as error:
        reporter.report(message=f"No snapshot can be loaded: {error}", taken="")
    else:
        reporter.report(taken=taken.id if taken else "")
    # Exit without waiting for threads of libraries for remote storage.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
