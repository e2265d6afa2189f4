"""Drafts of decisions in several steps: each step sees the records before it, and all stand or none."""

from __future__ import annotations

from collections.abc import Iterable

from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Entry, Record
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.queries.scope import Defaults
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.view import View

from .ids import Ids

# An offset and a time above those of all rows, because drafted records are the newest.
_LATER = 2**62


class Draft:
    """Records of a decision in progress, and a view of the rows as they would be with them."""

    def __init__(
        self, view: View, ids: Ids, defaults: Defaults, memory: SchemaMemory, *, start: int = 0
    ) -> None:
        """``start``: the number of records drafted before those of this draft."""
        self.view = OverlayView(view)
        self.entries: list[Entry] = []
        self.ids = ids
        self.defaults = defaults
        self.memory = memory
        self._start = start

    def add(self, entries: Iterable[Entry]) -> None:
        """Add records to the draft."""
        for entry in entries:
            at = _LATER + self._start + len(self.entries)
            self.view.commit(apply(self.view, Record(at, at, entry.key, entry.value)))
            self.entries.append(entry)

    def step(self) -> Draft:
        """Return a draft on top of this one, which can be merged or dropped."""
        drafted = self._start + len(self.entries)
        return Draft(self.view, self.ids, self.defaults, self.memory, start=drafted)

    def take(self, step: Draft) -> None:
        """Merge the records of a step."""
        self.view.commit(step.view.changes.items())
        self.entries += step.entries
