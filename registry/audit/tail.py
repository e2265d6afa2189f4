"""The newest entries of an audit log that is a file: read from its end, filtered, with bounded work.

A position is where an entry begins, so the next page continues exactly there, whatever is appended meanwhile.
Once the file was rotated, positions in it are no longer valid.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

# What one request reads of the file, and of one entry.
BYTES_MAX: Final = 4 << 20
_BLOCK_BYTES: Final = 128 << 10
# A time is looked for by halves until so few bytes are left. By so much an entry may stand out of order.
_NEAR_BYTES: Final = 64 << 10
# Parameters of queries whose texts can be sensitive: a read that was refused names what it looked for.
_MASKED: Final = ("value", "query")
MASK: Final = "…"


class AuditFilter(msgspec.Struct, frozen=True):
    """Which entries are wanted; empty texts let all pass. Times are as in entries, and so can be compared."""

    principal: str = ""
    # A part of the method and path.
    operation: str = ""
    # How the subject's name begins.
    subject: str = ""
    # ``done``, ``refused`` or ``unknown``.
    outcome: str = ""
    # Entries from this time on, and before that one.
    since: str = ""
    until: str = ""


class Position(msgspec.Struct, frozen=True, array_like=True):
    """A byte of a file, of which ``file`` is the inode."""

    file: int
    at: int


class AuditEntry(msgspec.Struct, frozen=True, array_like=True):
    """An entry as its file has it, but for what is masked, and where it begins."""

    time: str
    position: Position
    members: dict[str, Any]


class AuditPage(msgspec.Struct, frozen=True):
    """Entries, the newest first."""

    entries: list[AuditEntry]
    # Where it was begun, and where to continue; ``None``: nothing is in the file, or nothing older.
    begin: Position | None = None
    rest: Position | None = None
    # The time of the oldest entry that was looked at; empty: none.
    oldest: str = ""


class AuditQuery(msgspec.Struct, frozen=True):
    """A question about the audit logs of all nodes."""

    wanted: AuditFilter
    limit: int
    # Where to continue on each node, by its id; ``None``: at its newest entry. Empty: so on all nodes.
    positions: dict[str, Position | None] = {}


class Destination(NamedTuple):
    """Where a node writes its audit log: ``file``, ``topic`` (with its name), ``stdout`` or ``none``."""

    kind: str
    topic: str = ""


class NodeAudit(msgspec.Struct, frozen=True):
    """The part of one node in an answer."""

    node: str
    destination: str
    topic: str
    # The time of the oldest entry that was looked at; ``None``: there was none.
    oldest: str | None
    # Why its entries are missing; empty if they are not.
    problem: str


class AuditEntries(msgspec.Struct, frozen=True):
    """Entries of all nodes, the newest first, each with the URL of its node."""

    entries: list[dict[str, Any]]
    # Where to continue, as in :class:`AuditQuery`; empty: nothing older is there.
    rest: dict[str, Position | None]
    nodes: list[NodeAudit]
    # URLs of the nodes that did not answer.
    missing: list[str]


class Rotated(Exception):
    """The position is in a file that was rotated."""


class _Line(msgspec.Struct, frozen=True):
    time: str
    event: str = ""
    operation: str = ""
    principal: str = ""
    subject: str = ""
    outcome: str = ""


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_members = msgspec.json.Decoder(dict[str, Any]).decode


def read_tail(path: Path, wanted: AuditFilter, limit: int, begin: Position | None = None) -> AuditPage:
    """Return up to ``limit`` entries before a position, or the newest.

    Raises :class:`Rotated`, ``OSError``.
    """
    if path.exists() and not path.is_file():
        raise OSError("it is not a regular file")  # a reader of a pipe would take its lines away
    with path.open("rb", buffering=0) as file:
        state = os.fstat(file.fileno())
        if begin is not None and (begin.file != state.st_ino or begin.at > state.st_size):
            raise Rotated
        end = state.st_size if begin is None else begin.at
        if begin is None and wanted.until:
            end = _end_before(file, end, wanted.until)
        entries: list[AuditEntry] = []
        oldest, rest, stop = "", end, 0
        for at, text in _lines_before(file, end):
            if at < stop:
                return AuditPage(entries, Position(state.st_ino, end), None, oldest)
            rest = at
            try:
                line = _decode_line(text)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # torn by a full disk
            oldest = line.time
            if line.time < wanted.since:  # a newer one may stand a little before it, see below
                stop = max(stop, at - _NEAR_BYTES)
            if _passes(line, wanted):
                entries.append(AuditEntry(line.time, Position(state.st_ino, at), _members(text)))
                if len(entries) == limit:
                    break
        if rest == end:  # no line ends here
            rest = max(0, end - BYTES_MAX)
    left = Position(state.st_ino, rest) if rest > 0 else None
    return AuditPage(entries, Position(state.st_ino, end), left, oldest)


def _passes(line: _Line, wanted: AuditFilter) -> bool:
    return (
        (not wanted.principal or line.principal == wanted.principal)
        and wanted.operation.lower() in line.operation.lower()
        and line.subject.startswith(wanted.subject)
        and (not wanted.outcome or line.outcome == wanted.outcome)
        and line.time >= wanted.since
        and (not wanted.until or line.time < wanted.until)
    )


def _members(text: bytes) -> dict[str, Any]:
    found = _decode_members(text)
    options = found.get("options")
    if isinstance(options, dict):
        found["options"] = {name: MASK if name in _MASKED else value for name, value in options.items()}
    return found


def _lines_before(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield where each line begins, and its text, backwards from ``end``; of :data:`BYTES_MAX` at most."""
    at, stop, rest = end, max(0, end - BYTES_MAX), b""
    while at > stop:
        size = min(_BLOCK_BYTES, at - stop)
        at -= size
        file.seek(at)
        text = file.read(size) + rest
        # The first piece may be the end of a line that begins before.
        whole = text.find(b"\n") + 1 if at > 0 else 0
        if at > 0 and not whole:
            rest = text
            continue
        ends = at + len(text)
        for line in reversed(text[whole:].split(b"\n")):
            ends -= len(line)
            if line:
                yield ends, line
            ends -= 1
        rest = text[:whole]


def _end_before(file: BinaryIO, size: int, until: str) -> int:
    """Return a place behind all entries before a time, and not far behind: entries are nearly in order."""
    low, high = 0, size
    while high - low > _NEAR_BYTES:
        middle = (low + high) // 2
        found = _time_after(file, middle)
        if found and found < until:
            low = middle
        else:
            high = middle
    file.seek(high)
    rest = file.read(_NEAR_BYTES)
    # Processes append side by side, so an entry may stand a little behind a newer one.
    return high + rest.rfind(b"\n") + 1


def _time_after(file: BinaryIO, at: int) -> str:
    """Return the time of the first entry that begins behind a byte; empty if none is near."""
    file.seek(at)
    for line in file.read(2 * _BLOCK_BYTES).split(b"\n")[1:-1]:
        try:
            return _decode_line(line).time
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return ""
