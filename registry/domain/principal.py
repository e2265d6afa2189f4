"""Principals: who sends a request, as authentication has found."""

from __future__ import annotations

from typing import NamedTuple


class Principal(NamedTuple):
    """A user or a service; an empty name stands for clients that were not asked who they are."""

    name: str = ""
    groups: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return the name as messages print it."""
        return f"'{self.name}'" if self.name else "clients without a name"


ANONYMOUS = Principal()
