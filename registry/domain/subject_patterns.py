"""Patterns of subjects in rules and policies: a name, a prefix, a context, or everything.

======================= ============================================================
``orders-value``        this subject in the default context
``payments-*``          the subjects of the default context that begin so
``:.ctx:orders-value``  this subject in a context; ``:.ctx:payments-*`` likewise
``:.ctx:``              the context itself, without its subjects: its config and mode
``:.ctx:*``             the context with all of its subjects
``*``                   all contexts with all of their subjects
======================= ============================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from .model import Subject

ALLOWED: Final = 'a subject ("orders-value"), a prefix ("payments-*"), a context (":.ctx:*") or "*"'
_BYTES_MAX: Final = 2048


class SubjectRange(NamedTuple):
    """The subjects of one context from ``first`` to before ``end``; an empty ``end`` has no bound.

    Names compare by their UTF-8 bytes, which is the order of rows.
    """

    context: str
    first: bytes
    end: bytes


class Pattern(NamedTuple):
    """A pattern as written, and the subjects that it covers; ``None`` for all."""

    text: str
    range: SubjectRange | None

    def covers(self, subject: Subject) -> bool:
        """Return true if the subject, or the context, is one of those."""
        return self.range is None or _in_range(self.range, subject.context, subject.name.encode())

    @property
    def specificity(self) -> tuple[bool, bool, int]:
        """Orders the patterns that cover one subject: the greatest says most exactly which."""
        if self.range is None:
            return False, False, 0
        return True, not self.text.endswith("*"), len(self.range.first)


def parse_pattern(text: str) -> Pattern:
    """Read a pattern. Raises :class:`ValueError` with the reason."""
    if text == "*":
        return Pattern(text, None)
    name, star, rest = text.partition("*")
    if rest or not text:
        raise ValueError(f"{text!r} is not {ALLOWED}; * is only allowed at the end")
    if len(text.encode()) > _BYTES_MAX:
        raise ValueError(f"a name may have {_BYTES_MAX} bytes at most")
    if text.startswith(":*") or (star and name.startswith(":.") and ":" not in name[1:]):
        raise ValueError(f"{text!r} must name its context in full, as in ':.ctx:orders-*'")
    subject = Subject.parse(name)
    first = subject.name.encode()
    return Pattern(text, SubjectRange(subject.context, first, _end(first) if star else first + b"\0"))


def union(patterns: Iterable[Pattern]) -> tuple[SubjectRange, ...] | None:
    """Return the subjects that any pattern covers as sorted, disjoint ranges; ``None`` for all."""
    found: list[SubjectRange] = []
    for each in patterns:
        if each.range is None:
            return None
        found.append(each.range)
    merged: list[SubjectRange] = []
    for part in sorted(found):
        last = merged[-1] if merged else None
        if last is None or last.context != part.context or (last.end and last.end < part.first):
            merged.append(part)
        elif last.end and (not part.end or part.end > last.end):
            merged[-1] = last._replace(end=part.end)
    return tuple(merged)


def _in_range(part: SubjectRange, context: str, name: bytes) -> bool:
    return part.context == context and part.first <= name and (not part.end or name < part.end)


def _end(prefix: bytes) -> bytes:
    """Return the least bytes greater than every name with this prefix; empty if there are none."""
    # No byte of UTF-8 is 255, so the last one can be incremented.
    return prefix[:-1] + bytes((prefix[-1] + 1,)) if prefix else b""
