"""The interface of tracing: wrappers of the parts that a request passes through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from registry.domain.commands import Outcome
from registry.domain.pending_command import PendingCommand, Submit

# Sends a command to another node and returns its outcome.
Ask = Callable[[PendingCommand], Awaitable[Outcome]]

_T = TypeVar("_T")
_NOTHING = nullcontext()


class Tracing:
    """Tracing that is off: each wrapper returns what it was given, so that requests pay nothing.

    :class:`registry.host.tracing.otel.OtelTracing` overrides all of it. Commands carry the span that caused
    them in :attr:`CommandRequest.trace`.
    """

    def app(self, app: _T) -> _T:
        """Wrap an ASGI application: a span for each request, until its answer is sent."""
        return app

    def fast_path(self, fast_path: _T) -> _T:
        """Wrap what answers requests instead of the application: a span for each answer."""
        return fast_path

    def backend(self, backend: _T) -> _T:
        """Wrap the API's backend: a span for each wait at the read barrier; commands carry their request."""
        return backend

    def trace_commands(self, submit: Submit, *, from_peer: bool = False) -> Submit:
        """Wrap what decides or forwards commands in this node: a span for each, until its reply."""
        return submit

    def trace_sending(self, ask: Ask, address: str) -> Ask:
        """Wrap what sends commands to the node at ``address``: a span for each attempt."""
        return ask

    def trace_append(self, commands: Sequence[PendingCommand]) -> AbstractContextManager[None]:
        """Return a context for an append of the records of ``commands``: a span in the trace of each."""
        return _NOTHING

    async def close(self, timeout_s: float) -> None:
        """Export what is left, for at most ``timeout_s`` seconds."""


NO_TRACING = Tracing()
