"""The filter of a listener: the events that it wants to see."""

from __future__ import annotations

from typing import NamedTuple

from registry.domain.queries.subject_order import Prefix

from .event import Event, Kind


class Filter(NamedTuple):
    """The events that a listener wants: of some kinds, and of the subjects under a prefix.

    Hashable, so that listeners with the same filter share what is made for it.
    """

    # ``None``: all kinds.
    kinds: frozenset[Kind] | None = None
    # ``None``: all subjects, contexts and the cluster. A context has the empty name: a prefix matches it if
    # it matches all of its subjects.
    subjects: Prefix | None = None

    def admits(self, event: Event) -> bool:
        """Return true if the listener wants the event."""
        if self.kinds is not None and event.kind not in self.kinds:
            return False
        if self.subjects is None:
            return True
        owner = event.owner
        return owner is not None and self.subjects.admits(owner)


def parse_kinds(names: list[str]) -> frozenset[Kind]:
    """Return the kinds of these names. Raises :class:`ValueError` for a name that is none."""
    return frozenset(map(Kind, names))


EVERYTHING = Filter()
