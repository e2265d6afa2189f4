"""Mirroring the ids of the default context in ZooKeeper's counter, where those look who elect there too.

The reservations in the log stay the truth; the larger of the two counts. So ids that the counter has given
out for others are not given again, and others find there what was given out here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager

from registry.domain.decide.ids import reserved_upto
from registry.domain.model import DEFAULT_CONTEXT
from registry.domain.rows.view import View
from registry.log.contract import Unreachable

_ANSWER_S = 10.0
_log = logging.getLogger(__name__)

Advance = Callable[[int], "Future[int] | None"]
"""Moves the counter up to at least a value; the value found before. ``None``: there is no counter."""


class IdCounter:
    """Used by the thread that writes. ``view`` opens the committed rows."""

    def __init__(self, view: Callable[[], AbstractContextManager[View]], advance: Advance) -> None:
        self._view = view
        self._advance = advance
        self._told = 0
        self.floor = 0
        """Ids up to it were given out by whoever moved the counter."""

    def claimed(self) -> None:
        """Look at the counter, before anything is decided. Raises :class:`Unreachable`."""
        reserved = self._reserved()
        asked = self._advance(reserved)
        if asked is None:
            return
        try:
            self.floor = asked.result(_ANSWER_S)
        except Exception as error:
            raise Unreachable(f"the counter of ids cannot be read: {error}") from error
        self._told = reserved

    def wrote(self) -> None:
        """Move the counter, if more was reserved; nobody waits for that."""
        reserved = self._reserved()
        if reserved > self._told:
            self._told = reserved
            asked = self._advance(reserved)
            if asked is not None:
                asked.add_done_callback(_seen)

    def _reserved(self) -> int:
        with self._view() as view:
            return reserved_upto(view, DEFAULT_CONTEXT)


def _seen(asked: Future[int]) -> None:
    if not asked.cancelled() and (error := asked.exception()) is not None:
        _log.warning("the counter of ids was not moved: %s", error)
