"""The folder of an embedded log: its lock, its creation, and opening its environment."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import lmdb

from registry.base.processes import file_lock
from registry.log.contract import LogError

from . import format as layout


class Tables(NamedTuple):
    """The tables of a log."""

    records: Any
    keys: Any
    graves: Any
    meta: Any
    principals: Any


_NAMES = Tables(layout.RECORDS, layout.KEYS, layout.GRAVES, layout.META, layout.PRINCIPALS)


def is_absent(path: Path) -> bool:
    """Return True if the folder is missing or empty."""
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def lock(path: Path) -> int:
    """Hold the lock file next to the folder until the returned descriptor is closed."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return file_lock.hold(path.with_name(path.name + ".lock"))
    except file_lock.LockHeld as held:
        raise LogError(
            f"the log in {path} is open for writing by process {held}: give each node its own folder (data)"
        ) from held


def create(path: Path, map_bytes: int) -> None:
    """Create an empty log with a new identity.

    The folder gets its name when it is complete, so a log without meta rows is damaged, never half created.
    """
    new = path.with_name(path.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        env = lmdb.open(str(new), map_size=map_bytes, max_dbs=layout.TABLES, mode=0o700)
        tables = Tables(*map(env.open_db, _NAMES))
        with env.begin(tables.meta, write=True) as txn:
            txn.put(layout.META_FORMAT, layout.FORMAT)
            txn.put(layout.META_IDENTITY, secrets.token_hex(16).encode())
            txn.put(layout.META_STATE, layout.State(0, 0, 0).pack())
        env.close()
        new.rename(path)
        file_lock.sync(path.parent)
    except (lmdb.Error, OSError) as error:
        raise LogError(f"cannot create a log in {path}: {error}") from error


def open_log(path: Path, map_bytes: int) -> tuple[lmdb.Environment, Tables]:
    """Open the environment and its tables; a log of an earlier version gets the one that it lacks."""
    try:
        env = lmdb.open(
            str(path), map_size=map_bytes, max_dbs=layout.TABLES, mode=0o700, max_spare_txns=1, create=False
        )
        return env, Tables(*(env.open_db(each, create=each == layout.PRINCIPALS) for each in _NAMES))
    except lmdb.Error as error:
        raise LogError(f"the log in {path} cannot be opened: {error}") from error
