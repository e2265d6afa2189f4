"""The catalogue: the snapshots that exist, were requested or are being built, as all hosts see them.

A host's name and a process id are not enough: every container has a process 1 and may have any name, and ids
are reused. So a name also holds the kernel's boot id, the process' id namespace, and its start time.

An entry goes ``requested → building → ready``; a failed build makes it ``failed``, from where it may be
retried, and ``deleting`` ends it. Several processes write at once without locks: their writes have one
order, and every reader drops an entry that may not follow the current one (:func:`follows`). So if two
builders take one request, all readers see the same winner, and a builder taken for dead is ignored.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from registry.domain.rows import digest
from registry.domain.rows.layout import VERSION
from snapshots.format.manifest import Manifest

_PROC = Path("/proc")
# States of processes that have ended but have not been waited for.
_ENDED = ("Z", "X")


def builder_name(pid: int) -> str:
    """Return the name of a process of this host, which must not have been waited for."""
    return f"{_host()}/{_start_time(pid) or ''}:{pid}"


def has_ended(builder: str) -> bool:
    """Return whether this names a process of this host that has ended.

    False for processes of other hosts, even with this host's name, and for those before this machine's boot:
    nothing is known about them, but their heartbeats stop.
    """
    host, _, process = builder.rpartition("/")
    started, _, pid = process.partition(":")
    if not (started.isdecimal() and pid.isdecimal()) or host != _host():
        return False
    found = _start_time(int(pid))
    return not _exists(int(pid)) if found is None else found != started


def _host() -> str:
    """Return the host, its kernel's boot id, and its process id namespace."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()[:8]
        space = (_PROC / "self/ns/pid").stat().st_ino
    except OSError:  # another system: then ended processes are not recognized
        boot, space = "", 0
    return f"{socket.gethostname()}/{boot}.{space}"


def _start_time(pid: int) -> str | None:
    """Return when a process was started, in clock ticks since boot.

    Empty if it has ended, ``None`` if it is not visible.
    """
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] in _ENDED else fields[19]


def _exists(pid: int) -> bool:
    """Return whether a process exists, including invisible ones of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


State = Literal["requested", "building", "ready", "failed", "deleting"]

# Longest interval between two heartbeats of a builder, and the shortest: one is sent early if the build has
# got further by a percent or has begun another step, so a step adds at most a hundred.
HEARTBEAT_S, PROGRESS_S = 10.0, 2.0
# A builder without a heartbeat for longer is taken for dead, and its build is free again.
SILENT_MS = 60_000
# A heartbeat that is further in the future does not count: a clock may have been set back since.
AHEAD_MS = 600_000
# Automatic builds of one request; a build that a user requests by id is not counted against it.
ATTEMPTS_MAX = 3

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


class CatalogueError(Exception):
    """The catalogue cannot be read or written now; the text says why."""


class BuildProgress(msgspec.Struct, frozen=True):
    """The progress of a build: ``done`` of ``total`` in its present step, in units that the step chooses."""

    step: str
    done: int
    total: int

    @property
    def percent(self) -> int:
        """The part of the step that is done."""
        return min(100, max(0, 100 * self.done // max(1, self.total)))


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot in the catalogue. Times are ms since the epoch; fields not known yet are empty or 0."""

    id: str
    state: State
    # Identity of the log.
    log: str
    # The snapshot is the fold of all records before this offset.
    offset: int
    # The location; the snapshot is the folder ``id`` in it.
    uri: str
    requested_ms: int
    # When this was written; a builder renews it as its heartbeat.
    updated_ms: int
    # The process that builds it, or has built it.
    builder: str = ""
    # Number of builds begun.
    attempts: int = 0
    # Why the last build failed.
    reason: str = ""
    engine: str = ""
    # While it is built, as the builder's last heartbeat says; builders of older releases do not.
    progress: BuildProgress | None = None
    # Id of the snapshot that was extended; empty for none.
    base: str = ""
    # Ids of the snapshots whose files it refers to; empty for a full one.
    needs: tuple[str, ...] = ()
    # Number of versions, soft-deleted ones included.
    schemas: int = 0
    rows: int = 0
    # Bytes of all files, also those of other snapshots.
    size: int = 0
    # Digest of all rows, in hexadecimal, as ``/node`` shows it.
    digest: str = ""
    # SHA-256 of the file ``manifest.json`` in hexadecimal digits; entries of older releases have none.
    manifest: str = ""
    # The offset from which the digest may be compared with that of a full fold.
    comparable_from: int = 0
    # When the rows were known to be at the log's end.
    at_end_ms: int = 0
    # Version of the fold.
    fold: int = 0
    format: str = ""
    # Seconds that the build took by the clock and of CPU in all processes, and about the CPU that the
    # built-in fold takes for it; 0 if an older release built it.
    wall_s: float = 0.0
    cpu_s: float = 0.0
    local_cpu_s: float = 0.0

    def dumps(self) -> bytes:
        """Return the entry as JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def loads(cls, data: bytes) -> Entry:
        """Return the entry in ``data``; unknown members are ignored. Raises :class:`ValueError`."""
        entry = _decode(data)
        if not is_name(entry.id):
            raise ValueError(f"{entry.id!r} cannot be the id of a snapshot")
        return entry

    def in_state(self, state: State, now_ms: int, **more: Any) -> Entry:
        """Return the entry in another state, or later in the same one, with other fields replaced.

        Progress is not kept: it is that of one moment.
        """
        return msgspec.structs.replace(self, state=state, updated_ms=now_ms, **{"progress": None, **more})

    def is_silent(self, now_ms: int) -> bool:
        """Return whether its builder has sent no heartbeat for too long."""
        return self.state == "building" and not -AHEAD_MS <= now_ms - self.updated_ms <= SILENT_MS

    def is_free(self, now_ms: int) -> bool:
        """Return whether a builder may take it without a user's command."""
        tries_left = self.attempts < ATTEMPTS_MAX
        return tries_left and (self.state in ("requested", "failed") or self.is_silent(now_ms))


