"""The catalogue for a log on Kafka: a compacted topic of one partition.

Writers are not fenced: every node, builder and command may write, and the order of the records decides. The
topic is opened when it is needed, and created with the first entry.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import orjson

from registry.domain.log_format.records import Entry as LogEntry
from registry.domain.log_format.records import Record
from registry.log.contract import ForeignLog, LogError, OutcomeUnknown
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.topic import TopicMissing

from .catalogue import CatalogueError, Entry, follows

_ASK_S = 5.0
_WAIT_S = 0.5
_TRIES = 3
_AT_ONCE, _BYTES_AT_ONCE = 1000, 4 << 20
_MARKED = b'{"registrar":"marked"}'
T = TypeVar("T")
_log = logging.getLogger(__name__)


class KafkaCatalogue:
    """A catalogue in a topic. ``open_log`` opens the topic, and creates it if called with true."""

    def __init__(self, open_log: Callable[[bool], KafkaLog]) -> None:
        self._open_log = open_log
        self._lock = threading.Lock()
        self._log: KafkaLog | None = None
        self._reset()

    @property
    def identity(self) -> str:
        """Identity of the topic; see :attr:`.catalogue.Catalogue.identity`."""
        return self._identity

    def _reset(self) -> None:
        self._identity = ""
        self._next = 0
        self._entries: dict[str, Entry] = {}
        self._marks: dict[str, int] = {}

    def entries(self) -> dict[str, Entry]:
        """Return the entries by id, see :meth:`.catalogue.Catalogue.entries`."""
        return self._do(lambda: dict(self._entries))

    def put(self, entry: Entry) -> Entry | None:
        """Write an entry, see :meth:`.catalogue.Catalogue.put`."""
        return self._do(lambda: self._put(entry), make=True)

    def forget(self, id: str) -> None:
        """Remove an entry, see :meth:`.catalogue.Catalogue.forget`."""

        def forget() -> None:
            if id in self._entries:
                self._append(entry_key(id), None)

        self._do(forget)

    def marked_offset(self, log: str) -> int:
        """Return the marked offset of a log, see :meth:`.catalogue.Catalogue.marked_offset`."""
        return self._do(lambda: self._marks.get(log, -1))

    def mark(self, log: str, offset: int) -> None:
        """Mark an offset of a log, see :meth:`.catalogue.Catalogue.mark`."""
        self._do(lambda: self._append(_MARKED, orjson.dumps({log: offset})), make=True)

    def rest(self) -> None:
        """Disconnect; entries that were read are kept."""
        with self._lock:
            self._disconnect()

    def close(self) -> None:
        """Disconnect."""
        self.rest()

    def _do(self, call: Callable[[], T], *, make: bool = False) -> T:
        """Return the result of ``call`` after reading the topic to its end."""
        with self._lock:
            try:
                try:
                    self._catch_up(make=make)
                    return call()
                except ForeignLog:
                    # The topic was recreated: what it holds now is the catalogue.
                    self._disconnect()
                    self._reset()
                    self._catch_up(make=make)
                    return call()
            except LogError as error:
                self._disconnect()
                if isinstance(error, ForeignLog):
                    self._reset()
                raise CatalogueError(f"cannot use the catalogue of snapshots: {error}") from error

    def _catch_up(self, *, make: bool) -> None:
        if self._log is None:
            try:
                log = self._open_log(make)
            except TopicMissing:
                self._reset()
                return
            if log.identity != self._identity:
                self._reset()
            self._log, self._identity = log, log.identity
        self._read_to(self._log, self._log.query_end(_ASK_S))

    def _read_to(self, log: KafkaLog, end: int) -> None:
        deadline = time.monotonic() + _ASK_S
        while self._next < end:
            found = log.read(self._next, _AT_ONCE, _BYTES_AT_ONCE)
            for record in found.records:
                self._take(record)
            if found.next > self._next:
                self._next, deadline = found.next, time.monotonic() + _ASK_S
            elif not log.wait(self._next, _WAIT_S) and time.monotonic() > deadline:
                raise LogError(f"the topic ends at {end}, but nothing can be read from {self._next} on")

    def _put(self, entry: Entry) -> Entry | None:
        self._append(entry_key(entry.id), entry.dumps())
        current = self._entries.get(entry.id)
        if current is not None and current != entry:
            # Compaction keeps the last record of a key, so the current entry must be the last one.
            self._append(entry_key(entry.id), current.dumps())
            current = self._entries.get(entry.id)
        return current

    def _append(self, key: bytes, value: bytes | None) -> None:
        """Append a record, with retries, and read up to it. Appending a record twice is harmless."""
        assert self._log is not None
        tries = _TRIES
        while True:
            try:
                self._log.claim()
                offset = self._log.append([LogEntry(key, value)])
            except OutcomeUnknown:
                tries -= 1
                if not tries:
                    raise
            else:
                self._read_to(self._log, offset + 1)
                return

    def _take(self, record: Record) -> None:
        try:
            self._fold(record)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            _log.warning(
                "ignoring the record at offset %d of the catalogue of snapshots: %s", record.offset, error
            )

    def _fold(self, record: Record) -> None:
        if record.key == _MARKED:
            marks = orjson.loads(record.value or b"{}")
            self._marks = {str(log): int(offset) for log, offset in marks.items()}
            return
        named = orjson.loads(record.key or b"")["snapshot"]
        if record.value is None:
            self._entries.pop(named, None)
            return
        entry = Entry.loads(record.value)
        if entry.id != named or record.key != entry_key(named):
            raise ValueError("its key names another snapshot than its value")
        if follows(self._entries.get(named), entry):
            self._entries[named] = entry

    def _disconnect(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            log.close()


def entry_key(id: str) -> bytes:
    """Return the key of an entry's records."""
    return orjson.dumps({"registrar": "snapshot", "snapshot": id})
