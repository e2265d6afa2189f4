"""The port to a log: one ordered, durable sequence of records with offsets.

Two implementations pass one suite: the embedded log and a Kafka partition.

A writer must *claim* the log before it appends. A claim fences all earlier claims: once the log holds a
record of the new claim, appends of an earlier claim fail (:class:`Fenced`). Until then they may still
succeed, at offsets before that record. So a new primary appends a barrier and follows the log up to it before
it decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from registry.domain.log_format.lineage import Lineage, Mismatch
from registry.domain.log_format.records import AppendedBatch, Entry, Record


class LogError(Exception):
    """The operation failed; nothing was appended."""


class Rejected(LogError):
    """The log rejects the batch for its content, so a retry would fail as well; nothing was appended."""


class RecordTooLarge(Rejected):
    """A record exceeds the log's size limit; nothing of the batch was appended."""


class Fenced(LogError):
    """The log was claimed by another writer, or never by this one; nothing of the batch was appended."""


class Unreachable(LogError):
    """The log did not answer in time; nothing was appended. A retry may succeed."""


class ForeignLog(LogError):
    """The log is not the one that was followed: it was deleted, created again, or truncated.

    The text says what was found; ``common`` and ``served`` are those of :class:`.lineage.Mismatch`.
    """

    def __init__(self, text: str, *, common: int = 0, served: bool = True) -> None:
        super().__init__(text)
        self.common = common
        self.served = served

    @property
    def mismatch(self) -> Mismatch:
        """The finding about rows that were folded from the log that was followed."""
        return Mismatch(str(self), self.common, self.served)


class UnsafeFence(LogError):
    """The log would not keep what is written, or not fence former primaries, so no node may claim it."""


class UnfitHost(LogError):
    """No append is possible from this host, because of its clock, but from others; nothing was appended."""


class OutcomeUnknown(LogError):
    """The append may or may not have happened. The claim is void: claim again and read the log."""


class DamagedLog(LogError):
    """The log's files are corrupt; the text says which records are lost."""


class LogClosed(LogError):
    """The log was closed by this process, which is about to end: the caller ends, too."""


class Claim(NamedTuple):
    """The right to append. The barrier's value holds it."""

    producer: int
    # The producer's epoch. The registry's own epoch is the offset of the barrier.
    epoch: int


class Fencing(NamedTuple):
    """The parameters of the log's fence against earlier claims."""

    # The primary must append at least this often, in seconds; None: never.
    renew_s: float | None = None
    # Why this node may not claim the log (UnsafeFence, UnfitHost); empty if it may.
    unsafe: str = ""
    # True if that is a fault of this host alone, so that other nodes may claim.
    own: bool = False


class Fetched(NamedTuple):
    """The result of one read."""

    # In ascending order. Offsets have holes where compaction removed records or control batches stand.
    records: list[Record]
    # The offset to read from next; the requested one if there was nothing to read.
    next: int
    # (offset, header) of those records that have one; see Log.append.
    headers: Sequence[tuple[int, bytes]] = ()
    # The leader epoch of the batch that ends at epoch_end; -1 if unknown.
    epoch: int = -1
    epoch_end: int = 0


class RecordHeaders(NamedTuple):
    """The headers of a run of records, each with its record's offset."""

    # No record from this offset on is missing.
    since: int
    headers: Sequence[tuple[int, bytes]]


NO_HEADERS: Mapping[int, bytes] = {}
# A header of this size fits even on the largest record, and so does a principal.
RECORD_HEADER_BYTES = 64


