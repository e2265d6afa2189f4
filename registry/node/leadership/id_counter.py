"""Mirror of the default context's ids in ZooKeeper's counter, for other registries that elect there.

The reservations in the log stay authoritative; the larger of the two values applies. Ids that others have
taken from the counter are not assigned again, and others find the ids assigned here. When reserved ids at the
end were released, the counter goes back, unless others have taken ids from it since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any

from registry.domain.model import DEFAULT_CONTEXT
from registry.domain.queries.id_space import reserved_upto
from registry.domain.rows.view import View
from registry.log.contract import Unreachable

_ANSWER_S = 10.0
_log = logging.getLogger(__name__)

# Raises the counter to at least a value and returns its value before; ``None`` if there is no counter.
Advance = Callable[[int], "Future[int] | None"]
# Lowers the counter from a value to another one, unless it has changed; ``None`` as above.
Lower = Callable[[int, int], "Future[bool] | None"]


class IdCounter:
    """Mirrors reserved ids in the counter, on the write thread. ``view`` opens the committed rows."""

    def __init__(
        self, view: Callable[[], AbstractContextManager[View]], advance: Advance, lower: Lower
    ) -> None:
        self._view = view
        self._advance = advance
        self._lower = lower
        self._reported = 0
        # Ids up to this one may be assigned by others through the counter; 0: none but reserved ones.
        self.floor = 0

    def claimed(self) -> None:
        """Read the counter before the first decision. Raises :class:`Unreachable`."""
        reserved = self._read_reserved()
        asked = self._advance(reserved)
        if asked is None:
            return
        try:
            found = asked.result(_ANSWER_S)
        except Exception as error:
            raise Unreachable(f"cannot read ZooKeeper's counter of ids: {error}") from error
        self.floor = found if found > reserved else 0
        self._reported = reserved

    def wrote(self) -> None:
        """Move the counter if more ids were reserved, or some released; does not wait for the result."""
        reserved, before = self._read_reserved(), self._reported
        if reserved == before:
            return
        self._reported = reserved
        asked: Future[Any] | None
        asked = self._advance(reserved) if reserved > before else self._lower(before, reserved)
        if asked is not None:
            asked.add_done_callback(_note_failure)

    def _read_reserved(self) -> int:
        with self._view() as view:
            return reserved_upto(view, DEFAULT_CONTEXT)


def _note_failure(asked: Future[Any]) -> None:
    if not asked.cancelled() and (error := asked.exception()) is not None:
        _log.warning("cannot move ZooKeeper's counter of ids: %s", error)
