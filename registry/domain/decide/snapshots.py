"""Decisions on snapshots: a marker in the log for each request."""

from __future__ import annotations

from registry.domain.commands import RequestSnapshot
from registry.domain.queries.snapshot_markers import marker_record, newest_marker
from registry.domain.rows.view import View

from .decision import Decision


def request_snapshot(view: View, command: RequestSnapshot) -> Decision:
    """Append a marker, unless the newest one still waits for its build or belongs to this request.

    There is no reply: the row of the newest marker identifies the snapshot.
    """
    marker = newest_marker(view)
    if marker is not None and (marker.offset > command.begun or marker.request == command.request):
        return Decision([], b"")
    return Decision([marker_record(command.request)], b"")
