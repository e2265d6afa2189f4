"""Building a snapshot: choosing its offset, base and engine, and keeping its catalogue entry up to date.

A build can be killed at any moment: parts without a manifest do not count, a request whose builder sends no
heartbeats can be taken again, and one whose manifest exists only has to be marked ready.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from secrets import randbits
from types import MappingProxyType

from registry.base.config.settings import Settings
from registry.log.contract import LogError
from registry.log.embedded.log import now_ms
from registry.store.layout import StoreError
from snapshots.catalogue.catalogue import Catalogue, CatalogueError, Entry, builder_name, take_request
from snapshots.catalogue.open import manifest_keys, open_location
from snapshots.catalogue.retention import retire
from snapshots.format import stored
from snapshots.format.files import BadLocation, LocationUnreachable
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest, new_id
from snapshots.format.stored import UnusableSnapshot
from snapshots.loading.candidates import TargetLog, newest_first, reason_lost_records, reason_unusable

from . import delta
from .cost import StepCosts
from .delta import DeltaLimits, TooMuchChanged, is_full, reason_for_full
from .engines import AUTO, LOCAL, choose, engine_named
from .heartbeat import BuildHeartbeat, RequestLost
from .sources import LogSource, open_source, time_before
from .task import BuildFailed, Engine, EngineFailed, EngineUnavailable, Progress, Task, WrongRows

# Errors of a build; their texts are for the user.
FAILURES = (BuildFailed, LogError, StoreError, BadLocation, LocationUnreachable, UnusableSnapshot, OSError)
_BASE_FAILURES = (UnusableSnapshot, WrongRows)
_log = logging.getLogger(__name__)


class BuildRefused(BuildFailed):
    """The build was not started; the text says why."""


def build_now(
    settings: Settings,
    catalogue: Catalogue | None,
    engine: str,
    progress: Progress,
    *,
    offset: int | None = None,
    extend: bool = True,
    options: Mapping[str, str] | None = None,
    limits: DeltaLimits | None = None,
) -> Manifest:
    """Build a snapshot that no node requested, at ``offset`` or at the log's end.

    ``extend``: extend an earlier snapshot if one fits. ``limits``: if not those of the settings.
    Raises one of :data:`FAILURES`.
    """
    source = open_source(settings)
    with closing(source.log):
        asked_ms = now_ms()
        end = source.end()
        if offset is not None and offset < 0:
            raise BuildRefused(f"{offset} is not an offset: offsets begin with 0")
        if offset is not None and offset > end:
            raise BuildRefused(f"the log ends at {end}, so there is no state at offset {offset} yet")
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
            location=open_location(settings),
            at_end_ms=at_end_ms,
            began_ms=asked_ms,
            options=options or {},
        )
        entry = Entry(
            id=task.id, state="building", log=source.log.identity, offset=offset, uri=task.location.uri,
            requested_ms=asked_ms, updated_ms=asked_ms, builder=builder_name(os.getpid()), attempts=1,
        )  # fmt: skip
        heartbeat = BuildHeartbeat.first(catalogue, entry, settings.snapshots_build_timeout_s)
        try:
            costs = StepCosts(progress)
            return _build_and_record(
                heartbeat,
                costs,
                lambda: _build(task, engine, costs, heartbeat, extend=extend, limits=limits),
            )[1]
        except RequestLost:
            raise  # The entry is another builder's now.
        except BaseException:
            # No node waits for this snapshot, and a failed entry would be retried.
            with suppress(CatalogueError):
                if catalogue is not None:
                    catalogue.forget(entry.id)
            raise


def build_request(
    settings: Settings,
    catalogue: Catalogue,
    entry: Entry,
    engine: str,
    progress: Progress,
    options: Mapping[str, str] | None = None,
) -> Entry:
    """Build a requested snapshot, taking the request if this process has not; return the final entry.

    A failed build leaves the entry ``failed`` with the reason. Raises
    :class:`snapshots.catalogue.catalogue.CatalogueError`, and :class:`BuildRefused` if another process
    builds it.
    """
    if entry.state != "building":
        taken = take_request(catalogue, entry.id, builder_name(os.getpid()), now_ms())
        if taken is None:
            raise BuildRefused(
                f"this process cannot build {entry.id}: another one does, or the request is gone"
            )
        entry = taken
    limit_s = settings.snapshots_build_timeout_s
    heartbeat = BuildHeartbeat(catalogue, entry, known=True, limit_s=limit_s)
    try:
        costs = StepCosts(progress)
        return _build_and_record(
            heartbeat,
            costs,
            lambda: _build_requested(settings, entry, engine, costs, heartbeat, options or {}),
        )[0]
    except FAILURES as error:
        _log.error("cannot build the snapshot %s: %s", entry.id, error)
        return catalogue.entries().get(entry.id, entry)


def build_and_retire(
    settings: Settings,
    catalogue: Catalogue,
    entry: Entry,
    engine: str,
    progress: Progress,
    options: Mapping[str, str] | None = None,
) -> Entry:
    """Call :func:`build_request`, then delete snapshots beyond retention."""
    entry = build_request(settings, catalogue, entry, engine, progress, options)
    if entry.state == "ready":
        _log.info("the snapshot %s is ready: %d rows in %d bytes", entry.id, entry.rows, entry.size)
        retire(catalogue, settings.snapshots_keep, now_ms(), manifest_keys(settings))
    return entry


def _build_requested(
    settings: Settings,
    entry: Entry,
    engine: str,
    costs: StepCosts,
    heartbeat: BuildHeartbeat,
    options: Mapping[str, str],
) -> Manifest:
    location = Location.parse(entry.uri, manifest_keys(settings))
    with suppress(UnusableSnapshot):
        manifest = stored.read_manifest(location, entry.id)
        if (manifest.log, manifest.offset) == (entry.log, entry.offset):
            stored.check_files(location, manifest)
            # One that another release has written may have another hash than the entry would announce.
            return stored.read_manifest(location, entry.id, manifest.sha256)
    source, began_ms = open_source(settings), now_ms()
    with closing(source.log):
        if source.log.identity != entry.log:
            raise BuildRefused(f"it was requested for the log {entry.log}, but this is {source.log.identity}")
        if (end := source.end()) < entry.offset:
            raise BuildRefused(f"the log ends at {end}, before the requested offset {entry.offset}")
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
            options=options,
        )
        return _build(task, engine, costs, heartbeat)


def _build(
    task: Task,
    engine: str,
    costs: StepCosts,
    heartbeat: BuildHeartbeat,
    *,
    extend: bool = True,
    limits: DeltaLimits | None = None,
) -> Manifest:
    limits = limits or DeltaLimits(task.settings.snapshots_deltas)
    progress = heartbeat.reporting(costs)
    entries = _entries(heartbeat.catalogue)
    _sweep(task.location, entries)
    bases = usable_bases(task.location, task.source, task.end, entries) if extend else iter(())
    newest = next(bases, None)
    base = next((each for each in (newest, *bases) if each and is_full(each)), None)
    if newest and (built := _build_delta(replace(task, base=newest), base, progress, heartbeat, limits)):
        return built
    chosen = choose(engine)
    if base:
        # From here on, other snapshots may be deleted.
        heartbeat.beat(base=base.id)
    begin = f"extending {base.id}" if base else "from the log's beginning"
    _log.info("snapshot %s: the log %s up to offset %d, %s, by the engine %s",
              task.id, task.source.log.identity, task.end, begin, chosen)  # fmt: skip
    size = replace(task, base=base).log_size()
    costs.building(size.records, base.rows if base else 0)
    try:
        return _build_with(engine_named(chosen.name), replace(task, size=size), base, progress)
    except (EngineUnavailable, EngineFailed) as error:
        if engine != AUTO or chosen.name == LOCAL:
            raise
        _log.warning("%s; building by the engine %s instead", error, LOCAL)
        return _build_with(engine_named(LOCAL), _restart(task), base, progress)


def _build_delta(
    task: Task, full: Manifest | None, progress: Progress, heartbeat: BuildHeartbeat, limits: DeltaLimits
) -> Manifest | None:
    """Build a delta upon the task's base; ``None`` if a full snapshot must be built instead."""
    assert task.base is not None
    if why := reason_for_full(task.base, task, full, limits):
        _log.info("snapshot %s will be a full one: %s", task.id, why)
        return None
    if not heartbeat.beat(base=task.base.id):
        # Nothing would keep the files of the base until the manifest refers to them.
        _log.info("snapshot %s will be a full one: the catalogue does not know of its build", task.id)
        return None
    _log.info("snapshot %s: the log %s up to offset %d, as a delta upon %s",
              task.id, task.source.log.identity, task.end, task.base.id)  # fmt: skip
    try:
        made = delta.build(task, progress)
        _check_that_needs_stay(task.location, made, heartbeat)
    except (*_BASE_FAILURES, TooMuchChanged) as error:
        _log.warning("cannot build a delta upon %s: %s; building a full snapshot", task.base.id, error)
        task.location.delete(task.id)
        return None
    return made


