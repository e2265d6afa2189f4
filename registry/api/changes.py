"""The change feed: server-sent events for those who accept them, pages of JSON for all others."""

from __future__ import annotations

import re

from registry.domain import errors as e
from registry.domain.errors import BAD_REQUEST
from registry.domain.events.event import Kind
from registry.domain.events.filter import Filter, parse_kinds
from registry.domain.queries.subject_order import Prefix
from registry.feed.hub import Hub
from registry.feed.listener import Subscription

from .answers import Answer, Header
from .backend import Backend
from .operations import Call, NodeHandler, Operation
from .parameters import number, word, words
from .permissions import SHOWN

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
        subscription = Subscription(_filter(call), call.credentials(), call.sender)
        limit, wait_ms = _within(call, "limit", 1, LIMIT_MAX), _within(call, "wait_ms", 0, WAIT_MS_MAX)
        with backend.view():
            pass  # 503 until there are rows: positions mean nothing yet
        position = await hub.locate(subscription, _after(call))
        if _takes_stream(call.headers.get("accept", "")):
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
    names = [name.strip() for text in call.args["kind"] for name in text.split(",") if name.strip()]
    try:
        kinds = parse_kinds(names) if names else None
    except ValueError:
        raise BAD_REQUEST(f"kind names an unknown kind of event; known are {', '.join(Kind)}") from None
    prefix = call.args["subjectPrefix"]
    return Filter(kinds, None if prefix is None else Prefix.parse(prefix))


def _after(call: Call) -> int | None:
    name, text = "Last-Event-ID", call.headers.get("last-event-id", "")
    if not text:
        name, text = "after", call.args["after"]
    if not text:
        return None
    if not _OFFSET.fullmatch(text):
        raise BAD_REQUEST(f"{name} is not an offset, and not -1")
    return int(text)


def _within(call: Call, name: str, least: int, most: int) -> int:
    value: int = call.args[name]
    if not least <= value <= most:
        raise BAD_REQUEST(f"{name} is not between {least} and {most}")
    return value
