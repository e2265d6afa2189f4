"""Temporary folders in the data folder."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from registry.processes import file_lock

from .task import BuildFailed

_LOOK_S = 0.2
_log = logging.getLogger(__name__)


class WorkspaceBusy(BuildFailed):
    """Another process uses the same workspace of the same data folder; the text says which."""


@contextmanager
def workspace(data: Path, name: str, *, wait: bool = False) -> Iterator[Path]:
    """Yield the empty folder ``name`` in the data folder, for one process at a time.

    Waits for another process that holds it, or, without ``wait``, raises :class:`WorkspaceBusy`. What a
    killed process left in it is deleted.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = _hold(data, name, wait=wait)
    folder = data / name
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _hold(data: Path, name: str, *, wait: bool) -> int:
    reported = ""
    while True:
        try:
            return file_lock.hold(data / f"{name}.lock")
        except file_lock.LockHeld as held:
            if not wait:
                raise WorkspaceBusy(
                    f"process {held} is {name} a snapshot in {data}: choose another --data folder, or wait"
                ) from held
            if str(held) != reported:
                reported = str(held)
                _log.info("waiting for process %s, which is %s a snapshot in %s", held, name, data)
        time.sleep(_LOOK_S)
