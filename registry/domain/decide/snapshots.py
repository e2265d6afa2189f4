"""Deciding about snapshots: a marker in the log for each one that is asked for."""

from __future__ import annotations

from registry.domain.commands import RequestSnapshot
from registry.domain.queries.snapshot_markers import marker_record, newest_marker
from registry.domain.rows.view import View

from .decision import Decision


def request_snapshot(view: View, command: RequestSnapshot) -> Decision:
    """Append a marker, unless the newest one still waits for its build or is this very request's.

    There is no reply: the newest marker's row says which snapshot it is.
    """
    marker = newest_marker(view)
    if marker is not None and (marker.offset > command.begun or marker.request == command.request):
        return Decision([], b"")
    return Decision([marker_record(command.request)], b"")
