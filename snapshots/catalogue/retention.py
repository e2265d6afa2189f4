"""Which snapshots are deleted, and in which steps, each of which does no harm twice.

An entry is marked ``deleting`` first, so that nobody begins to use it; then its files go, the manifest before
all others; then the entry is forgotten. Whatever ended in between is gone on with by the next plan.
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
    """What a step does."""

    MARK = "mark"
    DELETE = "delete"
    FORGET = "forget"


class Step(NamedTuple):
    """One step on the way to an entry's end."""

    action: Action
    entry: Entry


class Folders(Protocol):
    """What is needed of a location."""

    def delete(self, folder: str) -> None:
        """Remove a snapshot's files, if they are there."""
        ...


def plan(entries: Iterable[Entry], keep: int, now_ms: int) -> list[Step]:
    """The steps that are left: of each log, ``keep`` ready snapshots stay, at least one, and as many failed.

    The base of a build is not deleted while it is built upon; which one that is need not be known yet, so
    that then nothing ready is.
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
    """The steps that end an entry."""
    left = [Action.DELETE, Action.FORGET] if entry.state == "deleting" else list(Action)
    return [Step(action, entry) for action in left]


def execute(
    planned: Iterable[Step], catalogue: Catalogue, location: Callable[[str], Folders], now_ms: int
) -> Iterator[Step]:
    """Make the steps, each as it is asked for. ``location`` opens a location by its URI.

    An entry that meanwhile became something else than what was planned for is left alone. Raises
    :class:`.catalogue.CatalogueError` and the errors of the location.
    """
    left_alone: set[str] = set()
    for step in planned:
        entry = step.entry
        if entry.id in left_alone:
            continue
        match step.action:
            case Action.MARK:
                stands = catalogue.put(entry.in_state("deleting", now_ms))
                if stands is None or stands.state != "deleting":
                    left_alone.add(entry.id)
                    continue
            case Action.DELETE:
                location(entry.uri).delete(entry.id)
            case Action.FORGET:
                catalogue.forget(entry.id)
                _log.info("the snapshot %s was deleted", entry.id)
        yield step


def retire(catalogue: Catalogue, keep: int, now_ms: int) -> None:
    """Delete what need not be kept; what cannot be deleted now is left for the next time.

    Raises :class:`.catalogue.CatalogueError`.
    """
    for entry in {
        step.entry.id: step.entry for step in plan(catalogue.entries().values(), keep, now_ms)
    }.values():
        delete(catalogue, entry, now_ms)


def delete(catalogue: Catalogue, entry: Entry, now_ms: int) -> bool:
    """Take all steps that end an entry; whether it is gone. Raises :class:`.catalogue.CatalogueError`."""
    try:
        made = [step.action for step in execute(steps(entry), catalogue, Location.parse, now_ms)]
    except (BadLocation, LocationUnreachable) as error:
        _log.warning("the snapshot %s cannot be deleted now: %s", entry.id, error)
        return False
    return Action.FORGET in made


def reason_not_deletable(entries: Mapping[str, Entry], id: str, now_ms: int) -> str:
    """Why somebody who wants the entry of this id deleted must wait, in words; empty when nothing hinders."""
    entry = entries[id]
    if entry.state == "building" and not entry.is_silent(now_ms):
        return f"it is being built by {entry.builder}"
    for each in entries.values():
        live = each.state == "building" and not each.is_silent(now_ms) and each.log == entry.log
        if live and entry.state == "ready" and each.base in ("", id):
            return f"the snapshot {each.id} is being built and may be built upon it"
    return ""
