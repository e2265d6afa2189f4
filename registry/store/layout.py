"""How a store lies on disk.

The store's folder has one environment, ``store-N``, and the small file ``current`` that names it and the log
it was made from; ``current`` is swapped by rename. An environment has two tables: ``rows`` with the rows and
nothing else, and ``meta``:

============ ========================================================
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from registry.processes import file_lock

FORMAT = b"registrar-store 1"
ROWS, META = b"rows", b"meta"
TABLES = 2
READERS_MAX = 1024
MAP_BYTES = 64 << 30
META_FORMAT, META_FOLD, META_LOG = b"format", b"fold", b"log"
META_BOOT, META_CLEAN, META_STATE, META_AT_END = b"boot", b"clean", b"state", b"at_end"
META_LOADED, META_REVISION = b"loaded", b"revision"
META_LINEAGE = b"line"
META_COUNTED = b"counted"
CURRENT = "current"
PREFIX = "store-"
ASIDE = ".damaged"
CONDEMNED = "condemned"
"""A file in an environment's folder that says why its rows are wrong: no look at the start would find it."""

_STATE = struct.Struct(">Q16s")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class StoreError(Exception):
    """The store could not do what was asked; its rows are as before."""


class DamagedStore(StoreError):
    """The store's rows are not what was written; it has to be made again from the log."""


class StoreMissing(StoreError):
    """There is no store yet."""


class State(NamedTuple):
    """What a store's rows stand for."""

    applied: int
    """Offset of the next record to apply: the rows are the fold of all before it."""
    digest: int
    """Order-free sum of all rows' hashes, modulo 2**128."""

    def pack(self) -> bytes:
        """The row's value."""
        raw = _STATE.pack(self.applied, self.digest.to_bytes(16, "big"))
        return raw + crc32(raw).to_bytes(4, "big")

    @classmethod
    def unpack(cls, raw: bytes) -> State:
        """The state in ``raw``; :class:`ValueError` when it is damaged."""
        if len(raw) != _STATE.size + 4 or crc32(raw[:-4]) != int.from_bytes(raw[-4:], "big"):
            raise ValueError("the state row is damaged")
        applied, digest = _STATE.unpack_from(raw)
        return cls(applied, int.from_bytes(digest, "big"))


def applied_of(raw: bytes) -> int:
    """The applied offset in the row of a :class:`State`, without looking at the rest."""
    return int.from_bytes(raw[:8], "big")


class Current(NamedTuple):
    """The content of file ``current``."""

    name: str
    log: str
    """Identity of the log."""


def read_current(path: Path) -> Current | None:
    """The environment that file ``current`` in the store's folder names."""
    try:
        name, log = (path / CURRENT).read_text().split()
    except (OSError, ValueError):
        return None
    return Current(name, log) if name.startswith(PREFIX) and "/" not in name else None


def write_current(path: Path, current: Current) -> None:
    """Swap file ``current``; on disk when this returns."""
    new = path / (CURRENT + ".new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, f"{current.name} {current.log}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    new.rename(path / CURRENT)
    file_lock.sync(path)


def boot_id() -> bytes:
    """Names this boot of the machine; empty where the system does not say, which is never the same boot."""
    try:
        return _BOOT_ID.read_bytes().strip()
    except OSError:
        return b""
