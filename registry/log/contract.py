"""What the registry asks of a log: one ordered, durable sequence of records with offsets.

Two logs keep this contract and pass one suite: the embedded log and a Kafka partition.

Whoever appends must have *claimed* the log. A claim ends all earlier ones: once a record of the new claim
stands in the log, what an earlier claim appends is refused (:class:`Fenced`). Before that it may still land,
ahead of that record; so a new primary appends a barrier and follows up to it before it decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import Entry, Record


class LogError(Exception):
    """The log could not do what was asked; nothing was appended."""


class RecordTooLarge(LogError):
    """A record is larger than the log takes; nothing of the batch was appended."""


class Fenced(LogError):
    """A newer claim stands, or there was none; nothing of the batch was appended."""


class Unreachable(LogError):
    """The log did not answer in time; nothing was appended. The next try may go well."""


class ForeignLog(LogError):
    """The log is not the one that was followed: deleted, made anew, or cut (and perhaps grown again).

    The text says what was found.
    """


class UnsafeFence(LogError):
    """The log would not keep former primaries from writing for long enough, so nobody may claim it."""


class OutcomeUnknown(LogError):
    """The append may or may not have happened. The claim is void: claim again, and read what is there."""


class DamagedLog(LogError):
    """The log's files are not what was written; the text says what is lost."""


class Claim(NamedTuple):
    """The right to append, as the log names it; the barrier's value holds it."""

    producer: int
    epoch: int
    """The producer's epoch, not the registry's (which is the offset of the barrier)."""


class Fencing(NamedTuple):
    """How long the log keeps earlier claims from writing."""

    # An append is needed at least this often, in seconds; None: never.
    renew_s: float | None = None
    # Why nobody may claim the log (UnsafeFence); empty if anybody may.
    unsafe: str = ""


class Fetched(NamedTuple):
    """What one read found."""

    records: list[Record]
    """Ascending; offsets may have holes, where compaction or control batches were."""
    next: int
    """The offset to read from next; as asked for when there was nothing."""
    notes: Sequence[tuple[int, bytes]] = ()
    """Offsets and notes of those records that have one; see :meth:`Log.append`."""
    epoch: int = -1
    """The leader epoch of the batch that ends at ``epoch_end``; -1 where it is not known."""
    epoch_end: int = 0


class Noted(NamedTuple):
    """The notes of a run of records."""

    since: int
    """No record from here on is missing."""
    notes: Sequence[tuple[int, bytes]]


NO_NOTES: Mapping[int, bytes] = {}
NOTE_BYTES = 64
"""A note of so many bytes always fits beside the largest record."""


class Log(Protocol):
    """A sequence of records. Calls block, unless said otherwise; they are made from threads that may wait."""

    @property
    def identity(self) -> str:
        """Names this very log: one made anew has another, so that two logs are never mixed in one store."""
        ...

    @property
    def record_bytes_max(self) -> int:
        """The most bytes a record's key and value may have together."""
        ...

    @property
    def tombstone_retention_ms(self) -> int | None:
        """For how long a deletion's record stays at least; ``None``: for a follower that was away, always."""
        ...

    @property
    def fencing(self) -> Fencing:
        """How long earlier claims stay fenced, as of the last look. Never blocks."""
        ...

    def end(self) -> int:
        """The offset that the next record will get, as last heard. Never blocks, never goes back."""
        ...

    def ask_end(self, timeout_s: float) -> int:
        """The same, as of some moment after the call. Raises :class:`Unreachable`, :class:`ForeignLog`."""
        ...

    def departure(self, lineage: Lineage) -> int | None:
        """Return the offset at or before which this log ceases to be the one of ``lineage``.

        ``None`` if nothing says that it is another. From then on calls raise :class:`ForeignLog` as soon as
        the log turns out to be another one. Raises :class:`LogError`.
        """
        ...

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """What is at hand from ``offset`` on, within both bounds; if :meth:`wait` said so, it gets on.

        ``bytes_max`` counts keys and values; one record always fits. Does not wait for what is not here yet.
        From 0 means from the log's beginning, wherever that is now; another offset that is gone is an error.
        Raises :class:`ForeignLog`, :class:`DamagedLog`, :class:`LogError`.
        """
        ...

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Wait until a :meth:`read` from ``offset`` gets on; whether it would. Raises as :meth:`read`."""
        ...

    def claim(self) -> Claim | None:
        """Claim the log. ``None``: nobody else can append, so that no barrier is needed.

        Raises :class:`UnsafeFence`, :class:`LogError`; its text names a permission that is missing.
        """
        ...

    def fence(self, earlier: Claim) -> None:
        """Refuse an earlier claim of another producer for good: appends a no-op in its name, one epoch on.

        Nothing when it is fenced already. Raises :class:`LogError`.
        """
        ...

    def notes_before(self, offset: int, records_max: int) -> Noted:
        """The notes of the last records before ``offset``, of at most so many. Raises :class:`LogError`."""
        ...

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), notes: Mapping[int, bytes] = NO_NOTES
    ) -> int:
        """Append all or nothing, durable on return; the offset of the first.

        ``notes``: bytes that go with records (by their index in ``entries``) and mean nothing to the log. A
        key, its value and its note have at most :attr:`record_bytes_max` and :data:`NOTE_BYTES` together.

        What is too large for one piece (:attr:`record_bytes_max` of keys and values always fits one) is
        appended in several, one after another. A piece ends where ``cuts`` says that it may (an index into
        ``entries``: where another command's begin), and only without such a place elsewhere. When a later
        piece fails, :class:`OutcomeUnknown` says how many records stand in the log.

        Goes on trying until the log has said yes or no. Raises the errors above; after :class:`Fenced` and
        :class:`OutcomeUnknown` every further append raises :class:`Fenced` until the log is claimed again.
        """
        ...

    def close(self) -> None:
        """Release the log; later and waiting calls raise :class:`LogError`."""
        ...
