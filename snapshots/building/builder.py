"""Building a snapshot: at which offset, upon which base, by which engine, and what the catalogue hears of it.

A build can be killed at any moment: parts are nobody's before their manifest, a request without a builder
that is heard of is anybody's again, and one whose manifest is there only has to be said ready.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from importlib import import_module
from secrets import randbits

from registry.config.settings import Settings
from registry.log.contract import LogError
from registry.log.embedded.log import now_ms
from registry.store.layout import StoreError
from snapshots.catalogue.builders import builder_name
from snapshots.catalogue.catalogue import Catalogue, CatalogueError, Entry, claim
from snapshots.catalogue.retention import retire
from snapshots.format import stored
from snapshots.format.files import BadLocation, LocationUnreachable
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest, new_id
from snapshots.format.stored import UnusableSnapshot
from snapshots.loading.candidates import TargetLog, newest_first, reason_lost_records, reason_unusable

from . import local
from .heartbeat import News
from .sources import Source, open_source, time_before
from .task import BuildFailed, Engine, Progress, Task

LOCAL, SPARK = "local", "spark"
FAILURES = (BuildFailed, LogError, StoreError, BadLocation, LocationUnreachable, UnusableSnapshot, OSError)
"""What a build may end with: the text is for the user."""
_BASE_FAILURES = (UnusableSnapshot, local.DamagedBase)
_log = logging.getLogger(__name__)


class Refused(BuildFailed):
    """Nothing was built; the text says why."""


def engine_named(name: str) -> Engine:
    """The engine. Raises :class:`BuildFailed` where it is not installed."""
    if name == LOCAL:
        return local.build
    try:
        # By its name, because PySpark is not for everybody.
        build: Engine = import_module("snapshots.spark.engine").build
    except ModuleNotFoundError as error:
        raise BuildFailed(
            f"{error}: the engine spark needs registrar[spark]; --engine local does not"
        ) from error
    return build


def build_now(
    settings: Settings,
    catalogue: Catalogue | None,
    engine: str,
    progress: Progress,
    *,
    offset: int | None = None,
    extend: bool = True,
    options: Mapping[str, str] | None = None,
) -> Manifest:
    """Build a snapshot without having been asked by the nodes: at ``offset``, or at the log's end.

    ``extend``: upon an earlier one, where there is one that fits. Raises one of :data:`FAILURES`.
    """
    source = open_source(settings)
    with closing(source.log):
        asked_ms = now_ms()
        end = source.end()
        if offset is not None and offset < 0:
            raise Refused(f"{offset} is no offset: those of a log begin with 0")
        if offset is not None and offset > end:
            raise Refused(f"the log ends at {end}, so there is no state at offset {offset} yet")
        if offset is None or offset == end:
            offset, at_end_ms = end, asked_ms
        else:
            at_end_ms = time_before(source.log, offset)
        task = Task(
            id=new_id(offset, asked_ms, randbits(24)),
            settings=settings,
            source=source,
            end=offset,
            base=None,
            location=Location.parse(settings.snapshots_location),
            at_end_ms=at_end_ms,
            began_ms=asked_ms,
            options=options or {},
        )
        entry = Entry(
            id=task.id, state="building", log=source.log.identity, offset=offset, uri=task.location.uri,
            requested_ms=asked_ms, updated_ms=asked_ms, builder=builder_name(os.getpid()), attempts=1,
        )  # fmt: skip
        news = News.first(catalogue, entry)
        try:
            return _recorded(news, lambda: _build(task, engine, progress, news, extend=extend))[1]
        except BaseException:
            # Nobody waits for it: an entry that has failed would be tried again.
            with suppress(CatalogueError):
                if catalogue is not None:
                    catalogue.forget(entry.id)
            raise


def build_request(
    settings: Settings, catalogue: Catalogue, entry: Entry, engine: str, progress: Progress
) -> Entry:
    """Build what the entry asks for, which this process has claimed or claims now; the entry as it is then.

    A build that fails leaves it ``failed`` with the reason. Raises
    :class:`snapshots.catalogue.catalogue.CatalogueError`, and :class:`Refused` when another one builds it.
    """
    if entry.state != "building":
        claimed = claim(catalogue, entry.id, builder_name(os.getpid()), now_ms())
        if claimed is None:
            raise Refused(f"{entry.id} is not to be built by this process: another one does, or it is gone")
        entry = claimed
    news = News(catalogue, entry, known=True)
    try:
        return _recorded(news, lambda: _requested(settings, entry, engine, progress, news))[0]
    except FAILURES as error:
        _log.error("the snapshot %s was not built: %s", entry.id, error)
        return catalogue.entries().get(entry.id, entry)


def build_and_retire(
    settings: Settings, catalogue: Catalogue, entry: Entry, engine: str, progress: Progress
) -> Entry:
    """As :func:`build_request`; then what need not be kept is deleted."""
    entry = build_request(settings, catalogue, entry, engine, progress)
    if entry.state == "ready":
        _log.info("the snapshot %s is ready: %d rows in %d bytes", entry.id, entry.rows, entry.size)
        retire(catalogue, settings.snapshots_keep, now_ms())
    return entry


def _requested(settings: Settings, entry: Entry, engine: str, progress: Progress, news: News) -> Manifest:
    location = Location.parse(entry.uri)
    with suppress(stored.SnapshotNotFound):
        manifest = stored.read(location, entry.id)
        if (manifest.log, manifest.offset) == (entry.log, entry.offset):
            return manifest
    source, began_ms = open_source(settings), now_ms()
    with closing(source.log):
        if source.log.identity != entry.log:
            raise Refused(f"it was asked for the log {entry.log}, and this is the log {source.log.identity}")
        if (end := source.end()) < entry.offset:
            raise Refused(f"the log ends at {end}, before the offset {entry.offset} that was asked for")
        location.delete(entry.id)
        task = Task(
            id=entry.id,
            settings=settings,
            source=source,
            end=entry.offset,
            base=None,
            location=location,
            at_end_ms=time_before(source.log, entry.offset) or entry.requested_ms,
            began_ms=began_ms,
        )
        return _build(task, engine, progress, news)


def _build(task: Task, engine: str, progress: Progress, news: News, *, extend: bool = True) -> Manifest:
    _sweep(task.location, news.catalogue)
    build = engine_named(engine)
    base = find_base(task.location, task.source, task.end) if extend else None
    if base:
        # From here on the others may be deleted.
        news.alive(base=base.id)
    begin = f"upon {base.id}" if base else "from the log's beginning"
    _log.info("snapshot %s: the log %s up to offset %d, %s, by the engine %s",
              task.id, task.source.log.identity, task.end, begin, engine)  # fmt: skip
    if base:
        try:
            return build(replace(task, base=base), progress)
        except _BASE_FAILURES as error:
            _log.warning("%s cannot be built upon: %s. The log is read from its beginning.", base.id, error)
            task = replace(task, began_ms=now_ms())
    return build(task, progress)


def find_base(location: Location, source: Source, end: int) -> Manifest | None:
    """The newest snapshot that one at ``end`` may be built upon; of the others a line says why not."""
    situation = TargetLog(source.log.identity, end, source.retention_ms, source.margin_ms, now_ms(), {})
    for manifest in newest_first(each for each in stored.manifests(location) if each.offset <= end):
        why = reason_unusable(manifest, situation)
        if not why and (divergence := source.log.divergence(manifest.lineage)) is not None:
            why = reason_lost_records(divergence)
        if not why:
            return manifest
        _log.info("%s cannot be built upon: %s", manifest.id, why)
    return None


def _sweep(location: Location, catalogue: Catalogue | None) -> None:
    now = now_ms()
    entries: Mapping[str, Entry] = {}
    with suppress(CatalogueError):
        entries = catalogue.entries() if catalogue else {}
    building = {each.id for each in entries.values() if each.state == "building" and not each.is_silent(now)}
    failed = {each.id for each in entries.values() if each.state == "failed"}
    for gone in stored.sweep(location, building, failed, now):
        _log.info("removed what a build that has ended left of %s", gone)


def _recorded(news: News, build: Callable[[], Manifest]) -> tuple[Entry, Manifest]:
    """Build while the catalogue hears that the builder is alive, then let it know what became of it."""
    try:
        with news.heard():
            manifest = build()
    except KeyboardInterrupt:
        news.interrupted()
        raise
    except BaseException as error:
        news.failed(str(error) or type(error).__name__)
        raise
    return news.ready(manifest), manifest
