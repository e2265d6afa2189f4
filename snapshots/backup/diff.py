"""``registrar snapshot diff``: comparing two registries side by side in key order.

Neither side is held in memory as a whole. Offsets and times of versions are not compared, since they
naturally differ between two logs of one registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import orjson

Fields = dict[str, Any]
VERSION, CONFIG, MODE, SUBJECT = "version", "config", "mode", "subject"
ADDED, REMOVED, CHANGED = "added", "removed", "changed"
_NUMBER_BYTES = 4


class Item(NamedTuple):
    """One config, mode or version."""

    # Key of its row: both sides have the same order.
    key: bytes
    # Name of the subject or context.
    name: str
    version: int | None
    # Returns its fields.
    read: Callable[[], Fields]

    @property
    def subject_key(self) -> bytes:
        """Common prefix of the keys of all versions of a version's subject."""
        return self.key[:-_NUMBER_BYTES]


class Side(Protocol):
    """One of the two registries; its items come in key order."""

    def configs(self) -> Iterator[Item]:
        """Yield the configs of subjects, contexts and the top level."""
        ...

    def modes(self) -> Iterator[Item]:
        """Yield the modes of subjects, contexts and the top level."""
        ...

    def versions(self) -> Iterator[Item]:
        """Yield the versions, soft-deleted ones included."""
        ...


class Difference(NamedTuple):
    """One difference; ``before`` and ``after`` hold the fields that differ, or all if one side lacks it."""

    change: str
    what: str
    name: str
    version: int | None
    before: Fields | None
    after: Fields | None

    def as_json(self) -> bytes:
        """Return the difference as a JSON object."""
        return orjson.dumps({name: value for name, value in self._asdict().items() if value is not None})

    def as_text(self) -> str:
        """Return the difference as a line of text."""
        sign = {ADDED: "+", REMOVED: "-", CHANGED: "~"}[self.change]
        which = f" version {self.version}" if self.version is not None else ""
        what = "" if self.what in (VERSION, SUBJECT) else f" {self.what}"
        line = f"{sign} {self.name or '(top level)'}{which}{what}"
        if self.before is not None and self.after is not None:
            names = sorted({*self.before, *self.after})
            changes = [f"{name} {_format(self.before, name)} → {_format(self.after, name)}" for name in names]
            return f"{line}: {', '.join(changes)}"
        known = self.before or self.after or {}
        return f"{line}: {', '.join(f'{name} {_format(known, name)}' for name in known)}" if known else line


def _format(fields: Fields, name: str) -> str:
    return orjson.dumps(fields[name]).decode() if name in fields else "unset"


def differences(old: Side, new: Side) -> Iterator[Difference]:
    """Yield how ``new`` differs from ``old``; a subject that one of them lacks comes before its versions."""
    yield from _compare(CONFIG, old.configs(), new.configs())
    yield from _compare(MODE, old.modes(), new.modes())
    mine, theirs = _by_subject(old), _by_subject(new)
    left, right = next(mine, []), next(theirs, [])
    while left or right:
        if not right or (left and left[0].subject_key < right[0].subject_key):
            yield Difference(REMOVED, SUBJECT, left[0].name, None, {"versions": len(left)}, None)
            yield from _compare(VERSION, iter(left), iter(()))
            left = next(mine, [])
        elif not left or right[0].subject_key < left[0].subject_key:
            yield Difference(ADDED, SUBJECT, right[0].name, None, None, {"versions": len(right)})
            yield from _compare(VERSION, iter(()), iter(right))
            right = next(theirs, [])
        else:
            yield from _compare(VERSION, iter(left), iter(right))
            left, right = next(mine, []), next(theirs, [])


def _by_subject(side: Side) -> Iterator[list[Item]]:
    for _, group in groupby(side.versions(), lambda item: item.subject_key):
        yield list(group)


def _compare(what: str, old: Iterator[Item], new: Iterator[Item]) -> Iterator[Difference]:
    mine, theirs = next(old, None), next(new, None)
    while mine is not None or theirs is not None:
        if theirs is None or (mine is not None and mine.key < theirs.key):
            assert mine is not None
            yield Difference(REMOVED, what, mine.name, mine.version, mine.read(), None)
            mine = next(old, None)
        elif mine is None or theirs.key < mine.key:
            yield Difference(ADDED, what, theirs.name, theirs.version, None, theirs.read())
            theirs = next(new, None)
        else:
            before, after = mine.read(), theirs.read()
            # A registry that does not show guids has them all the same.
            names = before.keys() & after.keys() if what == VERSION else before.keys() | after.keys()
            if differ := sorted(name for name in names if before.get(name) != after.get(name)):
                yield Difference(
                    CHANGED, what, mine.name, mine.version, _only(differ, before), _only(differ, after)
                )
            mine, theirs = next(old, None), next(new, None)


def _only(names: list[str], fields: Fields) -> Fields:
    return {name: fields[name] for name in names if name in fields}
