"""The rule by which a snapshot may be loaded by a node, or be the base of a newer snapshot.

One line of JSON for each in the file ``refused-snapshots`` of the store's folder. They are very rare: if the
parts' hashes are right and the rows' digest is not, the build was wrong.

Pure: the rule is applied to a snapshot's entry in the catalogue, and again to its manifest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import orjson

from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format.lineage import too_long
from snapshots.format.manifest import FORMATS, FORMATS_TEXT

FILE = "refused-snapshots"


def read_rejected(store: Path) -> dict[str, str]:
    """Return the ids with the reasons; lines that cannot be read are skipped."""
    try:
        lines = (store / FILE).read_bytes().splitlines()
    except OSError:
        return {}
    found: dict[str, str] = {}
    for line in lines:
        try:
            said = orjson.loads(line)
            found[str(said["id"])] = str(said["reason"])
        except (ValueError, KeyError, TypeError):
            continue
    return found


def add_rejected(store: Path, id: str, reason: str) -> None:
    """Record that a snapshot must not be loaded again. Raises :class:`OSError`."""
    fd = os.open(store / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, orjson.dumps({"id": id, "reason": reason}) + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


# Records that a node replays and rows that it loads in a second, measured on two cores (bench/start.py).
REPLAYED_PER_S = 30_000
LOADED_PER_S = 1_000_000


class SnapshotDescription(Protocol):
    """A snapshot as its manifest, or its entry in the catalogue, describes it."""

    @property
    def id(self) -> str:
        """Its name."""
        ...

    @property
    def format(self) -> str:
        """Format of its files."""
        ...

    @property
    def fold(self) -> int:
        """Version of the fold that made its rows."""
        ...

    @property
    def log(self) -> str:
        """Identity of the log."""
        ...

    @property
    def offset(self) -> int:
        """Offset of the next record to apply."""
        ...

    @property
    def comparable_from(self) -> int:
        """The log's end when it had been read."""
        ...

    @property
    def at_end_ms(self) -> int:
        """When its rows were those at the log's end, ms since the epoch."""
        ...

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...


class TargetLog(NamedTuple):
    """The log that a snapshot must fit, at one moment."""

    # The log's identity, and the offset that its next record will get.
    log: str
    end: int
    # How long the log keeps the records of deletions at least; ``None`` for ever.
    retention_ms: int | None
    # The most by which clocks may differ.
    margin_ms: int
    now_ms: int
    # Ids of snapshots whose rows did not have their digest, with the reasons.
    rejected: Mapping[str, str]


_T = TypeVar("_T", bound=SnapshotDescription)


def newest_first(snapshots: Iterable[_T]) -> list[_T]:
    """Return snapshots in the order in which they are tried."""
    return sorted(snapshots, key=lambda each: (each.offset, each.id), reverse=True)


def reason_unusable(snapshot: SnapshotDescription, target: TargetLog) -> str:
    """Return why a snapshot cannot be used with this log; empty if it can.

    The text ends a sentence that begins with the snapshot's name.
    """
    if snapshot.format not in FORMATS:
        return f"it has the format {snapshot.format!r}, and this version reads {FORMATS_TEXT}"
    if snapshot.log != target.log:
        return f"it is of another log, {snapshot.log}"
    if snapshot.fold != FOLD_VERSION:
        return f"its rows are of fold {snapshot.fold}, and this is fold {FOLD_VERSION}"
    # The log's end during the build counts too: rows that were read while compaction ran are consistent only
    # from there on.
    if (needed := max(snapshot.offset, snapshot.comparable_from)) > target.end:
        return f"it needs the log up to offset {needed}, but the log ends at {target.end}"
    if snapshot.id in target.rejected:
        return target.rejected[snapshot.id]
    return too_long(snapshot.at_end_ms, target.now_ms, target.retention_ms, target.margin_ms)


def reason_lost_records(divergence: int) -> str:
    """Return why a snapshot cannot be used with a log that lost its records from ``divergence`` on."""
    return f"it holds records from offset {divergence} or earlier that the log has lost"


def is_quicker(snapshot: SnapshotDescription, applied: int, ahead_min: int) -> bool:
    """Return whether loading a snapshot is quicker than replaying the log from ``applied`` to its offset.

    A snapshot that is less than ``ahead_min`` records ahead is never loaded.
    """
    ahead = snapshot.offset - applied
    return ahead >= max(1, ahead_min) and ahead / REPLAYED_PER_S > snapshot.rows / LOADED_PER_S
