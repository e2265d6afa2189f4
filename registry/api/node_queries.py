"""The table of what a host's processes may ask its node, one row a query.

A row has a number, which no other query ever gets, the types of the request and of the answer, and how long
the answer may take. :meth:`.backend.Backend.ask` sends the request; the node's handlers are in
``registry/node/node_service.py``.
"""

from __future__ import annotations

from types import NoneType
from typing import Final

import msgspec

from registry.audit.tail import AuditEntries, AuditQuery
from registry.domain.errors import OUTCOME_UNKNOWN, TOO_LATE, UNAVAILABLE, ErrorKind
from registry.domain.history.moment import Moment, OwnerRows
from registry.feed.contract import Page
from snapshots.catalogue.catalogue import Entry

from .asks import Askers, AskersOf, Asks
from .backend import ClusterStatus, NodeQuery, NodeStatus, Unanswered


class OwnersAt(msgspec.Struct, frozen=True):
    """Owners and the moment of their rows; ``asker`` is the client, who has turns of its own."""

    moment: Moment
    owners: list[bytes]
    asker: str = ""


class EventsFrom(msgspec.Struct, frozen=True):
    """A position in the change feed; at the end of the log the node waits ``wait_s`` for the next events."""

    position: int
    wait_s: float


def _always(kind: ErrorKind, *values: object) -> Unanswered:
    """Return what replaces every error."""
    return lambda _: kind(*values)


def _late(kind: ErrorKind, *values: object) -> Unanswered:
    """Return what replaces only the error for an answer that did not come in time."""
    return lambda error: kind(*values) if error.code == OUTCOME_UNKNOWN.code else error


_SILENT: Final = "This host's node does not answer"
# The state of the node.
STATUS: Final = NodeQuery(1, NoneType, NodeStatus, timeout_s=2.0, unanswered=_always(UNAVAILABLE, _SILENT))
# All nodes, as this one knows them.
CLUSTER: Final = NodeQuery(
    2, NoneType, ClusterStatus, timeout_s=2.0,
    unanswered=_always(UNAVAILABLE, _SILENT),
)  # fmt: skip
# The metrics of the host's processes, as Prometheus reads them.
METRICS: Final = NodeQuery(3, NoneType, bytes, timeout_s=2.0, unanswered=_always(UNAVAILABLE, _SILENT))
# The rows of owners at a moment in the past; the node takes less time than this.
PAST: Final = NodeQuery(4, OwnersAt, OwnerRows, timeout_s=15.0, unanswered=_late(TOO_LATE))
# The snapshots of the catalogue, newest first.
SNAPSHOTS: Final = NodeQuery(
    5, NoneType, list[Entry], timeout_s=15.0,
    unanswered=_late(UNAVAILABLE, "The node did not list its snapshots in time; try again"),
)  # fmt: skip
# Delete the snapshot with this id; its entry is left if its files cannot be reached.
DELETE_SNAPSHOT: Final = NodeQuery(6, str, list[Entry], timeout_s=15.0)
# A page of the change feed, which the node may have to read from the log again.
EVENTS: Final = NodeQuery(
    7, EventsFrom, Page, timeout_s=15.0,
    unanswered=_always(UNAVAILABLE, "The node did not return its changes in time; try again"),
)  # fmt: skip
# Keep what a reader has counted of who asks for schemas.
ADD_ASKS: Final = NodeQuery(8, Asks, NoneType, timeout_s=15.0)
# Who has asked, on all nodes.
ASKERS: Final = NodeQuery(
    9, AskersOf, Askers, timeout_s=15.0,
    unanswered=_late(UNAVAILABLE, "The node did not find out who has asked in time; try again"),
)  # fmt: skip
# The newest entries of the audit logs of all nodes.
AUDIT: Final = NodeQuery(
    10, AuditQuery, AuditEntries, timeout_s=15.0,
    unanswered=_late(UNAVAILABLE, "The nodes did not read their audit logs in time; try again"),
)  # fmt: skip
