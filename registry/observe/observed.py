"""What a serving process notes of each request."""

from __future__ import annotations

from typing import Protocol

from .logs import log_request
from .requests import Requests, Tally

_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")}


class Asked(Protocol):
    """What is noted of a request itself."""

    @property
    def method(self) -> bytes:
        """As it was sent."""
        ...

    @property
    def target(self) -> bytes:
        """Path and query, as they were sent."""
        ...


class Observed:
    """Called with every answer: counts, and writes the access log where it is wanted."""

    def __init__(self, *, access_log: bool) -> None:
        self._requests = Requests()
        self._access_log = access_log

    def __call__(self, request: Asked | None, status: int, seconds: float, size: int, route: str) -> None:
        """One answer; ``request`` is missing when it could not be read."""
        method = "none" if request is None else _METHODS.get(request.method, "other")
        self._requests.add(method, route or "none", status, seconds)
        if self._access_log:
            target = "-" if request is None else request.target.decode("latin-1")
            log_request(method, target, status, seconds, size)

    def tally(self, connections: int, lag_s: float = 0.0) -> Tally:
        """What was counted so far, with what else is told of the process."""
        return self._requests.tally(connections, lag_s)
