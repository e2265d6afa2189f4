"""Holding a store's folder, so that one process alone writes there."""

from __future__ import annotations

from pathlib import Path

from registry.processes import file_lock

from .layout import StoreError


def hold(path: Path) -> int:
    """Hold the store in the folder ``path`` until the descriptor that is returned is closed.

    Raises :class:`StoreError` when another process does, or the folder cannot be used.
    """
    try:
        return file_lock.hold(path / "lock")
    except file_lock.LockHeld as held:
        raise StoreError(
            f"the store in {path} is open for writing by process {held}: "
            "give each node a folder of its own (data)"
        ) from held
    except OSError as error:
        raise StoreError(f"the store in {path} cannot be held: {error}") from error
