"""Folders beside the data for what is made on the way and thrown away."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from registry import folders

from .task import BuildFailed


class Busy(BuildFailed):
    """Another process is at the same work beside the same data; the text says which."""


@contextmanager
def workspace(data: Path, name: str) -> Iterator[Path]:
    """The folder ``name`` in the data folder, for one process at a time and empty; a killed one's is removed.

    Raises :class:`Busy`.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        lock = folders.hold(data / f"{name}.lock")
    except folders.Held as held:
        raise Busy(
            f"process {held} is {name} a snapshot in {data}: name another folder (data), or wait"
        ) from held
    folder = data / name
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
