"""The catalogue: which snapshots there are, were asked for or are being built, as all hosts see it.

An entry goes ``requested → building → ready``; a build that fails makes it ``failed``, from where it may be
tried again, and ``deleting`` ends it. Several processes write at once, and nobody locks: what they write has
one order, and each reader drops what does not follow from what stands (:func:`follows`). So of two that claim
one request, all see the same one as the first, and a builder that was taken for dead is not listened to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal, Protocol

import msgspec

from registry.domain.rows import digest
from registry.domain.rows.layout import VERSION
from snapshots.format.manifest import Manifest

State = Literal["requested", "building", "ready", "failed", "deleting"]

HEARTBEAT_S = 10.0
"""A builder says as often that it is alive."""
SILENT_MS = 60_000
"""One that was silent for longer is taken for dead, and what it builds is anybody's again."""
AHEAD_MS = 600_000
"""One whose clock is ahead by more is not believed: it may have written before a clock was set back."""
ATTEMPTS_MAX = 3
"""Builds of one request; nobody tries another by itself, but whoever asks for a build by name may."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


class CatalogueError(Exception):
    """The catalogue cannot be read or written now; the text says why."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot in the catalogue. Times are ms since the epoch; what is not known yet is empty or 0."""

    id: str
    state: State
    log: str
    """Identity of the log."""
    offset: int
    """The snapshot is the fold of all records before this one."""
    uri: str
    """The location; the snapshot is the folder ``id`` in it."""
    requested_ms: int
    updated_ms: int
    """When this was written; a builder does it again and again."""
    builder: str = ""
    """Who builds it, or has built it."""
    attempts: int = 0
    """How often a build was begun."""
    reason: str = ""
    """Why the last build failed."""
    engine: str = ""
    base: str = ""
    """Id of the snapshot that was extended; empty for none."""
    schemas: int = 0
    """Versions, soft-deleted ones included."""
    rows: int = 0
    size: int = 0
    """Bytes of all files."""
    digest: str = ""
    """Of all rows, in hexadecimal, as ``/node`` shows it."""
    comparable_from: int = 0
    """From this offset on the digest may be compared with that of a full fold."""
    at_end_ms: int = 0
    """When the rows were known to be at the log's end."""
    fold: int = 0
    """Version of the fold."""
    format: str = ""

    def dumps(self) -> bytes:
        """The entry as JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def loads(cls, data: bytes) -> Entry:
        """The entry in ``data``; members that are not known are ignored. Raises :class:`ValueError`."""
        entry = _decode(data)
        if not is_name(entry.id):
            raise ValueError(f"{entry.id!r} cannot be the id of a snapshot")
        return entry

    def in_state(self, state: State, now_ms: int, **more: Any) -> Entry:
        """The entry in another state, or in the same one later, with other fields as given."""
        return msgspec.structs.replace(self, state=state, updated_ms=now_ms, **more)

    def is_silent(self, now_ms: int) -> bool:
        """Whether it is being built by one who has not been heard of for too long."""
        return self.state == "building" and not -AHEAD_MS <= now_ms - self.updated_ms <= SILENT_MS

    def is_free(self, now_ms: int) -> bool:
        """Whether a builder may take it by itself."""
        tries_left = self.attempts < ATTEMPTS_MAX
        return tries_left and (self.state in ("requested", "failed") or self.is_silent(now_ms))


_decode = msgspec.json.Decoder(Entry).decode


def ready_fields(manifest: Manifest) -> dict[str, Any]:
    """What an entry says of a snapshot that is ready."""
    return {
        "engine": manifest.engine,
        "base": manifest.base,
        "schemas": manifest.counts.get(VERSION.decode(), 0),
        "rows": manifest.rows,
        "size": manifest.size,
        "digest": digest.text(manifest.digest),
        "comparable_from": manifest.comparable_from,
        "at_end_ms": manifest.at_end_ms,
        "fold": manifest.fold,
        "format": manifest.format,
    }


def is_name(id: str) -> bool:
    """Whether an entry may have this id, which is also the name of a folder."""
    return _NAME.fullmatch(id) is not None


class Catalogue(Protocol):
    """The entries by id. Calls block, come from any thread and raise :class:`CatalogueError`."""

    @property
    def identity(self) -> str:
        """Which catalogue was seen last: another one where it was made anew, empty where there was none.

        So an entry that is missing was forgotten only if this is as it was when the entry was there.
        """
        ...

    def entries(self) -> dict[str, Entry]:
        """All entries as of now."""
        ...

    def put(self, entry: Entry) -> Entry | None:
        """Write an entry; the one of that id that stands then: another one, if this does not follow."""
        ...

    def forget(self, id: str) -> None:
        """Remove an entry, if it is there."""
        ...

    def marked(self, log: str) -> int:
        """Offset of the newest marker in the log of this identity that has become an entry; -1: none.

        So a marker without an entry is either newer than this, and was never published, or was forgotten.
        """
        ...

    def mark(self, log: str, offset: int) -> None:
        """See :meth:`marked`."""
        ...

    def rest(self) -> None:
        """Let go of what the next call can open again."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


def follows(stands: Entry | None, new: Entry) -> bool:
    """Whether ``new`` may take the place of the entry that stands, by whoever it was written."""
    if stands is None:
        return True
    if stands.state == "deleting":
        return new.state == "deleting"
    if stands.state == "ready":
        return new.state in ("ready", "deleting")
    if stands.state != "building" or new.state == "ready" or new.builder == stands.builder:
        return True
    return new.state in ("building", "requested", "failed") and stands.is_silent(new.updated_ms)


def claim(catalogue: Catalogue, id: str, builder: str, now_ms: int) -> Entry | None:
    """Become the builder of an entry; ``None`` when it is not there or another one is its builder.

    Any entry that is requested, has failed or whose builder is silent can be claimed, however often it was.
    """
    entry = catalogue.entries().get(id)
    if entry is None or not (entry.state in ("requested", "failed") or entry.is_silent(now_ms)):
        return None
    attempts = entry.attempts + 1
    wanted = entry.in_state("building", now_ms, builder=builder, attempts=attempts, reason="", base="")
    return wanted if catalogue.put(wanted) == wanted else None


def newest_first(entries: Iterable[Entry]) -> list[Entry]:
    """Entries by offset, the newest first; of one offset the one asked for last first."""
    return sorted(entries, key=lambda each: (each.offset, each.requested_ms, each.id), reverse=True)
