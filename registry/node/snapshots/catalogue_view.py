"""The catalogue as the node sees it, and the schedule of builds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from registry.base.config.setting_types import Schedule
from registry.base.config.settings import Settings
from registry.base.observe.metrics import Sample
from registry.domain.decide.own_records import Marker, newest_marker
from registry.domain.errors import SNAPSHOT_BUSY, SNAPSHOT_NOT_FOUND
from registry.domain.rows.view import Rows
from snapshots.catalogue.catalogue import CatalogueError, Entry, newest_first
from snapshots.catalogue.open import manifest_keys, open_catalogue
from snapshots.catalogue.retention import delete, reason_not_deletable, retire
from snapshots.format.files import BadLocation
from snapshots.format.location import Location
from snapshots.format.manifest import new_id


def why_due(schedule: Schedule, entries: Iterable[Entry], log: str, end: int, now_ms: int) -> str:
    """Return why a snapshot of the log with the identity ``log`` is due, in words; empty if none is.

    ``end`` is the log's end. Only the newest request counts, no matter if it succeeded, so a snapshot that
    cannot be built is not requested more often. None is due while one is waiting or being built, so a single
    snapshot catches up after a pause.
    """
    ours = newest_first(each for each in entries if each.log == log and each.state != "deleting")
    if end <= 0 or any(each.is_free(now_ms) or each.state == "building" for each in ours):
        return ""
    records = end - (ours[0].offset if ours else 0)
    if schedule.records and records >= schedule.records:
        return f"{records} records since the last one"
    if schedule.seconds and not ours:
        return "there is no snapshot yet"
    if schedule.seconds:
        seconds = (now_ms - max(each.requested_ms for each in ours)) // 1000
        return f"{seconds} s since the last one" if seconds >= schedule.seconds else ""
    return ""


_STATES = ("requested", "building", "ready", "failed", "deleting")
_log = logging.getLogger(__name__)


class Entries:
    """Catalogue entries as last read, and operations on them.

    Used by one thread, except :meth:`ours`, :meth:`newest` and :meth:`gauges`, which return the entries as
    last read. ``log`` is the identity of the log, ``now`` the wall clock in ms since the epoch. Methods raise
    :class:`snapshots.catalogue.catalogue.CatalogueError` unless stated otherwise.
    """

    def __init__(self, settings: Settings, store: Rows, log: str, now: Callable[[], int]) -> None:
        self._settings = settings
        self._store = store
        self._now = now
        self._warned = False
        self.log = log
        self.catalogue = open_catalogue(settings)
        self.seen: dict[str, Entry] = {}  # Entries by id, as last read.

    def read(self) -> dict[str, Entry]:
        """Read and return all entries by id."""
        self.seen = self.catalogue.entries()
        return self.seen

    def ours(self) -> list[Entry]:
        """Return the entries of this log as last read, newest first."""
        return newest_first(each for each in self.seen.values() if each.log == self.log)

    def newest(self) -> Entry | None:
        """Return the newest ready snapshot of this log, as last read."""
        return next((each for each in self.ours() if each.state == "ready"), None)

    def requested_ms(self, state: str) -> int:
        """Return when the newest snapshot of this log in a state was requested, as last read; 0: none."""
        return max((each.requested_ms for each in self.ours() if each.state == state), default=0)

    def samples(self) -> list[Sample]:
        """Return metrics about the entries as last read."""
        counts = dict.fromkeys(_STATES, 0)
        for each in self.ours():
            counts[each.state] += 1
        found = [Sample("registrar_snapshots", count, (state,)) for state, count in counts.items()]
        newest = self.newest()
        if newest is not None:
            age_s = max(0, self._now() - newest.requested_ms) / 1000
            found.append(Sample("registrar_snapshot_offset", newest.offset))
            found.append(Sample("registrar_snapshot_age_seconds", age_s))
        return found

    # --- markers

    def newest_begun_offset(self) -> int:
        """Return the offset up to which markers do not satisfy a further request; -1 for none."""
        entries = self.read()
        marker, marked = self._marker(), self.catalogue.marked_offset(self.log)
        if marker is None or marker.offset > marked:
            return -1
        entry = entries.get(_id_of(marker))
        return -1 if entry is not None and entry.state == "requested" else marker.offset

    def publish(self) -> Entry | None:
        """Return the entry of the newest marker, creating it if missing.

        ``None`` if it was deleted or there is no marker.
        """
        marker = self._marker()
        if marker is None:
            return None
        named = _id_of(marker)
        if marker.offset > self.catalogue.marked_offset(self.log):
            if named not in self.read():
                self.catalogue.put(self._make_entry(named, marker))
            self.catalogue.mark(self.log, marker.offset)
            self.read()
        return self.seen.get(named)

    def _marker(self) -> Marker | None:
        with self._store.view() as view:
            return newest_marker(view)

    def _make_entry(self, id: str, marker: Marker) -> Entry:
        try:
            uri = Location.normalize_uri(self._settings.snapshots_location)
        except BadLocation as error:
            raise CatalogueError(str(error)) from error
        if self._settings.kafka and not self._settings.snapshots and not self._warned:
            self._warned = True
            _log.warning(
                "snapshots are stored in %s, where other hosts cannot find them: see the setting snapshots",
                uri,
            )
        return Entry(
            id=id, state="requested", log=self.log, offset=marker.end, uri=uri,
            requested_ms=marker.ts, updated_ms=self._now(),
        )  # fmt: skip

    # --- deleting

    def retire(self) -> None:
        """Delete snapshots beyond retention, and resume unfinished deletions."""
        retire(self.catalogue, self._settings.snapshots_keep, self._now(), manifest_keys(self._settings))
        self.read()

    def delete(self, id: str) -> Entry | None:
        """Delete a snapshot; return its entry if its files cannot be deleted yet, otherwise ``None``.

        Raises the errors 40480 and 40980.
        """
        now, entries = self._now(), self.read()
        entry = entries.get(id)
        if entry is None:
            raise SNAPSHOT_NOT_FOUND(id)
        why = reason_not_deletable(entries, id, now)
        if why:
            raise SNAPSHOT_BUSY(id, why)
        if entry.state == "building":
            self.catalogue.put(
                entry.in_state("failed", now, reason="its builder has stopped sending heartbeats")
            )
        gone = delete(self.catalogue, entry, now, manifest_keys(self._settings))
        left = self.read().get(id)
        if gone or left is None:
            return None
        if left.state != "deleting":
            raise SNAPSHOT_BUSY(id, f"it is {left.state} by now")
        return left


def _id_of(marker: Marker) -> str:
    try:
        chance = int(marker.request[:6], 16)
    except ValueError:
        chance = marker.offset  # A marker of another writer needs a unique id, too.
    return new_id(marker.end, marker.ts, chance)
