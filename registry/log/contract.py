"""What the registry asks of a log: one ordered, durable sequence of records with offsets.

Two logs keep this contract and pass one suite: the embedded log and a Kafka partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from registry.domain.records import Entry, Record


class LogError(Exception):
    """The log could not do what was asked; nothing was appended."""


class RecordTooLarge(LogError):
    """A record is larger than the log takes; nothing of the batch was appended."""


class OutcomeUnknown(LogError):
    """The append may or may not have happened; the same batch may be tried again."""


class DamagedLog(LogError):
    """The log's files are not what was written; the text says what is lost."""


class Log(Protocol):
    """An append-only sequence of records. Calls block; they are made from threads that may wait."""

    @property
    def identity(self) -> str:
        """Names this very log: one made anew has another, so that two logs are never mixed in one store."""
        ...

    @property
    def record_bytes_max(self) -> int:
        """The most bytes a record's key and value may have together."""
        ...

    def end(self) -> int:
        """The offset that the next record will get."""
        ...

    def read(self, offset: int, records_max: int, bytes_max: int) -> list[Record]:
        """Records from ``offset`` on, ascending; at least one if there is one, then within both bounds.

        ``bytes_max`` counts keys and values. Offsets may have holes where compaction took records away.
        """
        ...

    def append(self, entries: Sequence[Entry]) -> int:
        """Append all or nothing, durable on return; the offset of the first. Raises the errors above."""
        ...

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Wait until :meth:`end` is greater than ``offset``; whether it is."""
        ...

    def close(self) -> None:
        """Release the log; later calls raise :class:`LogError`."""
        ...