class Log(Protocol):
    """A sequence of records. Calls block unless documented otherwise, so only worker threads make them."""

    @property
    def identity(self) -> str:
        """The name of this very log. A log that is created again has another, so no store mixes two logs."""
        ...

    @property
    def record_bytes_max(self) -> int:
        """The maximum size of a record's key and value together, in bytes."""
        ...

    @property
    def tombstone_retention_ms(self) -> int | None:
        """The minimum time for which a tombstone is kept; ``None``: until every follower has applied it."""
        ...

    @property
    def fencing(self) -> Fencing:
        """The state of fencing at the last check. Never blocks."""
        ...

    def end(self) -> int:
        """Return the offset of the next record, as last known. Never blocks and never goes back."""
        ...

    def query_end(self, timeout_s: float) -> int:
        """Ask the log for its end, as of some moment after the call.

        Raises :class:`Unreachable`, :class:`ForeignLog`.
        """
        ...

    def divergence(self, lineage: Lineage) -> int | None:
        """Return an offset at or before which this log begins to differ from the log of ``lineage``.

        ``None`` if nothing shows a difference. From then on calls raise :class:`ForeignLog` as soon as the
        log turns out to be another one. Raises :class:`LogError`.
        """
        ...

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Return the records that are available from ``offset`` on, within both bounds; never wait for more.

        ``bytes_max`` counts keys and values; a single record always fits. After :meth:`wait` has returned
        True the result advances. Offset 0 means the log's beginning, wherever that is now; any other offset
        that was deleted is an error. Raises :class:`ForeignLog`, :class:`DamagedLog`, :class:`LogError`.
        """
        ...

    def read_again(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Return records from ``offset`` on as :meth:`read` does, for any thread and apart from the follower.

        ``next`` lies beyond all records that were deleted; it is ``offset`` only at the log's end. May block
        for some seconds. Raises :class:`Unreachable`, and as :meth:`read`.
        """
        ...

    def query_start(self) -> int:
        """Ask the log for the offset at which it begins: earlier records were deleted, whatever their keys.

        Raises :class:`Unreachable`, :class:`ForeignLog`.
        """
        ...

    def first_after(self, time_ms: int) -> int | None:
        """Return the offset of the first record that is newer than ``time_ms``, in ms since the epoch.

        ``None`` if there is none. Records keep the time that their writer's clock showed: where that was set
        back, an older record may follow. Raises :class:`Unreachable`, :class:`LogError`.
        """
        ...

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Wait until :meth:`read` from ``offset`` would advance, and return True if so.

        Raises as :meth:`read`.
        """
        ...

    def claim(self) -> Claim | None:
        """Claim the log. ``None``: no other process can append, so no barrier is needed.

        Raises :class:`UnsafeFence`, :class:`LogError`; the text names a permission that is missing.
        """
        ...

    def fence(self, earlier: Claim) -> None:
        """Fence an earlier claim of another producer: append a no-op in its name with the next epoch.

        Does nothing if it is fenced already. Raises :class:`LogError`.
        """
        ...

    def headers_before(self, offset: int, records_max: int) -> RecordHeaders:
        """Return the headers of at most ``records_max`` records before ``offset``.

        Raises :class:`LogError`.
        """
        ...

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        """Append all entries or none, durably; return the offset of the first.

        ``headers`` holds opaque bytes to store with records, by index in ``entries``. A key, its value and
        its header may take :attr:`record_bytes_max` + :data:`RECORD_HEADER_BYTES` bytes together, with a
        principal :data:`~registry.domain.log_format.headers.PRINCIPAL_ROOM_BYTES` less. Every read returns
        the principal with the record.

        A batch that exceeds the log's batch size is appended in several pieces, one after another;
        :attr:`record_bytes_max` of keys and values always fit one piece. Pieces end at ``cuts`` (indexes into
        ``entries`` at which a command begins) where possible. When a later piece fails,
        :class:`OutcomeUnknown` says how many records the log holds.

        Retries until the log has accepted or rejected the batch. Raises the errors above. After
        :class:`Fenced` and :class:`OutcomeUnknown` every append raises :class:`Fenced` until the log is
        claimed again.
        """
        ...

    def close(self) -> None:
        """Release the log; later and waiting calls raise :class:`LogClosed`."""
        ...


# Gets the offset of the first record of an append, or its error.
OnAppended = Callable[[int | Exception], object]


class AsyncLog(Log, Protocol):
    """A log that need not block its caller while it appends."""

    def begin_append(
        self, entries: Sequence[Entry], cuts: Sequence[int], headers: Mapping[int, bytes], done: OnAppended
    ) -> None:
        """Begin to :meth:`append`; ``done`` is called with the result, on another thread. Does not block.

        Raises :class:`LogError` if nothing was begun.
        """
        ...

    def is_at_hand(self, offset: int) -> bool:
        """Return true if :meth:`read` from ``offset`` would advance now. Does not block."""
        ...

    def last_append(self, end: int) -> AppendedBatch | None:
        """Return this log's last append if it ends at ``end`` and is small. Does not block."""
        ...

    def offer(self, batch: AppendedBatch) -> bool:
        """Take what another process has appended to this very log, so that it need not be fetched.

        Returns false if it does not come next, or if the log was not yet compared with what was read from it
        in the batch's leader epoch: it may have lost records and grown again. Does not block.
        """
        ...
