"""Counting and logging each request of a serving process."""

from __future__ import annotations

from typing import Protocol

from .logs import log_request
from .requests import Requests, Tally

_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")}


class RequestLine(Protocol):
    """The part of a request that is counted and logged."""

    @property
    def method(self) -> bytes:
        """Method, as it was sent."""
        ...

    @property
    def target(self) -> bytes:
        """Path and query, as they were sent."""
        ...


class Observed:
    """Called with every answer: counts it, and writes the access log if enabled."""

    def __init__(self, *, access_log: bool) -> None:
        self._requests = Requests()
        self._access_log = access_log

    def __call__(
        self, request: RequestLine | None, status: int, seconds: float, size: int, route: str
    ) -> None:
        """Count one answer; ``request`` is ``None`` if it could not be parsed."""
        method = "none" if request is None else _METHODS.get(request.method, "other")
        self._requests.add(method, route or "none", status, seconds)
        if self._access_log:
            target = "-" if request is None else request.target.decode("latin-1")
            log_request(method, target, status, seconds, size)

    def tally(self, connections: int, lag_s: float = 0.0) -> Tally:
        """Return the counts so far."""
        return self._requests.tally(connections, lag_s)
