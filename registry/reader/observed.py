"""What a serving process notes of each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.http1.request import Request
from registry.observe.logs import log_request
from registry.observe.requests import Requests, Tally

_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")}


class Observed:
    """Called with every answer: counts, and writes the access log where it is wanted."""

    def __init__(self, *, access_log: bool) -> None:
        self._requests = Requests()
        self._access_log = access_log

    def __call__(self, request: Request | None, status: int, seconds: float, size: int, route: str) -> None:
        """One answer; ``request`` is missing when it could not be read."""
        method = "none" if request is None else _METHODS.get(request.method, "other")
        self._requests.add(method, route or "none", status, seconds)
        if self._access_log:
            target = "-" if request is None else request.target.decode("latin-1")
            log_request(method, target, status, seconds, size)

    def tally(self, connections: int) -> Tally:
        """What was counted so far."""
        return self._requests.tally(connections)


def route_of(scope: Mapping[str, Any]) -> str:
    """The template of the path that served a request."""
    found: str = scope.get("registry", {}).get("route", "")
    return found
