"""``GET /subjects/{subject}/history``: what happened to a subject."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from registry.domain import errors as e
from registry.domain.events.event import Event, Kind, encode_event
from registry.domain.history import reading
from registry.domain.rows.spans import complete_from, gap_below
from registry.domain.rows.view import View
from registry.feed.visibility import is_visible
from registry.security.access import Permission

from .listing import Listing
from .operations import Call, Operation
from .paging import page
from .parameters import LIST_MAX, PAGE, word
from .permissions import on_subject

_ORDERS = ("desc", "asc")


def list_history(call: Call, view: View) -> Listing[Event]:
    """``GET /subjects/{subject}/history``: its events, the newest first."""
    if not call.settings.history:
        raise e.HISTORY_OFF()
    history = view.history()
    if history is None:
        # An older release has left the store, and no node of this one has opened it yet.
        raise e.UNAVAILABLE("The node has not begun to keep a history yet")
    if call.args["order"] not in _ORDERS:
        raise e.UNPROCESSABLE("order must be desc or asc")
    subject, ascending = call.subject, call.args["order"] == "asc"
    spans, applied = history.spans(), history.applied()
    filling = gap_below(spans, applied) is not None
    if not (filling or subject.is_context or reading.has_any(history, subject)):
        raise e.SUBJECT_NOT_FOUND(subject.qualified)

    # Config and mode of a context need more than to read it, here as in the change feed.
    hidden = _hidden_kinds(call) if subject.is_context else frozenset[Kind]()
    if hidden:
        # Another list: positions in it are not those in the list of who sees everything.
        call = replace(call, path={**call.path, "hidden": repr(sorted(hidden))})

    def walk(view: View, mark: tuple[int] | None) -> Iterator[Event | None]:
        for each in reading.walk(view, subject, mark[0] if mark else None, ascending=ascending):
            yield None if each.kind in hidden else each

    listing = page(call, walk, encode_event, lambda each: (each.offset,), (int,), limit_max=LIST_MAX)
    head = b'{"completeFrom":%d,"filling":%s,"events":[' % (
        complete_from(spans, applied), b"true" if filling else b"false"
    )  # fmt: skip
    return replace(listing, head=head, tail=b"]}")


def _hidden_kinds(call: Call) -> frozenset[Kind]:
    """Return the kinds of events about a context that its sender may not see."""
    events = (Event(0, 0, kind, call.subject.context) for kind in Kind)
    return frozenset(each.kind for each in events if not is_visible(each, call.access))


OPERATIONS = (
    Operation(
        method="GET",
        path="/subjects/{subject}/history",
        summary="The history of a subject, as far as the log records it",
        permission=on_subject(Permission.READ),
        handler=list_history,
        response_schema="History",
        parameters=(word("order", "desc: the newest first; asc: the oldest first", "desc"), *PAGE),
        errors=(e.SUBJECT_NOT_FOUND, e.UNPROCESSABLE, e.HISTORY_OFF, e.UNAVAILABLE),
    ),
)
