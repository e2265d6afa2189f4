"""Mirror of the default context's ids in ZooKeeper's counter, for other registries that elect there.

The reservations in the log stay authoritative; the larger of the two values applies. Ids that others have
taken from the counter are not assigned again, and others find the ids assigned here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager

from registry.domain.model import DEFAULT_CONTEXT
from registry.domain.queries.id_space import reserved_upto
from registry.domain.rows.view import View
from registry.log.contract import Unreachable

_ANSWER_S = 10.0
_log = logging.getLogger(__name__)

# Raises the counter to at least a value and returns its value before; ``None`` if there is no counter.
Advance = Callable[[int], "Future[int] | None"]


class IdCounter:
    """Mirrors reserved ids in the counter, on the write thread. ``view`` opens the committed rows."""

    def __init__(self, view: Callable[[], AbstractContextManager[View]], advance: Advance) -> None:
        self._view = view
        self._advance = advance
        self._reported = 0
        # Ids up to this one may be assigned by others through the counter.
        self.floor = 0

    def claimed(self) -> None:
        """Read the counter before the first decision. Raises :class:`Unreachable`."""
        reserved = self._reserved()
        asked = self._advance(reserved)
        if asked is None:
            return
        try:
            self.floor = asked.result(_ANSWER_S)
        except Exception as error:
            raise Unreachable(f"cannot read ZooKeeper's counter of ids: {error}") from error
        self._reported = reserved

    def wrote(self) -> None:
        """Raise the counter if more ids were reserved; does not wait for the result."""
        reserved = self._reserved()
        if reserved > self._reported:
            self._reported = reserved
            asked = self._advance(reserved)
            if asked is not None:
                asked.add_done_callback(_seen)

    def _reserved(self) -> int:
        with self._view() as view:
            return reserved_upto(view, DEFAULT_CONTEXT)


def _seen(asked: Future[int]) -> None:
    if not asked.cancelled() and (error := asked.exception()) is not None:
        _log.warning("cannot raise ZooKeeper's counter of ids: %s", error)