_decode = msgspec.json.Decoder(Entry).decode


def ready_fields(manifest: Manifest) -> dict[str, Any]:
    """Return the fields of an entry whose snapshot is ready."""
    return {
        "engine": manifest.engine,
        "base": manifest.base,
        "needs": tuple(sorted(manifest.needs)),
        "schemas": manifest.counts.get(VERSION.decode(), 0),
        "rows": manifest.rows,
        "size": manifest.size,
        "digest": digest.text(manifest.digest),
        "manifest": manifest.sha256,
        "comparable_from": manifest.comparable_from,
        "at_end_ms": manifest.at_end_ms,
        "fold": manifest.fold,
        "format": manifest.format,
    }


def is_name(id: str) -> bool:
    """Return whether an entry may have this id, which is also the name of a folder."""
    return _NAME.fullmatch(id) is not None


class Catalogue(Protocol):
    """The entries by id. Calls block, come from any thread and raise :class:`CatalogueError`."""

    @property
    def identity(self) -> str:
        """Identity of the catalogue as last seen: it changes if the catalogue is recreated; empty if missing.

        A missing entry was deleted only if the identity is still that from when the entry existed.
        """
        ...

    def entries(self) -> dict[str, Entry]:
        """Return all current entries."""
        ...

    def put(self, entry: Entry) -> Entry | None:
        """Write an entry; return the current one of that id, which is another one if this may not follow."""
        ...

    def forget(self, id: str) -> None:
        """Remove an entry if it exists."""
        ...

    def marked_offset(self, log: str) -> int:
        """Return the offset of the newest marker of this log that has become an entry; -1 for none.

        A marker without an entry is either newer, and was never published, or its entry was deleted.
        """
        ...

    def mark(self, log: str, offset: int) -> None:
        """Record the offset that :meth:`marked_offset` returns."""
        ...

    def rest(self) -> None:
        """Release resources that the next call can reopen."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


def follows(current: Entry | None, new: Entry) -> bool:
    """Return whether ``new`` may replace the current entry, whichever process wrote it."""
    if current is None:
        return True
    if current.state == "deleting":
        return new.state == "deleting"
    if current.state == "ready":
        return new.state in ("ready", "deleting")
    if current.state != "building" or new.state == "ready" or new.builder == current.builder:
        return True
    return new.state in ("building", "requested", "failed") and current.is_silent(new.updated_ms)


def take_request(catalogue: Catalogue, id: str, builder: str, now_ms: int) -> Entry | None:
    """Become the builder of an entry; ``None`` if it does not exist or has another builder.

    Entries that are requested, have failed or have a silent builder can be taken, after any number of
    attempts.
    """
    entry = catalogue.entries().get(id)
    if entry is None or not (entry.state in ("requested", "failed") or entry.is_silent(now_ms)):
        return None
    attempts = entry.attempts + 1
    wanted = entry.in_state("building", now_ms, builder=builder, attempts=attempts, reason="", base="")
    return wanted if catalogue.put(wanted) == wanted else None


def newest_first(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries by offset, the newest first; for one offset, the last requested first."""
    return sorted(entries, key=lambda each: (each.offset, each.requested_ms, each.id), reverse=True)
