"""The process that builds the search index and follows: ``python -m registry.search.process FD``.

It gets settings and request through the socket ``FD``, then messages that name subjects that have changed.
The node's end is :class:`IndexProcess`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import orjson

from registry.base.config.settings import Settings
from registry.base.processes.child_process import Parent, kill_group, start_module, started_by_parent
from registry.store.layout import StoreError, lacks_room, read_current
from registry.store.reader import StoreReader

from .build import Builder
from .changes import follow
from .index import FORMAT, SearchIndex
from .view import DamagedIndex, Progress, SearchIndexError

# Of 19: less CPU than any process that serves.
NICENESS: Final = 15
_REPORT_S: Final = 1.0
# Signals by which reading damaged pages ends a process.
_CRASHES: Final = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT}
# How long reports are waited for; and the end of a process that is killed.
_LISTEN_S, _END_S = 0.2, 2.0
# Of so little priority, it may have no report for minutes. But one that uses no CPU either hangs.
SILENT_MAX_S: Final = 60.0


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


class IndexProcess:
    """The node's end: a process that works on the index of the store ``store``, until the block ends."""

    def __init__(self, settings: Settings, store: str, clock: Callable[[], float]) -> None:
        """Start it. Raises :class:`.view.SearchIndexError`."""
        try:
            self._process, self._line = start_module(
                "registry.search.process", settings, request=WorkRequest(store, FORMAT)
            )
        except OSError as error:
            raise SearchIndexError(f"no process can be started for it: {error}") from error
        self._line.settimeout(_LISTEN_S)
        self._pending = b""
        self._clock = clock
        # When it was last known to work, and the CPU time that it had used by then.
        self._alive_at, self._used = clock(), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        kill_group(self._process, _END_S)
        self._line.close()

    def reports(self) -> list[dict[str, Any]]:
        """Return what it has reported; wait a moment for that.

        Raises :class:`.view.SearchIndexError` if it has failed or ended, or hangs.
        """
        try:
            data = self._line.recv(1 << 16)
        except TimeoutError:
            self._check_alive()
            return []
        except OSError:
            data = b""
        if not data:
            raise _how_ended(self._process)
        self._alive_at = self._clock()
        *lines, self._pending = (self._pending + data).split(b"\n")
        reports: list[dict[str, Any]] = [*map(orjson.loads, lines)]
        for each in reports:
            if "error" in each:
                raise (DamagedIndex if each["damaged"] else SearchIndexError)(each["error"])
        return reports

    def send(self, owners: Iterable[bytes], offset: int) -> None:
        """Name the packed subjects that have changed before an offset."""
        message = {"owners": [each.decode("latin-1") for each in owners], "offset": offset}
        with suppress(OSError):  # it has ended, as the next look shows
            self._line.sendall(orjson.dumps(message) + b"\n")
        self._alive_at = self._clock()

    def _check_alive(self) -> None:
        now, used = self._clock(), _ticks_used(self._process.pid)
        if used is None or used != self._used:
            self._alive_at, self._used = now, used or 0
        elif now - self._alive_at > SILENT_MAX_S:
            raise SearchIndexError(
                "the process that fills it hangs: it is stopped, or its disk does not answer"
            )


def _ticks_used(process: int) -> int | None:
    """Return the CPU time that a process has used, in ticks; ``None`` if that is not known here."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return None


def _how_ended(process: subprocess.Popen[bytes]) -> SearchIndexError:
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
    code = process.returncode
    how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    kind = DamagedIndex if code is not None and -code in _CRASHES else SearchIndexError
    return kind(f"the process that fills it ended ({how})")


if __name__ == "__main__":
    sys.exit(main())
