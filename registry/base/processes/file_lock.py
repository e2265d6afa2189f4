"""Lock files, and writing files so that they survive a power failure."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class LockHeld(Exception):
    """Another process holds the lock; the text is its id."""


def hold(file: Path) -> int:
    """Hold the lock ``file`` until the process ends or the returned descriptor is closed.

    Raises :class:`LockHeld`, and :class:`OSError` if the file cannot be created.
    """
    fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        pid = os.read(fd, 32).decode(errors="replace").strip()
        os.close(fd)
        raise LockHeld(pid or "unknown") from error
    os.truncate(fd, 0)
    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd


def holder(file: Path) -> str | None:
    """Return the id of the process that holds the lock ``file``, or ``None``. Raises :class:`OSError`."""
    fd = os.open(file, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(fd, 32).decode(errors="replace").strip() or "unknown"
    finally:
        os.close(fd)
    return None


def replace(file: Path, data: bytes, new: Path) -> None:
    """Replace the content of ``file`` atomically and durably; only this user can read it.

    ``new`` is the temporary file, in the same folder. Raises :class:`OSError`.
    """
    try:
        with open(new, "wb", opener=_private) as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        new.rename(file)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync(file.parent)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def sync(folder: Path) -> None:
    """Sync the entries of ``folder`` to disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
