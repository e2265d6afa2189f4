"""Several steps of one decision: each sees the records of those before it, and all stand or fall together."""

from __future__ import annotations

from collections.abc import Iterable

from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Entry, Record
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.queries.scope import Defaults
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.view import View

from .ids import Ids

# An offset, and a time, above those of all rows: what is drafted is the newest.
_LATER = 2**62


class Draft:
    """Records on their way into a decision, over the rows that they would give."""

    def __init__(
        self, view: View, ids: Ids, defaults: Defaults, memory: SchemaMemory, *, start: int = 0
    ) -> None:
        """``start``: how many records were drafted before those of this draft."""
        self.view = OverlayView(view)
        self.entries: list[Entry] = []
        self.ids = ids
        self.defaults = defaults
        self.memory = memory
        self._start = start

    def add(self, entries: Iterable[Entry]) -> None:
        """Draft further records."""
        for entry in entries:
            at = _LATER + self._start + len(self.entries)
            self.view.commit(apply(self.view, Record(at, at, entry.key, entry.value)))
            self.entries.append(entry)

    def step(self) -> Draft:
        """Return a draft over this one, to be taken over or dropped."""
        drafted = self._start + len(self.entries)
        return Draft(self.view, self.ids, self.defaults, self.memory, start=drafted)

    def take(self, step: Draft) -> None:
        """Take over what a step has drafted."""
        self.view.commit(step.view.changes.items())
        self.entries += step.entries