def _check_that_needs_stay(location: Location, made: Manifest, heartbeat: BuildHeartbeat) -> None:
    """Raise :class:`UnusableSnapshot` if what a published delta needs is, or may be, about to be deleted.

    Who deletes first marks the entry, and then asks the manifests in the location. So if nothing is marked
    now, that finds this one.
    """
    try:
        entries = heartbeat.catalogue.entries() if heartbeat.catalogue else {}
    except CatalogueError as error:
        raise UnusableSnapshot(f"the catalogue cannot confirm that it stays: {error}") from error
    if going := [each for each in made.needs if each in entries and entries[each].state == "deleting"]:
        raise UnusableSnapshot(f"{going[0]} is being deleted")
    stored.check_files(location, made)


def _build_with(build: Engine, task: Task, base: Manifest | None, progress: Progress) -> Manifest:
    """Build upon the base, if there is one; otherwise, or if that fails, from the log's beginning.

    If the files then do not hold the rows that were folded, the log is folded once more.
    """
    if base:
        try:
            return build(replace(task, base=base), progress)
        except _BASE_FAILURES as error:
            _log.warning("cannot extend %s: %s; reading the log from its beginning", base.id, error)
            task = replace(_restart(task), size=None)
    try:
        return build(task, progress)
    except WrongRows as error:
        _log.warning("snapshot %s: %s; reading the log again", task.id, error)
        return build(_restart(task), progress)


