"""Deleting snapshots that need not be kept, in steps that can be repeated.

Some snapshots refer to files of others. So those that stay mark what they need, and the rest is deleted. One
whose files a manifest in the location refers to, which the catalogue may not know, is left too. With keys,
only signed manifests count, so nobody else can prevent deletions by a manifest of their own.

An entry is marked ``deleting`` first, so that no process begins to use it; then the manifests are asked, and
its files are deleted, its own manifest before all others; then the entry is removed. The next plan resumes an
interrupted deletion. A builder of a delta looks in the opposite order: it publishes its manifest, then asks
if what that needs is marked. So one of both notices the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from snapshots.format.files import BadLocation, LocationUnreachable
from snapshots.format.location import Location
from snapshots.format.manifest import NO_KEYS, ManifestKeys
from snapshots.format.stored import holder_of

from .catalogue import Catalogue, Entry, newest_first

_log = logging.getLogger(__name__)


class Action(Enum):
    """The action of one step."""

    MARK = "mark"
    DELETE = "delete"
    FORGET = "forget"


class DeletionStep(NamedTuple):
    """One step of an entry's deletion."""

    action: Action
    entry: Entry


def plan(entries: Iterable[Entry], keep: int, now_ms: int) -> list[DeletionStep]:
    """Return the steps to take: for each log, ``keep`` ready entries stay, at least one, and as many failed.

    So do those whose files they need, the base of a running build, and what that needs. If a build has not
    announced its base yet, no ready snapshot is deleted.
    """
    entries = list(entries)
    going = [each for each in entries if each.state == "deleting"]
    for log in {each.log for each in entries}:
        of_log = [each for each in entries if each.log == log]
        building = [each for each in of_log if each.state == "building" and not each.is_silent(now_ms)]
        bases = {each.base for each in building}
        ready = newest_first(each for each in of_log if each.state == "ready")
        kept = [*ready[: max(1, keep)], *(each for each in ready if each.id in bases)]
        marked = {each.id for each in kept}.union(*(each.needs for each in kept))
        going += [] if "" in bases else [each for each in ready if each.id not in marked]
        failed = (each for each in of_log if each.state == "failed" and not each.is_free(now_ms))
        going += newest_first(failed)[keep:]
    # Those that need others go before them.
    order = sorted(going, key=lambda each: (not each.needs, -each.offset if each.needs else each.offset))
    return [step for each in order for step in steps(each)]


def steps(entry: Entry) -> list[DeletionStep]:
    """Return the steps that delete an entry."""
    left = [Action.DELETE, Action.FORGET] if entry.state == "deleting" else list(Action)
    return [DeletionStep(action, entry) for action in left]


def execute(
    planned: Iterable[DeletionStep], catalogue: Catalogue, location: Callable[[str], Location], now_ms: int
) -> Iterator[DeletionStep]:
    """Take the steps one by one as the iterator advances. ``location`` opens a location by its URI.

    An entry that has changed since it was planned is skipped. Raises
    :class:`.catalogue.CatalogueError` and the errors of the location.
    """
    skipped: set[str] = set()
    for step in planned:
        entry = step.entry
        if entry.id in skipped:
            continue
        match step.action:
            case Action.MARK:
                current = catalogue.put(entry.in_state("deleting", now_ms))
                if current is None or current.state != "deleting":
                    skipped.add(entry.id)
                    continue
            case Action.DELETE:
                where = location(entry.uri)
                if holder := holder_of(where, entry.id):
                    _log.info("the snapshot %s is not deleted yet: %s needs its files", entry.id, holder)
                    skipped.add(entry.id)
                    continue
                where.delete(entry.id)
            case Action.FORGET:
                catalogue.forget(entry.id)
                _log.info("the snapshot %s was deleted", entry.id)
        yield step


def retire(catalogue: Catalogue, keep: int, now_ms: int, keys: ManifestKeys = NO_KEYS) -> None:
    """Delete snapshots that need not be kept; any that cannot be deleted now are left for the next time.

    ``keys``: those that manifests must be signed with. Raises :class:`.catalogue.CatalogueError`.
    """
    for entry in {
        step.entry.id: step.entry for step in plan(catalogue.entries().values(), keep, now_ms)
    }.values():
        delete(catalogue, entry, now_ms, keys)


def delete(catalogue: Catalogue, entry: Entry, now_ms: int, keys: ManifestKeys = NO_KEYS) -> bool:
    """Delete an entry and its files; return whether it is gone. Raises :class:`.catalogue.CatalogueError`."""

    def location(uri: str) -> Location:
        return Location.parse(uri, keys)

    try:
        made = [step.action for step in execute(steps(entry), catalogue, location, now_ms)]
    except (BadLocation, LocationUnreachable) as error:
        _log.warning("cannot delete the snapshot %s now: %s", entry.id, error)
        return False
    return Action.FORGET in made


def reason_not_deletable(entries: Mapping[str, Entry], id: str, now_ms: int) -> str:
    """Return why an entry cannot be deleted now; empty if it can."""
    entry = entries[id]
    if entry.state == "building" and not entry.is_silent(now_ms):
        return f"it is being built by {entry.builder}"
    for each in entries.values():
        if each.state == "ready" and id in each.needs:
            return f"the snapshot {each.id} needs its files"
        live = each.state == "building" and not each.is_silent(now_ms) and each.log == entry.log
        base = entries.get(each.base)
        if live and entry.state == "ready" and (each.base in ("", id) or (base and id in base.needs)):
            return f"the snapshot {each.id} is being built and may be built upon it"
    return ""
