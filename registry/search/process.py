"""The process that builds the index of words and follows: ``python -m registry.search.process FD``.

It gets settings and request through the socket ``FD``, then messages that name subjects that have changed.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from registry.base.processes.child_process import Parent, started_by_parent
from registry.store.layout import StoreError, read_current
from registry.store.reader import StoreReader

from .build import Builder
from .changes import follow
from .index import FORMAT, SearchIndex
from .view import DamagedIndex, Progress, SearchIndexError

# Of 19: less CPU than any process that serves.
NICENESS: Final = 15
# A disk with less free space counts as full.
DISK_BYTES_MIN: Final = 256 << 20
_REPORT_S: Final = 1.0


class WorkRequest(NamedTuple):
    """The request of a node: continue its build, then follow its messages."""

    # The name of the environment of the rows.
    store: str
    # The format of the node's index: the package may have been replaced since the node started.
    format: bytes = b""


def main() -> int:
    """Build the index, then follow, until the parent ends; return the exit code."""
    parent = started_by_parent("search")
    with suppress(OSError):  # sandboxes may refuse
        os.nice(NICENESS)
    try:
        _work(parent, parent.request)
    except (SearchIndexError, StoreError, MemoryError) as error:
        said = str(error) or "there is not enough memory"
        parent.report(error=said, damaged=isinstance(error, DamagedIndex))
        return 1
    return 0


def _work(parent: Parent, wanted: WorkRequest) -> None:
    if wanted.format != FORMAT:
        raise SearchIndexError("another release was installed; restart the registry")
    settings = parent.settings
    folder = settings.data / "store"
    current = read_current(folder)
    if current is None or current.name != wanted.store:
        raise StoreError(f"the store in {folder} was replaced")
    store = StoreReader(folder, settings.store_map_bytes)
    index = SearchIndex(settings.data / "search", settings.store_map_bytes, writable=True)
    index.open()
    progress = _build(parent, index, store)
    parent.report(offset=progress.offset, stale=progress.stale)
    for message in parent.messages():
        _check_room(settings.data)
        owners = [each.encode("latin-1") for each in message["owners"]]
        progress = follow(index, store.view, owners, message["offset"])
        parent.report(offset=progress.offset, stale=progress.stale)
    index.close()


def _build(parent: Parent, index: SearchIndex, store: StoreReader) -> Progress:
    builder, reported = Builder(index, store.view), 0.0
    with index.view() as view:
        assert view is not None
        progress = view.progress()
    if not progress.rows:
        raise DamagedIndex("a reader had found it damaged, so it was removed")
    while not progress.is_built:
        _check_room(parent.settings.data)
        progress = builder.step()
        if progress.is_built or time.monotonic() - reported >= _REPORT_S:
            reported = time.monotonic()
            parent.report(done=progress.done, subjects=progress.subjects)
    return progress


def _check_room(folder: Path) -> None:
    if lacks_room(folder):
        raise SearchIndexError("the disk is nearly full")


def lacks_room(folder: Path) -> bool:
    """Return true if the disk is nearly full."""
    try:
        return shutil.disk_usage(folder).free < DISK_BYTES_MIN
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
