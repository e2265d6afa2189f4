"""Principals: the senders of requests, as found by authentication."""

from __future__ import annotations

from typing import NamedTuple


class Principal(NamedTuple):
    """A user or a service; an empty name stands for clients that need not authenticate."""

    name: str = ""
    groups: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return the name as messages print it."""
        return f"'{self.name}'" if self.name else "clients without a name"


ANONYMOUS = Principal()
