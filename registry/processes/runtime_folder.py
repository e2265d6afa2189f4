"""The temporary folder with the socket of a parent's children.

A killed parent cannot delete its folder, so the next one does. A lock in each folder, which the system
releases with its process, shows whether its parent is still running.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .file_lock import LockHeld, hold

_PREFIX = "registrar-"
_LOCK = "parent.lock"


@contextmanager
def runtime_folder() -> Iterator[Path]:
    """Yield a new folder that only this user can enter; delete it afterwards. Raises :class:`OSError`."""
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder, lock = _new_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _new_folder() -> tuple[Path, int]:
    """Return a new folder and the descriptor of its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Until the lock is held, another parent that starts takes this folder for an abandoned one.
        try:
            lock = hold(folder / _LOCK)
        except (LockHeld, FileNotFoundError):
            continue
        if _is_open(folder / _LOCK, lock):
            return folder, lock
        os.close(lock)


def _is_open(file: Path, fd: int) -> bool:
    """Check that ``fd`` is of the file that has this path now."""
    try:
        return os.path.samestat(file.lstat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _remove_abandoned(parent: Path) -> None:
    """Delete this user's folders in ``parent`` whose process has ended."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            # Do not follow links: in a shared folder, another user may have created them.
            if folder.lstat().st_uid != os.getuid() or not (folder / _LOCK).is_file():
                continue
            lock = hold(folder / _LOCK)
        except (LockHeld, OSError):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
