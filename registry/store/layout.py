"""The layout of a store on disk.

The store's folder has these entries; the small files are replaced by rename:

===================== ===========================================================================
``store-N``           an environment: the rows and their position in the log
``current``           names the environment that is served, and the log it was built from
``next``              the same for one that takes its place once the log was read to its end
``store-N.new``       an environment that is being created; a start removes it
``store-N.damaged``   set aside, because it is damaged
``store-N.other-log`` set aside, because it holds what the present log may lack
``store-N.outdated``  set aside until its rows have been read from the log again
``lock``              locked by the process that writes
===================== ===========================================================================

An environment has three tables: ``rows``, which contains only the rows, ``history`` (:mod:`.indexes`), and
``meta`` with these rows besides counts (blocks of versions, and :mod:`.id_counts`):

============ ===================================================================================
``format``   :data:`FORMAT`
``fold``     version of the fold that produced the rows
``log``      identity of the log
``state``    applied offset and digest, see :class:`State`
``line``     lineage of the log up to there
``mismatch`` what was found if the log is not the one of the rows
``at_end``   when the rows were last at the log's end, in ms since the epoch
``built``    ``0`` until the log was read up to its end for the first time, then ``1``; missing in
             stores of older releases
``boot``     id of the machine's boot in which the environment was last opened for writing
``clean``    ``1`` if it was closed after that
``loaded``   id of the snapshot whose digest is not verified yet
``revision`` changes when rows change that lists cache
``history``  spans of the log that the history holds
============ ===================================================================================

Each block is :data:`PREFIX` and the key at which the block begins, then its counts, or nothing while it is
not counted; it ends where the next one begins. :data:`.layout.META_COUNTED` holds the offset that the counts
stand for.
"""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import lmdb

from registry.base.processes import file_lock
from registry.domain.rows.layout import VERSION, after, is_version_key
from registry.domain.rows.view import Block, Counts

FORMAT = b"registrar-store 1"
ROWS, META, HISTORY = b"rows", b"meta", b"history"
TABLES = 3
READERS_MAX = 1024
MAP_BYTES = 64 << 30
# The number of records from which other ways of applying them pay off than record by record.
FAR_BEHIND = 50_000
# A disk with less free space counts as full.
DISK_BYTES_MIN = 256 << 20
META_FORMAT, META_FOLD, META_LOG = b"format", b"fold", b"log"
META_BOOT, META_CLEAN, META_STATE, META_AT_END = b"boot", b"clean", b"state", b"at_end"
META_LOADED, META_REVISION = b"loaded", b"revision"
META_LINEAGE = b"line"
META_MISMATCH = b"mismatch"
META_HISTORY = b"history"
META_COUNTED = b"counts"
META_BUILT = b"built"
CURRENT, NEXT = "current", "next"
PREFIX = "store-"
# How the names of environments end that are being created.
NEW = ".new"
# How the names of stores end that were set aside: damaged; of another log than the present one, which may
# lack what they hold; and such as are only kept until the rows have been rebuilt.
DAMAGED, OTHER_LOG, OUTDATED = ".damaged", ".other-log", ".outdated"
ASIDE = (DAMAGED, OTHER_LOG, OUTDATED)
# A file in an environment's folder that says why its rows are wrong, if no check at the start would find
# that.
CONDEMNED = "condemned"

_STATE = struct.Struct(">Q16s")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class StoreError(Exception):
    """The operation failed; the store's rows are unchanged."""


class DamagedStore(StoreError):
    """The store's rows are corrupt; it must be rebuilt from the log."""


class StoreClosed(StoreError):
    """The store was closed by this process, which is about to end: the caller ends, too."""


class StoreMissing(StoreError):
    """The store does not exist yet."""


