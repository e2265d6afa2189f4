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

# How principals authenticate: by a password, a token or a certificate. Each kind has names of its own.
KINDS = ("user", "token", "cert")


def kind_and_name(text: str) -> tuple[str, str]:
    """Split a name as rules have it, such as ``token:alice``; the kind is empty if it says none."""
    kind, colon, name = text.partition(":")
    return (kind, name) if colon and kind in KINDS else ("", text)


def names_in_rules(name: str, kind: str) -> tuple[str, ...]:
    """Return the texts by which rules can mean a principal or group of this kind.

    Without a kind a text means all kinds; but a name that looks like one with a kind does not stand for it.
    """
    own = (f"{kind}:{name}",) if kind else ()
    return own if kind_and_name(name)[0] else (name, *own)


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
