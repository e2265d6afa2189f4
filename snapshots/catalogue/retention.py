"""Deleting snapshots that need not be kept, in steps that can be repeated.

An entry is marked ``deleting`` first, so that no process begins to use it; then its files are deleted, the
manifest before all others; then the entry is removed. The next plan resumes an interrupted deletion.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from snapshots.format.files import BadLocation, LocationUnreachable
from snapshots.format.location import Location

from .catalogue import Catalogue, Entry, newest_first

_log = logging.getLogger(__name__)


class Action(Enum):
    """The action of one step."""

    MARK = "mark"
    DELETE = "delete"
    FORGET = "forget"


class Step(NamedTuple):
    """One step of an entry's deletion."""

    action: Action
    entry: Entry


class Folders(Protocol):
    """The part of a location that deletion needs."""

    def delete(self, folder: str) -> None:
        """Delete a snapshot's files if they exist."""
        ...


def plan(entries: Iterable[Entry], keep: int, now_ms: int) -> list[Step]:
    """Return the steps to take: for each log, ``keep`` ready entries stay, at least one, and as many failed.

    The base of a running build is not deleted. If a build has not announced its base yet, no ready snapshot
    is deleted.
    """
    entries = list(entries)
    going = [each for each in entries if each.state == "deleting"]
    for log in {each.log for each in entries}:
        of_log = [each for each in entries if each.log == log]
        building = [each for each in of_log if each.state == "building" and not each.is_silent(now_ms)]
        bases = {each.base for each in building}
        ready = newest_first(each for each in of_log if each.state == "ready")[max(1, keep) :]
        going += [] if "" in bases else [each for each in ready if each.id not in bases]
        failed = (each for each in of_log if each.state == "failed" and not each.is_free(now_ms))
        going += newest_first(failed)[keep:]
    return [step for each in sorted(going, key=lambda each: each.offset) for step in steps(each)]


def steps(entry: Entry) -> list[Step]:
    """Return the steps that delete an entry."""
    left = [Action.DELETE, Action.FORGET] if entry.state == "deleting" else list(Action)
    return [Step(action, entry) for action in left]


def execute(
    planned: Iterable[Step], catalogue: Catalogue, location: Callable[[str], Folders], now_ms: int
) -> Iterator[Step]:
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
                location(entry.uri).delete(entry.id)
            case Action.FORGET:
                catalogue.forget(entry.id)
                _log.info("the snapshot %s was deleted", entry.id)
        yield step


def retire(catalogue: Catalogue, keep: int, now_ms: int) -> None:
    """Delete snapshots that need not be kept; any that cannot be deleted now are left for the next time.

    Raises :class:`.catalogue.CatalogueError`.
    """
    for entry in {
        step.entry.id: step.entry for step in plan(catalogue.entries().values(), keep, now_ms)
    }.values():
        delete(catalogue, entry, now_ms)


def delete(catalogue: Catalogue, entry: Entry, now_ms: int) -> bool:
    """Delete an entry and its files; return whether it is gone. Raises :class:`.catalogue.CatalogueError`."""
    try:
        made = [step.action for step in execute(steps(entry), catalogue, Location.parse, now_ms)]
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
        live = each.state == "building" and not each.is_silent(now_ms) and each.log == entry.log
        if live and entry.state == "ready" and each.base in ("", id):
            return f"the snapshot {each.id} is being built and may be built upon it"
    return ""
