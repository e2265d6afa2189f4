"""Reading the history of one owner."""

from __future__ import annotations

from collections.abc import Iterator

from registry.domain.events.event import Event
from registry.domain.model import Subject
from registry.domain.rows.layout import after
from registry.domain.rows.view import History, View

from .entries import OFFSET_BYTES, HistoryEntry, entry_key, event_for, packed_owner, unpacked


def has_any(history: History, subject: Subject) -> bool:
    """Return true if the history has an entry of a subject or a context."""
    return newest(history, packed_owner(subject)) is not None


def newest(history: History, owner: bytes) -> int | None:
    """Return the offset of the newest entry of an owner, packed as in keys."""
    found = history.seek_back(after(owner))
    return int.from_bytes(found[0][-OFFSET_BYTES:], "big") if found and _is_of(found[0], owner) else None


def entries(history: History, owner: bytes, begin: int = 0) -> Iterator[HistoryEntry]:
    """Yield the entries of an owner from an offset on, ascending."""
    found = history.seek(entry_key(owner, begin))
    while found is not None and _is_of(found[0], owner):
        yield unpacked(*found)
        found = history.seek(found[0] + b"\0")


def walk(
    view: View, subject: Subject, past: int | None = None, *, ascending: bool = False
) -> Iterator[Event]:
    """Walk the events of a subject or a context, the newest first, after the one at the offset ``past``."""
    owner = packed_owner(subject)
    key = entry_key(owner, past) if past is not None else owner if ascending else after(owner)
    while (history := view.history()) is not None:
        found = history.seek(key + b"\0") if ascending else history.seek_back(key)
        if found is None or not _is_of(found[0], owner):
            return
        key = found[0]
        yield event_for(unpacked(*found), subject)


def _is_of(key: bytes, owner: bytes) -> bool:
    return len(key) == len(owner) + OFFSET_BYTES and key.startswith(owner)
