"""Periodic maintenance: compaction, verification, readers' slots, counts, history, and checks of files."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from registry.base.config.settings import Settings
from registry.log.contract import Fencing, Log, LogError
from registry.log.embedded.log import EmbeddedLog, now_ms
from registry.security.setting_files import FileChecks
from registry.store.folder import remove_rebuilt
from registry.store.layout import DamagedStore, StoreError
from registry.store.lmdb import Store

from .inventory import Inventory
from .past.thread import HistoryFiller
from .replication.loop import FollowLoop

_STEP_S = 0.05
# Time for which blocks are counted between two pauses: until all are, offsets near a list's end are walks.
COUNT_S = 0.05
_READERS_EVERY_S = 60.0
_COMPACT_EVERY_S = 60.0
_ROOM_EVERY_S = 1.0
_VERIFY_EVERY_S = 6 * 3600.0
_COMPACT_RECORDS = 500
_VERIFY_RECORDS = 200
_COUNT_ROWS = 500
_COUNT_EVERY_S = 30.0
_TOPIC_EVERY_S = 30.0
_UNSAFE_EVERY_S = 5.0
_log = logging.getLogger(__name__)


def count_blocks(step: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> bool:
    """Count block after block for :data:`COUNT_S`; return true when ``step`` says that nothing is left."""
    end = clock() + COUNT_S
    try:
        while not step():
            if clock() >= end:
                return False
    except DamagedStore:
        raise
    except StoreError:
        pass  # For instance a full disk, which the follow thread reports.
    return True


@runtime_checkable
class Topic(Protocol):
    """A log that is a topic; others may change its settings."""

    @property
    def fencing(self) -> Fencing:
        """Return the state of fencing, as :attr:`Log.fencing` does."""
        ...

    def check_topic(self) -> list[str]:
        """Return a readable warning for each setting that is wrong. Raises :class:`LogError`."""
        ...


class Maintenance:
    """Maintenance in small steps with pauses between them, so that requests never wait long for a step."""

    def __init__(
        self,
        log: Log,
        store: Store,
        following: FollowLoop,
        settings: Settings,
        files: FileChecks | None = None,
    ) -> None:
        """``files``: checks of the files that settings name."""
        self._files = files
        # The log, if this node is responsible for compacting and verifying it.
        self._log = log
        self._own = log if isinstance(log, EmbeddedLog) else None
        self._topic = log if isinstance(log, Topic) else None
        self._warned: list[str] = []
        self._store = store
        self._following = following
        self._lag_ms = int(settings.min_compaction_lag_s * 1000)
        self._retention_ms = int(settings.tombstone_retention_s * 1000)
        self._stopping = threading.Event()
        self._readers_gone = threading.Event()
        self._quarantined = (-1, 0)
        self._filler = HistoryFiller(log, store) if settings.history else None
        self.inventory = Inventory(store)

    def run(self) -> None:
        """Do maintenance until :meth:`stop`. Raises an error if log or store are found to be damaged."""
        readers_at = compact_at = verify_at = count_at = topic_at = room_at = ids_at = time.monotonic()
        verifying, proven, counted, filled, idle = True, False, False, False, True
        round_at = count_at
        while not self._stopping.wait(_STEP_S if verifying or not (counted and filled and idle) else 1.0):
            now = time.monotonic()
            if now >= readers_at or self._readers_gone.is_set():
                self._readers_gone.clear()
                self._store.reader_check()
                readers_at = now + _READERS_EVERY_S
            if self._files is not None:
                self._files.refresh()
            if not self._following.started:
                continue
            if not proven:
                self._verify_snapshot()
                proven = self._former_removed()
                if self._filler is None:
                    self._clear_history()
            counted = count_blocks(self._store.count_step)
            if counted and now >= ids_at:
                counted = count_blocks(self._store.count_ids_step)
                ids_at = now + _COUNT_EVERY_S if counted else now
            filled = self._filler is None or self._filler.step()
            if now >= compact_at and not self._compact():
                compact_at = now + _COMPACT_EVERY_S
            if self._own is not None and now >= room_at:
                self._own.check_for_room()
                room_at = now + _ROOM_EVERY_S
            if now >= topic_at:
                self._check_topic()
                topic_at = now + self._topic_look_s()
            if now >= count_at:
                round_at = now if idle else round_at
                idle = self.inventory.count(_COUNT_ROWS)
                # As long a pause as the round took, in large stores.
                count_at = now + max(_COUNT_EVERY_S, now - round_at) if idle else now
            if now >= verify_at:
                verifying = True
            if verifying and self._verify():
                verifying, verify_at = False, now + _VERIFY_EVERY_S

    def _verify_snapshot(self) -> None:
        """Verify the rows loaded from a snapshot, unless that was done. Raises :class:`DamagedStore`."""
        if self._store.loaded_from:
            from .startup.snapshot_loader import verify_digest  # noqa: PLC0415 (most starts load none)

            verify_digest(self._store, self._stopping)

    def _former_removed(self) -> bool:
        """Remove former stores whose rows were read from the log again; return false if it did not answer."""
        try:
            remove_rebuilt(self._store, self._log.identity, self._log.divergence)
        except LogError:
            return False
        return True

    def _clear_history(self) -> None:
        """Free the space of a history that is no longer kept."""
        try:
            self._store.clear_history()
        except DamagedStore:
            raise
        except StoreError:
            pass  # The follow thread reports a full disk; the next start tries again.

    def _compact(self) -> bool:
        """Compact some records; return true if there may be more to do."""
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
        """Log warnings about the topic's settings, each once as long as it persists."""
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
        """Return the seconds until the next check; few while the settings prevent writing."""
        unsafe = self._topic is not None and self._topic.fencing.unsafe
        return _UNSAFE_EVERY_S if unsafe else _TOPIC_EVERY_S

    def _verify(self) -> bool:
        """Check the checksums of some records and the hashes of some rows; return true after the last."""
        if self._stopping.is_set():
            return True
        log_done = self._own is None or self._own.verify_step(_VERIFY_RECORDS)
        return self._store.verify_step(_VERIFY_RECORDS) and log_done

    def readers_gone(self) -> None:
        """Schedule the release of slots, because a reader has ended, possibly with an open view."""
        self._readers_gone.set()

    def quarantined_count(self) -> int:
        """Return the number of records that could not be read."""
        applied = self._store.applied
        if self._quarantined[0] != applied:
            self._quarantined = (applied, self._following.count_quarantined())
        return self._quarantined[1]

    def history_from(self) -> int | None:
        """Return the offset from which on the history is complete; ``None`` if none is kept."""
        return None if self._filler is None else self._store.history_from()

    def stop(self) -> None:
        """Make :meth:`run` return after its current step."""
        self._stopping.set()
