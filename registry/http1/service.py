"""Everything that the connections of one server share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from registry.base.observe.metrics import Served
from registry.base.processes import tls_connections

from .inflow import Intake, Turns
from .messages import Client, Found, Header, LargeAnswers, Limits, Request, date_line
from .output import Unread

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

# Answers a request at once or later, or returns ``None`` to leave it to the application.
FastPath = Callable[[Request, Client], Found]
# Called with every answer.
Observe = Callable[[Served], None]
# What the application knows of a request that it has served: the path's template, request id, principal and
# its kind.
Details = tuple[str, bytes, str, str]
# Maps a request's headers to the headers of every answer to it.
CommonHeaders = Callable[[Iterable[Header]], Iterable[Header]]


class Tls(tls_connections.Tls, tls_connections.Verifier, Protocol):
    """The certificate of a listener, and the principals of its clients' certificates."""


class Endpoint(NamedTuple):
    """A listener, as seen by the connections that it accepts."""

    address: tuple[str, int] | None
    tls: Tls | None = None

    @property
    def scheme(self) -> str:
        """The scheme of its URL."""
        return "http" if self.tls is None else "https"


@dataclass
class Service:
    """The application, the limits, and the state of one server."""

    app: App
    limits: Limits
    fast_path: FastPath
    observe: Observe
    details_of: Callable[[Mapping[str, Any]], Details]
    common_headers: CommonHeaders
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    stopping: bool = False

    def __post_init__(self) -> None:
        self.intake = Intake(self.limits.bodies_bytes_max)
        self.turns = Turns(self.loop)
        self.unread = Unread(self.limits.unread_bytes_max)
        self.large_answers = LargeAnswers()
        self.tick()

    def tick(self) -> None:
        """Read the clocks; called a few times a second, because reading them for each request costs."""
        self.now = self.loop.time()
        self.idle_deadline = self.now + self.limits.idle_timeout_s
        self.date_line = date_line()
