"""Tickets in the log: which command a record is of and what it was answered, in a note beside the record.

A command's last record carries its note. So whoever follows the log knows which commands were done, and a new
primary answers one that is sent again as the former one would have, instead of doing it twice. Notes are no
part of the truth: rows come of keys and values alone, and a log without notes gives the same rows.
"""

from __future__ import annotations

from typing import NamedTuple

from registry.domain.commands import TICKET_BYTES

_WITH_BRIEF, _WITHOUT = b"\x01", b"\x00"
NOTE_BYTES_MIN = 1 + TICKET_BYTES
"""Of a note without a brief."""


class Note(NamedTuple):
    """A command that was done."""

    ticket: bytes
    """The ticket's id."""
    brief: bytes | None
    """See :class:`.decide.Decision`; ``None`` where there was no room for it: the reply is lost."""


def note_of(ticket: bytes, brief: bytes, bytes_max: int) -> bytes:
    """A note as it stands in the log, without its brief where that takes more than ``bytes_max``."""
    note = b"%b%b%b" % (_WITH_BRIEF, ticket, brief)
    return note if len(note) <= bytes_max else _WITHOUT + ticket


def read_note(raw: bytes) -> Note | None:
    """The note; ``None`` for what is none of this version's."""
    if len(raw) < NOTE_BYTES_MIN or raw[:1] not in (_WITH_BRIEF, _WITHOUT):
        return None
    ticket = raw[1:NOTE_BYTES_MIN]
    return Note(ticket, raw[NOTE_BYTES_MIN:] if raw[:1] == _WITH_BRIEF else None)
