"""What has to be done from time to time: compaction, verification, slots of killed readers, counts."""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol, runtime_checkable

from registry.config.loading import Settings
from registry.domain.rows import layout, version_row
from registry.log.contract import Fencing, Log, LogError
from registry.log.embedded.log import EmbeddedLog, now_ms
from registry.store.layout import DamagedStore, StoreError
from registry.store.lmdb import Store

from .replication.loop import FollowLoop
from .startup.digest_check import prove

_STEP_S = 0.05
_READERS_EVERY_S = 60.0
_COMPACT_EVERY_S = 60.0
_ROOM_EVERY_S = 1.0
_VERIFY_EVERY_S = 6 * 3600.0
_COMPACT_RECORDS = 500
_VERIFY_RECORDS = 200
_COUNT_RECORDS = 500
_COUNT_AT_ONCE_ROWS_MAX = 20_000
_COUNT_EVERY_S = 30.0
_UNSAFE_EVERY_S = 5.0
_log = logging.getLogger(__name__)


@runtime_checkable
class Topic(Protocol):
    """A log that is a topic, whose settings others may change."""

    @property
    def fencing(self) -> Fencing:
        """See :class:`Log`."""
        ...

    def check_topic(self) -> list[str]:
        """What is not as it should be, for people. Raises :class:`LogError`."""
        ...


class Maintenance:
    """Small steps with pauses between them, so that requests never wait long for one."""

    def __init__(self, log: Log, store: Store, following: FollowLoop, settings: Settings) -> None:
        self._own = log if isinstance(log, EmbeddedLog) else None
        """The log, where compacting and verifying it is this node's matter."""
        self._topic = log if isinstance(log, Topic) else None
        self._topic_every_s = settings.topic_check_every_s
        self._warned: list[str] = []
        self._store = store
        self._following = following
        self._lag_ms = int(settings.min_compaction_lag_s * 1000)
        self._retention_ms = int(settings.tombstone_retention_s * 1000)
        self._stopping = threading.Event()
        self._readers_gone = threading.Event()
        self._quarantined = (-1, 0)
        self._versions: int | None = None
        self._counted = (layout.VERSION, 0)
        self._counting = threading.Lock()

    def run(self) -> None:
        """Keep house until :meth:`stop`. Raises the damage it finds."""
        readers_at = compact_at = verify_at = count_at = topic_at = room_at = time.monotonic()
        verifying, proven, counted = True, False, False
        while not self._stopping.wait(1.0 if counted and not verifying else _STEP_S):
            now = time.monotonic()
            if now >= readers_at or self._readers_gone.is_set():
                self._readers_gone.clear()
                self._store.reader_check()
                readers_at = now + _READERS_EVERY_S
            if not self._following.started:
                continue
            if not proven:
                prove(self._store, self._stopping)
                proven = True
            counted = self._counted_blocks()
            if now >= compact_at and not self._compact():
                compact_at = now + _COMPACT_EVERY_S
            if self._own is not None and now >= room_at:
                self._own.check_for_room()
                room_at = now + _ROOM_EVERY_S
            if now >= topic_at:
                self._check_topic()
                topic_at = now + self._topic_look_s()
            if now >= count_at and self._count(_COUNT_RECORDS):
                count_at = now + _COUNT_EVERY_S
            if now >= verify_at:
                verifying = True
            if verifying and self._verify():
                verifying, verify_at = False, now + _VERIFY_EVERY_S

    def _counted_blocks(self) -> bool:
        """Count a block of versions more; return true once there is no more to do."""
        try:
            return self._store.count_step()
        except DamagedStore:
            raise
        except StoreError:
            return True  # a disk that is full; the thread that follows the log says so

    def _compact(self) -> bool:
        """Whether there may be more to do."""
        if self._own is None:
            return False
        try:
            done = self._own.compact(
                now_ms(), self._lag_ms, self._retention_ms, _COMPACT_RECORDS, self._store.applied
            )
        except LogError as error:
            if not self._stopping.is_set():
                _log.warning("compaction: %s", error)
            return False
        return done > 0

    def _check_topic(self) -> None:
        """Say what is not as it should be, once as long as it stays the same."""
        if self._topic is None:
            return
        try:
            warnings = self._topic.check_topic()
        except LogError as error:
            if self._stopping.is_set():
                return
            warnings = [str(error)]
        for warning in warnings:
            if warning not in self._warned:
                _log.warning("%s", warning)
        self._warned = warnings

    def _topic_look_s(self) -> float:
        """Return the time until the next look: soon, while nobody may become primary for what was found."""
        unsafe = self._topic is not None and self._topic.fencing.unsafe
        return min(_UNSAFE_EVERY_S, self._topic_every_s) if unsafe else self._topic_every_s

    def _verify(self) -> bool:
        """Check some records' checksums and some rows' hashes; whether all have been seen."""
        if self._stopping.is_set():
            return True
        log_done = self._own is None or self._own.verify_step(_VERIFY_RECORDS)
        return self._store.verify_step(_VERIFY_RECORDS) and log_done

    def readers_gone(self) -> None:
        """A reader has ended, perhaps with a view open."""
        self._readers_gone.set()

    def quarantined(self) -> int:
        """How many records could not be read."""
        applied = self._store.applied
        if self._quarantined[0] != applied:
            self._quarantined = (applied, self._following.quarantined())
        return self._quarantined[1]

    def versions(self) -> int:
        """How many versions are there that are not soft-deleted; in a large store as of some time ago."""
        if self._versions is None or self._store.stat().rows <= _COUNT_AT_ONCE_ROWS_MAX:
            while not self._count(_COUNT_AT_ONCE_ROWS_MAX):
                pass
        assert self._versions is not None
        return self._versions

    def _count(self, rows_max: int) -> bool:
        """Count some more versions; whether all have been seen."""
        with self._counting, self._store.view() as view:
            at, found = self._counted
            for _ in range(rows_max):
                row = view.seek(at)
                if row is None or not row[0].startswith(layout.VERSION):
                    self._versions, self._counted = found, (layout.VERSION, 0)
                    return True
                found += not version_row.is_deleted(row[1])
                at = row[0] + b"\0"
            self._counted = (at, found)
            return False

    def stop(self) -> None:
        """Make :meth:`run` return soon."""
        self._stopping.set()
