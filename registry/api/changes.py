"""The change feed, and the history of a subject."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from registry.domain import errors as e
from registry.domain.errors import BAD_REQUEST
from registry.domain.events import Event, Filter, Kind, encode_event, parse_kinds
from registry.domain.history import moment
from registry.domain.queries.subject_order import Prefix
from registry.domain.rows.view import View, complete_from, gap_below
from registry.feed.hub import Hub
from registry.feed.listener import Subscription, is_visible
from registry.security.gate import Permission

from .answers import Answer, Header
from .backend import Backend
from .listing import Listing
from .operations import Call, NodeHandler, Operation
from .paging import page
from .parameters import LIST_MAX, PAGE, number, split_names, word, words
from .permissions import SHOWN, on_subject

_EVENT_STREAM = b"text/event-stream"
LIMIT_MAX, WAIT_MS_MAX = 1000, 30_000
_NO_STORE: tuple[Header, ...] = ((b"cache-control", b"no-store"),)
# nginx passes on a buffered answer only when it is complete.
_STREAMED: tuple[Header, ...] = (*_NO_STORE, (b"x-accel-buffering", b"no"))
_OFFSET = re.compile(r"-1|[0-9]{1,18}", re.ASCII)
# The parameters of a media type that a client does not want.
_REFUSED = re.compile(r"(?:^|;)q=0(?:\.0{0,3})?(?:;|$)")
_PARAMETERS = (
    word(
        "after",
        "Return events after this offset; -1: from the log's beginning; absent: from now. The header "
        "Last-Event-ID takes precedence",
    ),
    word("subjectPrefix", "Only subjects and contexts under this prefix, as for /subjects", None),
    words("kind", "Only these kinds of events; repeatable, or separated by commas"),
    number("limit", f"Maximum number of events of a page, up to {LIMIT_MAX}", LIMIT_MAX),
    number("wait_ms", f"How long a page without events is waited for, up to {WAIT_MS_MAX} ms", 0),
)


def changes_of(hub: Hub | None) -> NodeHandler:
    """Return the handler of ``GET /changes``, whose listeners ``hub`` serves."""

    async def changes(call: Call, backend: Backend) -> Answer:
        assert hub is not None, "this table only describes"
        subscription = Subscription(_filter(call), call.context.credentials, call.sender)
        limit, wait_ms = _within(call, "limit", 1, LIMIT_MAX), _within(call, "wait_ms", 0, WAIT_MS_MAX)
        with backend.view():
            pass  # 503 until there are rows: positions mean nothing yet
        position = await hub.locate(subscription, _after(call))
        if _takes_stream(call.context.headers.get("accept", "")):
            return Answer(
                headers=_STREAMED,
                media_type=_EVENT_STREAM + b"; charset=utf-8",
                hold=lambda stream: hub.attach(stream, subscription, position),
            )
        found, following = await hub.poll(subscription, position, limit=limit, wait_s=wait_ms / 1000)
        body = b'{"events":[%b],"next":%d}' % (b",".join(found), following - 1)
        return Answer(body, headers=_NO_STORE)

    return changes


def operations(hub: Hub | None) -> tuple[Operation, ...]:
    """Return the operations of the feed."""
    return (
        Operation(
            method="GET",
            path="/changes",
            summary="Changes in the order of the log: a stream of server-sent events, or a page",
            permission=SHOWN,
            node_handler=changes_of(hub),
            parameters=_PARAMETERS,
            response_schema="Changes",
            streams=True,
            errors=(e.BAD_REQUEST, e.EVENTS_DELETED, e.TOO_MANY_REQUESTS, e.UNAVAILABLE),
        ),
    )


def _takes_stream(accept: str) -> bool:
    ranges = [each.partition(";") for each in accept.lower().split(",")]
    return any(
        kind.strip() == "text/event-stream" and not _REFUSED.search(more.replace(" ", ""))
        for kind, _, more in ranges
    )


def _filter(call: Call) -> Filter:
    names = split_names(call.args["kind"])
    try:
        kinds = parse_kinds(names) if names else None
    except ValueError:
        raise BAD_REQUEST(f"kind names an unknown kind of event; known are {', '.join(Kind)}") from None
    prefix = call.args["subjectPrefix"]
    return Filter(kinds, None if prefix is None else Prefix.parse(prefix))


def _after(call: Call) -> int | None:
    name, text = "Last-Event-ID", call.context.headers.get("last-event-id", "")
    if not text:
        name, text = "after", call.args["after"]
    if not text:
        return None
    if not _OFFSET.fullmatch(text):
        raise BAD_REQUEST(f"{name} must be an offset or -1")
    return int(text)


def _within(call: Call, name: str, least: int, most: int) -> int:
    value: int = call.args[name]
    if not least <= value <= most:
        raise BAD_REQUEST(f"{name} is not between {least} and {most}")
    return value


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
    if not (filling or subject.is_context or moment.has_any(history, subject)):
        raise e.SUBJECT_NOT_FOUND(subject.qualified)

    # Config and mode of a context need more than to read it, here as in the change feed.
    hidden = _hidden_kinds(call) if subject.is_context else frozenset[Kind]()
    if hidden:
        # Another list: positions in it are not those in the list of who sees everything.
        call = msgspec.structs.replace(call, path={**call.path, "hidden": repr(sorted(hidden))})

    def walk(view: View, mark: tuple[int] | None) -> Iterator[Event | None]:
        for each in moment.walk(view, subject, mark[0] if mark else None, ascending=ascending):
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
