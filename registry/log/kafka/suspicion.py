"""Evidence that the log has been replaced by another one.

A topic may be deleted, created again or truncated, and other brokers may listen at the same addresses. A
broker
that has just started may know less than the others, so such a finding counts only after brokers have repeated
it for :data:`CONFIRM_S` and none has contradicted it. Until then the partition is treated as unreachable.
"""

from __future__ import annotations

import time

from registry.log.contract import ForeignLog

from .connection import NoAnswer

CONFIRM_S = 1.0

# The kinds of evidence. Each is confirmed or cleared on its own.
TOPIC, HEAD, END, HISTORY = "topic", "head", "end", "history"


class Suspicions:
    """The evidence so far. Any thread may call :meth:`check_foreign`; the rest runs on the event loop."""

    def __init__(self) -> None:
        # By kind: when it was first seen, and what was seen last.
        self._suspected: dict[str, tuple[float, str]] = {}
        self._foreign: dict[str, str] = {}

    @property
    def foreign(self) -> bool:
        """True once it is confirmed that the log is another one."""
        return bool(self._foreign)

    def check_foreign(self) -> None:
        """Raise :class:`.contract.ForeignLog` if that is confirmed."""
        for text in tuple(self._foreign.values()):
            raise ForeignLog(text)

    def check(self, *, reading_bounds: bool = False) -> None:
        """Raise :class:`.contract.ForeignLog`, or :class:`.connection.NoAnswer` while anything is suspected.

        With ``reading_bounds`` only a suspected topic counts: fetches and offset queries must go on, because
        they are what confirms or clears a suspicion about the log's bounds.
        """
        self.check_foreign()
        for kind, (_, text) in self._suspected.items():
            if kind == TOPIC or not reading_bounds:
                raise NoAnswer(text, sent=False)

    def add(self, kind: str, text: str) -> None:
        """Record one more sign; it is confirmed when the first one is :data:`CONFIRM_S` old."""
        now = time.monotonic()
        since, _ = self._suspected.setdefault(kind, (now, text))
        self._suspected[kind] = since, text
        if now - since >= CONFIRM_S:
            self._foreign[kind] = text

    def clear(self, kind: str) -> None:
        """Forget the signs of this kind, because one answer contradicted them.

        A topic that exists again under its id is the same topic, even after a confirmed deletion. Records
        that were lost stay lost.
        """
        self._suspected.pop(kind, None)
        if kind == TOPIC:
            self._foreign.pop(kind, None)
