"""The thread that reconstructs the past: one request at a time, each for a bounded time, in fair turns."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from registry.domain.admission import FairQueue
from registry.domain.errors import TOO_LATE, UNAVAILABLE, UNEXPECTED, RegistryError
from registry.domain.history.moment import Moment, OwnerRows

from .reconstruction import PastReader

WAITING_MAX = 32
# Requests of one asker that may wait, for a client alone too.
WAITING_OF_ONE_MAX = 16
RECONSTRUCT_S = 10.0
_log = logging.getLogger(__name__)

Reconstructed = OwnerRows | RegistryError


class _Request(NamedTuple):
    asker: str
    moment: Moment
    owners: list[bytes]
    deadline: float
    answer: Callable[[Reconstructed], None]


class PastThread:
    """Answers questions about the past with ``past_reader``; ``soon`` runs the answers on the event loop.

    ``reconstruct_s``: how long a request may wait and take, in seconds; half of it if others wait meanwhile.
    """

    def __init__(
        self,
        past_reader: PastReader,
        soon: Callable[[Callable[[], None]], None],
        reconstruct_s: float = RECONSTRUCT_S,
    ) -> None:
        self._past_reader, self._soon, self._reconstruct_s = past_reader, soon, reconstruct_s
        self._requests: FairQueue[_Request] = FairQueue()
        self._changed = threading.Condition()  # guards the queue
        self._stopping = False

    def ask(
        self, moment: Moment, owners: list[bytes], answer: Callable[[Reconstructed], None], asker: str = ""
    ) -> None:
        """Pass the rows of owners at a moment to ``answer``, or the error. Any thread may call this.

        ``asker``: the principal or the network of the client that asks; each has its turns.
        """
        request = _Request(asker, moment, owners, time.monotonic() + self._reconstruct_s, answer)
        with self._changed:
            refused = self._put(request)
            self._changed.notify()
        if refused is not None:
            error = UNAVAILABLE("Too many requests for past state are waiting").with_retry_after(1)
            self._soon(lambda: refused.answer(error))

    def _put(self, request: _Request) -> _Request | None:
        """Let a request wait; return the one that cannot: itself, or the last of who has most waiting."""
        if self._requests.count(request.asker) >= WAITING_OF_ONE_MAX:
            return request
        dropped = None
        if len(self._requests) >= WAITING_MAX:
            dropped = self._requests.give_way(request.asker)
            if dropped is None:
                return request
        self._requests.put(request.asker, request)
        return dropped

    def run(self) -> None:
        """Answer until :meth:`stop`."""
        while (request := self._next()) is not None:
            self._answer(request)

    def _next(self) -> _Request | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or len(self._requests))
            return None if self._stopping else self._requests.pop()

    def _others_wait(self, asker: str) -> bool:
        with self._changed:
            return len(self._requests) > self._requests.count(asker)

    def _answer(self, request: _Request) -> None:
        result: Reconstructed
        half = time.monotonic() + self._reconstruct_s / 2

        def hurry() -> None:
            now = time.monotonic()
            if self._stopping or now >= request.deadline:
                raise TOO_LATE()
            if now >= half and self._others_wait(request.asker):
                raise TOO_LATE().with_retry_after(1)

        try:
            hurry()
            result = self._past_reader.reconstruct(request.moment, request.owners, hurry)
        except RegistryError as error:
            result = error
        except Exception:
            # An error with the past must not end a node that serves the present.
            if not self._stopping:
                _log.exception("unexpected error while reconstructing past state")
            result = UNEXPECTED()
        self._soon(lambda: request.answer(result))

    def stop(self) -> None:
        """Make :meth:`run` return after its current step."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