def _restart(task: Task) -> Task:
    """Return the task as it begins now, without the files of an earlier attempt."""
    task.location.delete(task.id)
    return replace(task, began_ms=now_ms())


def usable_bases(
    location: Location, source: LogSource, end: int, entries: Mapping[str, Entry] = MappingProxyType({})
) -> Iterator[Manifest]:
    """Yield the snapshots that one at ``end`` may extend, the newest first; log why others do not fit.

    ``entries``: those of the catalogue, which say if a snapshot was replaced or is not ready.
    """
    situation = TargetLog(source.log.identity, end, source.retention_ms, source.margin_ms, now_ms(), {})
    for manifest in newest_first(each for each in stored.manifests(location) if each.offset <= end):
        why = reason_unusable(manifest, situation)
        if not why and (divergence := source.log.divergence(manifest.lineage)) is not None:
            why = reason_lost_records(divergence)
        if not why and manifest.id in entries:
            why = _reason_not_announced(location, entries[manifest.id])
        if why:
            _log.info("cannot extend %s: %s", manifest.id, why)
        else:
            yield manifest


def _reason_not_announced(location: Location, entry: Entry) -> str:
    """Return why the manifest in the location is not one that an entry announces; empty if it is.

    One that is not ready yet may be withdrawn.
    """
    if entry.state != "ready":
        return f"it is {entry.state}"
    try:
        stored.read_manifest(location, entry.id, entry.manifest)
    except UnusableSnapshot as error:
        return str(error)
    return ""


def _entries(catalogue: Catalogue | None) -> Mapping[str, Entry]:
    """Return the catalogue's entries; none if it cannot be read."""
    with suppress(CatalogueError):
        return catalogue.entries() if catalogue else {}
    return {}


def _sweep(location: Location, entries: Mapping[str, Entry]) -> None:
    now = now_ms()
    building = {each.id for each in entries.values() if each.state == "building" and not each.is_silent(now)}
    failed = {each.id for each in entries.values() if each.state == "failed"}
    for gone in stored.sweep(location, building, failed, now):
        _log.info("deleted what an earlier build left of %s", gone)


def _build_and_record(
    heartbeat: BuildHeartbeat, costs: StepCosts, build: Callable[[], Manifest]
) -> tuple[Entry, Manifest]:
    """Build while heartbeats are sent, then write the outcome and the cost to the catalogue."""
    try:
        with heartbeat.beating():
            manifest = build()
    except KeyboardInterrupt:
        heartbeat.release()
        raise
    except BaseException as error:
        heartbeat.mark_failed(str(error) or type(error).__name__)
        raise
    if not costs.has_steps:
        return heartbeat.ready(manifest), manifest  # It was there already.
    _log.info("snapshot %s: %s", manifest.id, costs.describe(manifest.rows))
    total = costs.total
    fields = {"wall_s": total.wall_s, "cpu_s": total.cpu_s, "local_cpu_s": costs.local_cpu_s(manifest.rows)}
    return heartbeat.ready(manifest, **fields), manifest
