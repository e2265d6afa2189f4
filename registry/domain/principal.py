"""Principals: the senders of requests, as found by authentication, and what was found to be permitted."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Principal(NamedTuple):
    """A user or a service; an empty name stands for clients that need not authenticate."""

    name: str = ""
    groups: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return the name as messages print it."""
        return f"'{self.name}'" if self.name else "clients without a name"


ANONYMOUS = Principal()


class CheckedNames(msgspec.Struct, frozen=True, omit_defaults=True):
    """The subjects and contexts for which the sender's permissions were checked, with aliases resolved.

    A command carries them, so that it is decided for these subjects or refused, even if an alias or an
    association has changed since. Nodes of other versions read it: members keep their names.
    """

    # Operations that are permitted on every subject and context, as rules name them.
    everywhere: frozenset[str] = frozenset()
    # Of other operations: the qualified names on which they are permitted.
    names: dict[str, frozenset[str]] = {}

    def cover(self, operation: str, name: str) -> bool:
        """Return true if the sender may do this to a subject or context."""
        return operation in self.everywhere or name in self.names.get(operation, ())