class State(NamedTuple):
    """The position and digest of a store's rows."""

    # Offset of the next record to apply: the rows are the fold of all records before it.
    applied: int
    # Sum of all rows' hashes, modulo 2**128; independent of their order.
    digest: int

    def pack(self) -> bytes:
        """Return the meta row's value."""
        raw = _STATE.pack(self.applied, self.digest.to_bytes(16, "big"))
        return raw + crc32(raw).to_bytes(4, "big")

    @classmethod
    def unpack(cls, raw: bytes) -> State:
        """Read the meta row's value. Raises :class:`ValueError` if it is damaged."""
        if len(raw) != _STATE.size + 4 or crc32(raw[:-4]) != int.from_bytes(raw[-4:], "big"):
            raise ValueError("the state row is damaged")
        applied, digest = _STATE.unpack_from(raw)
        return cls(applied, int.from_bytes(digest, "big"))


def applied_of(raw: bytes) -> int:
    """Return the applied offset in the row of a :class:`State`, without checking the rest."""
    return int.from_bytes(raw[:8], "big")


class Current(NamedTuple):
    """The content of the file ``current`` or ``next``."""

    name: str
    # Identity of the log.
    log: str


def read_current(path: Path, file: str = CURRENT) -> Current | None:
    """Return the environment that the file ``current`` or ``next`` names; ``None`` if there is none."""
    try:
        name, log = (path / file).read_text().split()
    except (OSError, ValueError):
        return None
    return Current(name, log) if name.startswith(PREFIX) and "/" not in name else None


def write_current(path: Path, current: Current, file: str = CURRENT) -> None:
    """Replace the file ``current`` or ``next`` durably."""
    new = path / (file + NEW)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, f"{current.name} {current.log}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    new.rename(path / file)
    file_lock.sync(path)


def boot_id() -> bytes:
    """Return the id of this boot of the machine; empty if the system has none, which never equals another."""
    try:
        return _BOOT_ID.read_bytes().strip()
    except OSError:
        return b""


def lacks_room(folder: Path) -> bool:
    """Return true if the disk is nearly full."""
    try:
        return shutil.disk_usage(folder).free < DISK_BYTES_MIN
    except OSError:
        return False


def hold(path: Path) -> int:
    """Lock the store in the folder ``path`` until the returned descriptor is closed.

    Raises :class:`StoreError` if another process holds it or the folder cannot be used.
    """
    try:
        return file_lock.hold(path / "lock")
    except file_lock.LockHeld as held:
        raise StoreError(
            f"the store in {path} is open for writing by process {held}: give each node its own folder (data)"
        ) from held
    except OSError as error:
        raise StoreError(f"cannot lock the store in {path}: {error}") from error


BLOCKS_PREFIX = b"#"
END = after(VERSION)
BLOCK = 1024  # rows in a block at first; it is split above twice as many, and merged below half
UNCOUNTED = b""

COUNTS = struct.Struct(">5I")

Touched = tuple[bytes, bytes | None, bytes | None]  # a version row's key, its value before and after a commit


class Range(NamedTuple):
    """A block, counted or not."""

    begin: bytes
    end: bytes
    counts: Counts | None

    @property
    def part(self) -> bool:
        """True if the rows are a part of one group."""
        return is_version_key(self.begin) or is_version_key(self.end)


def range_at(cursor: lmdb.Cursor[bytes], key: bytes) -> Range | None:
    """Return the block that holds the key; ``cursor`` is one over the meta rows."""
    wanted = BLOCKS_PREFIX + key
    found = cursor.set_range(wanted)
    if not (found and cursor.key() == wanted) and not (cursor.prev() if found else cursor.last()):
        return None
    begin, raw = cursor.item()
    if not begin.startswith(BLOCKS_PREFIX):
        return None
    following = cursor.next() and cursor.key().startswith(BLOCKS_PREFIX)
    counts = Counts(*COUNTS.unpack(raw)) if raw else None
    return Range(begin[1:], cursor.key()[1:] if following else END, counts)


def block_at(cursor: lmdb.Cursor[bytes], key: bytes) -> Block | None:
    """Return the block that holds the key, if it is counted."""
    found = range_at(cursor, key)
    return None if found is None or found.counts is None else Block(found.begin, found.end, found.counts)


def are_valid(txn: lmdb.Transaction[bytes], meta: Any) -> bool:
    """Return true unless the store has no counts, or a release without counts has changed the rows since."""
    applied = (txn.get(META_STATE, db=meta) or b"")[:8]
    return applied != b"" and txn.get(META_COUNTED, db=meta) == applied
