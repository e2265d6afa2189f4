"""Markers of snapshots: the record in the log that requests one, and the decision to append it."""

from __future__ import annotations

import msgspec

from registry.domain.commands import RequestSnapshot
from registry.domain.log_format.records import SNAPSHOT, SNAPSHOT_KEY, Entry
from registry.domain.rows import layout
from registry.domain.rows.view import View

from .decision import Decision


class Marker(msgspec.Struct, frozen=True):
    """A marker as its row holds it."""

    # Random hexadecimal digits that identify the request.
    request: str
    # The offset of the record.
    offset: int = -1
    # When it was appended, in ms since the epoch.
    ts: int = 0

    @property
    def end(self) -> int:
        """The offset of the snapshot, which is that of the next record to apply."""
        return self.offset + 1


_decode = msgspec.json.Decoder(Marker).decode
_ROW = layout.cluster_key(SNAPSHOT)


def newest_marker(view: View) -> Marker | None:
    """Return the newest applied marker; ``None`` if there is none or it is not in this registry's form."""
    row = view.get(_ROW)
    try:
        return None if row is None else _decode(row)
    except msgspec.MsgspecError:
        return None


def marker_record(request: str) -> Entry:
    """Return the record that requests a snapshot."""
    return Entry(SNAPSHOT_KEY, msgspec.json.encode({"request": request}))


def request_snapshot(view: View, command: RequestSnapshot) -> Decision:
    """Append a marker, unless the newest one still waits for its build or belongs to this request.

    There is no reply: the row of the newest marker identifies the snapshot.
    """
    marker = newest_marker(view)
    if marker is not None and (marker.offset > command.begun or marker.request == command.request):
        return Decision([], b"")
    return Decision([marker_record(command.request)], b"")
