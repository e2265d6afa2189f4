"""Folders beside the data for what is made on the way and thrown away."""

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


class Busy(BuildFailed):
    """Another process is at the same work beside the same data; the text says which."""


@contextmanager
def workspace(data: Path, name: str, *, wait: bool = False) -> Iterator[Path]:
    """The folder ``name`` in the data folder, for one process at a time and empty; a killed one's is removed.

    Another process that has it is waited for, or, without ``wait``, raises :class:`Busy`.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = _held(data, name, wait=wait)
    folder = data / name
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _held(data: Path, name: str, *, wait: bool) -> int:
    told = ""
    while True:
        try:
            return file_lock.hold(data / f"{name}.lock")
        except file_lock.Held as held:
            if not wait:
                raise Busy(
                    f"process {held} is {name} a snapshot in {data}: name another folder (data), or wait"
                ) from held
            if str(held) != told:
                told = str(held)
                _log.info("waiting for process %s, which is %s a snapshot in %s", held, name, data)
        time.sleep(_LOOK_S)
