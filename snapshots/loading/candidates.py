"""Which snapshots a node may start from, and a newer snapshot may be built upon; and why not the others.

Pure: the same rule is asked with what the catalogue says of a snapshot, and again with its manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format.retention import too_long
from snapshots.format.manifest import FORMAT

REPLAYED_PER_S = 30_000
"""Records that a node replays in a second; more where it has cores to spare."""
LOADED_PER_S = 1_000_000
"""Rows that it loads; both as measured on two cores (bench/start.py)."""


class Described(Protocol):
    """What is known of a snapshot: by its manifest, or by its entry in the catalogue."""

    @property
    def id(self) -> str:
        """Its name."""
        ...

    @property
    def format(self) -> str:
        """Of its files."""
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
        """Where the log ended when it had been read."""
        ...

    @property
    def at_end_ms(self) -> int:
        """When its rows were those at the log's end, ms since the epoch."""
        ...

    @property
    def rows(self) -> int:
        """How many rows it has."""
        ...


class Situation(NamedTuple):
    """The log that a snapshot must fit, and when."""

    log: str
    """Its identity."""
    end: int
    """The offset that its next record will get."""
    retention_ms: int | None
    """For how long it keeps the records of deletions at least; ``None``: for ever."""
    margin_ms: int
    """By how much clocks may differ."""
    now_ms: int
    refused: Mapping[str, str]
    """Ids of snapshots that turned out to be wrong when their rows were added up, with the reasons."""


_T = TypeVar("_T", bound=Described)


def newest_first(snapshots: Iterable[_T]) -> list[_T]:
    """In the order in which they are tried."""
    return sorted(snapshots, key=lambda each: (each.offset, each.id), reverse=True)


def why_not(snapshot: Described, situation: Situation) -> str:
    """Why a snapshot cannot be used with the log of ``situation``; empty when it can.

    The end of a sentence that begins with the snapshot's name.
    """
    if snapshot.format != FORMAT:
        return f"it has the format {snapshot.format!r}, and this version reads {FORMAT!r}"
    if snapshot.log != situation.log:
        return f"it is of another log, {snapshot.log}"
    if snapshot.fold != FOLD_VERSION:
        return f"its rows are of fold {snapshot.fold}, and this is fold {FOLD_VERSION}"
    # The end that was seen while it was built counts too: without it, its rows may be those of no moment.
    if (needed := max(snapshot.offset, snapshot.comparable_from)) > situation.end:
        return f"it needs the log up to offset {needed}, but the log ends at {situation.end}"
    if snapshot.id in situation.refused:
        return situation.refused[snapshot.id]
    return too_long(snapshot.at_end_ms, situation.now_ms, situation.retention_ms, situation.margin_ms)


def of_lost_records(divergence: int) -> str:
    """Why a snapshot cannot be used with a log that lost its records from ``divergence`` on; see above."""
    return f"it holds records from offset {divergence} or earlier on that the log has lost"


def is_quicker(snapshot: Described, applied: int, ahead_min: int) -> bool:
    """Whether to load a snapshot rather than to replay what it is ahead of a store at ``applied``.

    ``ahead_min``: records that are replayed in any case; from 1 on.
    """
    ahead = snapshot.offset - applied
    return ahead >= max(1, ahead_min) and ahead / REPLAYED_PER_S > snapshot.rows / LOADED_PER_S
