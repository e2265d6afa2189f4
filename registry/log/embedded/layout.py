"""The layout of the embedded log in its LMDB environment, and the folder that holds it.

========== ==================== =============================================================
table      key                  value
========== ==================== =============================================================
records    offset               header (checksum, time, key length, tombstone?), key, value
principals offset               checksum, principal; only of records that have one
keys       hash(record key)     offset of the key's last record, as far as compaction has examined
graves     offset               hash(record key) of a tombstone that compaction still has to delete
meta       ``format`` …         format, identity, the state (end, count, cleaned), and ``room``:
                                filler, written and deleted to test if a full disk has room again
========== ==================== =============================================================

Numbers in keys are eight bytes, big-endian. LMDB has no page checksums, so every record carries its own. It
covers the offset, so that a record under a wrong offset is detected, too. ``cleaned`` is the offset up to
which compaction has examined records: from there on offsets have no holes. Principals are in a table of their
own, which earlier versions do not open: they can still read and write the log.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import struct
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import lmdb

from registry.base.processes import file_lock
from registry.domain.log_format.records import Entry, Record
from registry.log.contract import LogError

FORMAT = b"registrar-log 1"
RECORDS, KEYS, GRAVES, META, PRINCIPALS = b"records", b"keys", b"graves", b"meta", b"principals"
TABLES = 5
META_FORMAT, META_IDENTITY, META_STATE, META_ROOM = b"format", b"identity", b"state", b"room"

_HEAD = struct.Struct(">IqI")
_HEAD_BYTES = _HEAD.size
_REST = struct.Struct(">qI")
_TOMBSTONE = 1 << 31
_STATE = struct.Struct(">QQQ")
_OFFSET = struct.Struct(">Q")

pack_offset = _OFFSET.pack


class BadRecord(Exception):
    """A record's bytes are corrupt."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class LogState(NamedTuple):
    """The log's bounds, written with every change."""

    # The offset of the next record.
    end: int
    # The number of records.
    records: int
    # Compaction has examined all records below; only there may offsets have holes.
    cleaned: int

    def pack(self) -> bytes:
        """Return the meta row's value."""
        raw = _STATE.pack(*self)
        return raw + crc32(raw).to_bytes(4, "big")

    @classmethod
    def unpack(cls, raw: bytes) -> LogState:
        """Read the meta row's value. Raises :class:`ValueError` if it is damaged."""
        if len(raw) != _STATE.size + 4 or crc32(raw[:-4]) != int.from_bytes(raw[-4:], "big"):
            raise ValueError("the state row is damaged")
        state = cls(*_STATE.unpack_from(raw))
        if not state.cleaned <= state.end or not state.records <= state.end:
            raise ValueError(f"the state row contradicts itself: {state}")
        return state


def unpack_offset(raw: bytes) -> int:
    """Return the offset in a key of the table records."""
    return int.from_bytes(raw, "big")


def pack(raw_offset: bytes, ts: int, entry: Entry) -> bytes:
    """Return the value of a row of the table records; ``ts`` is in ms since the epoch."""
    key, value, _ = entry
    size = len(key) | (_TOMBSTONE if value is None else 0)
    body = b"".join((_REST.pack(ts, size), key, value or b""))
    return crc32(body, crc32(raw_offset)).to_bytes(4, "big") + body


def unpack(raw_offset: bytes, raw: bytes) -> Record:
    """Return the record of a row. Raises :class:`BadRecord` if its checksum is wrong."""
    offset = int.from_bytes(raw_offset, "big")
    if len(raw) < _HEAD_BYTES or len(raw_offset) != 8:
        raise BadRecord(offset)
    checksum, ts, size = _HEAD.unpack_from(raw)
    if crc32(raw[4:], crc32(raw_offset)) != checksum:
        raise BadRecord(offset)
    if size & _TOMBSTONE:
        return Record(offset, ts, raw[_HEAD_BYTES:], None)
    cut = _HEAD_BYTES + size
    return Record(offset, ts, raw[_HEAD_BYTES:cut], raw[cut:])


def pack_principal(raw_offset: bytes, principal: bytes) -> bytes:
    """Return the value of a row of the table principals."""
    return crc32(principal, crc32(raw_offset)).to_bytes(4, "big") + principal


def unpack_principal(raw_offset: bytes, raw: bytes) -> bytes:
    """Return the principal of a row; empty if its checksum is wrong."""
    return raw[4:] if pack_principal(raw_offset, raw[4:]) == raw else b""


def key_hash(key: bytes) -> bytes:
    """Return the hash of ``key`` for the table keys, because LMDB's keys are limited in length."""
    return hashlib.blake2b(key, digest_size=16).digest()


class Tables(NamedTuple):
    """The tables of a log."""

    records: Any
    keys: Any
    graves: Any
    meta: Any
    principals: Any


_NAMES = Tables(RECORDS, KEYS, GRAVES, META, PRINCIPALS)


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
        env = lmdb.open(str(new), map_size=map_bytes, max_dbs=TABLES, mode=0o700)
        tables = Tables(*map(env.open_db, _NAMES))
        with env.begin(tables.meta, write=True) as txn:
            txn.put(META_FORMAT, FORMAT)
            txn.put(META_IDENTITY, secrets.token_hex(16).encode())
            txn.put(META_STATE, LogState(0, 0, 0).pack())
        env.close()
        new.rename(path)
        file_lock.sync(path.parent)
    except (lmdb.Error, OSError) as error:
        raise LogError(f"cannot create a log in {path}: {error}") from error


def open_log(path: Path, map_bytes: int) -> tuple[lmdb.Environment, Tables]:
    """Open the environment and its tables; a log of an earlier version gets the one that it lacks."""
    try:
        env = lmdb.open(
            str(path), map_size=map_bytes, max_dbs=TABLES, mode=0o700, max_spare_txns=1, create=False
        )
        return env, Tables(*(env.open_db(each, create=each == PRINCIPALS) for each in _NAMES))
    except lmdb.Error as error:
        raise LogError(f"the log in {path} cannot be opened: {error}") from error
