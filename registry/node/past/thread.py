"""The thread that tells the past: one request at a time, each for a bounded time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Full, Queue
from typing import NamedTuple

from registry.domain.errors import TOO_LATE, UNAVAILABLE, UNEXPECTED, RegistryError
from registry.domain.history.moment import Moment, OwnerRows

from .telling import Teller

WAITING_MAX = 16
TELL_S = 10.0
_log = logging.getLogger(__name__)

Told = OwnerRows | RegistryError


class _Request(NamedTuple):
    moment: Moment
    owners: list[bytes]
    deadline: float
    answer: Callable[[Told], None]


class PastThread:
    """Answers questions about the past with ``teller``; ``soon`` runs the answers on the event loop.

    ``tell_s``: how long a request may wait and take, in seconds.
    """

    def __init__(
        self, teller: Teller, soon: Callable[[Callable[[], None]], None], tell_s: float = TELL_S
    ) -> None:
        self._teller, self._soon, self._tell_s = teller, soon, tell_s
        self._requests: Queue[_Request | None] = Queue(WAITING_MAX)
        self._stopping = False

    def ask(self, moment: Moment, owners: list[bytes], answer: Callable[[Told], None]) -> None:
        """Pass the rows of owners at a moment to ``answer``, or the error. Any thread may call this."""
        try:
            self._requests.put_nowait(_Request(moment, owners, time.monotonic() + self._tell_s, answer))
        except Full:
            error = UNAVAILABLE("Too many requests for the past are waiting").retried_after(1)
            self._soon(lambda: answer(error))

    def run(self) -> None:
        """Answer until :meth:`stop`."""
        while (request := self._requests.get()) is not None and not self._stopping:
            self._answer(request)

    def _answer(self, request: _Request) -> None:
        told: Told

        def hurry() -> None:
            if self._stopping or time.monotonic() >= request.deadline:
                raise TOO_LATE()

        try:
            hurry()
            told = self._teller.tell(request.moment, request.owners, hurry)
        except RegistryError as error:
            told = error
        except Exception:
            # An error with the past must not end a node that serves the present.
            if not self._stopping:
                _log.exception("unexpected error in telling the past")
            told = UNEXPECTED()
        self._soon(lambda: request.answer(told))

    def stop(self) -> None:
        """Make :meth:`run` return after its current step."""
        self._stopping = True
        with suppress(Full):
            self._requests.put_nowait(None)
