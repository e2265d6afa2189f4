"""Subjects in the order of their qualified names, starting after any subject.

Version rows are ordered by context and name, lists by qualified name. The two orders differ in three ways:
names of the default context stand bare among those that begin with ``:.``; a context ends with a colon, so
that ``.a-b`` comes before ``.a``; and names longer than :data:`.layout.PART_MAX` bytes are cut in keys. The
next subject takes a few seeks, so a list can start anywhere.

Contexts with names that long are ordered by their first bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.domain.rows import layout
from registry.domain.rows.view import View

from . import versions
from .walks import BlockSkip, Skips, in_order

DEFAULT = DEFAULT_CONTEXT.encode()
QUALIFIED = b":."  # sorts after some bare names, before those from BEYOND on
BEYOND = b":/"
COLON = ord(":")  # ends a context in a qualified name; no context contains one

# A subject and the value of one of its version rows.
SubjectEntry = tuple[Subject, bytes]


class Prefix(NamedTuple):
    """The subjects that a ``subjectPrefix`` matches."""

    context: str
    whole: bool  # true if ``context`` is the context's whole name, not just the beginning of it
    name: str

    @classmethod
    def parse(cls, text: str) -> Prefix:
        """Parse a prefix (Confluent 8.x).

        ``:*:`` matches everything, ``:*:foo`` all contexts, ``:.ctx:foo`` one context, ``:.c`` the contexts
        that begin like that, and anything else matches in the default context.
        """
        if text.startswith(":*:"):
            return cls("", False, text[3:])
        if text.startswith(":.") and ":" not in text[1:]:
            return cls(text[1:], False, "")
        return cls(*_whole(Subject.parse(text)))

    @property
    def shown_by_keys(self) -> bool:
        """True if keys alone show which subjects match."""
        context = layout.part_prefix(self.context) if not self.whole else b""
        return max(len(context), len(layout.part_prefix(self.name))) < layout.PART_CUT

    def admits(self, subject: Subject) -> bool:
        """Return true if the subject matches the prefix."""
        context = subject.context
        return subject.name.startswith(self.name) and (
            context == self.context if self.whole else context.startswith(self.context)
        )


def _whole(subject: Subject) -> tuple[str, bool, str]:
    return subject.context, True, subject.name


class Span(NamedTuple):
    """The names of one context from ``start`` up to, but not including, ``end``, as raw parts of keys."""

    context: bytes
    start: bytes = b""
    end: bytes | None = None


def rank(subject: Subject) -> bytes:
    """Return the sort key of a subject: the qualified name, with the context as in keys."""
    context, name = raw_part(subject.context), subject.name.encode()
    if context == DEFAULT and not name.startswith(QUALIFIED):
        return name
    return b":%b:%b" % (context, name)


def subjects(
    view: View, prefix: Prefix, after: Subject | None = None, skips: Skips | None = None
) -> Iterator[SubjectEntry | None]:
    """Yield the subjects under a prefix that have version rows, starting after ``after``.

    With ``skips``, blocks are skipped as a whole if they lie under the prefix as far as keys show.
    """
    if skips is not None and not prefix.shown_by_keys:
        skips = None
    for span in _spans(view, prefix, after):
        begin = after if after is not None and raw_part(after.context) == span.context else None
        for found in _in_span(view, span, prefix.name, begin, skips):
            yield found if found is not None and prefix.admits(found[0]) else None


def _spans(view: View, prefix: Prefix, after: Subject | None) -> Iterator[Span]:
    if prefix.whole:
        yield Span(raw_part(prefix.context))
        return
    default = DEFAULT_CONTEXT.startswith(prefix.context)
    name = b"" if after is None or after.context != DEFAULT_CONTEXT else after.name.encode()
    bare = after is not None and after.context == DEFAULT_CONTEXT and not name.startswith(QUALIFIED)
    if default and (after is None or (bare and name < QUALIFIED)):
        yield Span(DEFAULT, b"", QUALIFIED)
        after = None
    if after is None or not bare:
        yield from _contexts(view, layout.part_prefix(prefix.context), after)
    if default:
        yield Span(DEFAULT, BEYOND)


def _contexts(view: View, beginning: bytes, after: Subject | None) -> Iterator[Span]:
    """Yield the spans of all contexts with this prefix; the default one's are its names like ``:.x``."""
    context = _first_from(view, beginning, beginning) if after is None else raw_part(after.context)
    while context is not None:
        yield Span(DEFAULT, QUALIFIED, BEYOND) if context == DEFAULT else Span(context)
        context = _next(view, context, beginning)


def _next(view: View, context: bytes, beginning: bytes) -> bytes | None:
    """Return the next context with this prefix after ``context``; both end with a colon."""
    found = _first_from(view, context + b":", beginning)
    for length in range(len(context) - 1, max(len(beginning), 1) - 1, -1):
        # The prefix of this length, as a context, sorts after ``context``: its colon is greater than this
        # character.
        if context[length] < COLON and context_exists(view, context[:length]):
            shorter = context[:length]
            earlier = found is not None and found.startswith(shorter) and found[length] < COLON
            return found if earlier else shorter
    return found


def _first_from(view: View, start: bytes, beginning: bytes) -> bytes | None:
    """Return the first context at or after ``start``; among common prefixes, the one that sorts first."""
    found = context_at(view, start)
    if found is None or not found.startswith(beginning):
        return None
    while True:
        further = context_at(view, found + b"\x01")
        if further is None or not further.startswith(found) or further[len(found)] > COLON:
            return found
        found = further


def context_at(view: View, start: bytes) -> bytes | None:
    """Return the first context with version rows, as in keys, from ``start`` on."""
    row = view.seek(layout.VERSION + start)
    return row[0][1 : row[0].index(b"\0")] if row is not None and row[0].startswith(layout.VERSION) else None


def context_exists(view: View, context: bytes) -> bool:
    """Return true if a context, as in keys, has version rows; the default one always counts."""
    if context == DEFAULT:
        return True
    prefix = layout.VERSION + context + b"\0"
    row = view.seek(prefix)
    return row is not None and row[0].startswith(prefix)


def _in_span(
    view: View, span: Span, name: str, after: Subject | None, skips: Skips | None
) -> Iterator[SubjectEntry | None]:
    base = layout.VERSION + span.context + b"\0"
    raw = layout.part_prefix(name)
    end = layout.after(base + raw)
    if span.end is not None:
        end = min(end, base + span.end)
    start = max(base + raw, base + span.start)
    if after is not None:
        last = base + raw_part(after.name)
        group = last[: len(base) + layout.PART_CUT]
        if last == group or not (layout.is_cut(last) or has_cut(view, group)):
            start = max(start, last + b"\x01")
        elif start <= group < end:
            yield from _group(view, group, after.name)
            start = layout.after(group)
    context = layout.unpart(span.context)
    row = view.seek(start)
    block_skip = None if skips is None else BlockSkip(skips, end)
    while row is not None and row[0] < end:
        key, value = row
        if block_skip is not None and key >= block_skip.at:
            passed = block_skip.skip_from(view, start, key)
            if passed is not None:
                start = passed
                row = view.seek(start)
                yield None
                continue
        ended = key.index(b"\0", len(base))
        group = key[: len(base) + layout.PART_CUT]
        if ended > len(group) and has_cut(view, group):
            yield from _group(view, group, None)
            start = layout.after(group)
        else:
            raw = key[len(base) : ended]
            if context is None or b"\x01" in raw:
                yield versions.subject_at(key, value), value
            else:
                yield Subject(context, raw.decode()), value
            start = key[:ended] + b"\x01"
        row = view.seek(start)


def has_cut(view: View, group: bytes) -> bool:
    """Return true if some names with this beginning are cut, so that keys do not show their order."""
    row = view.seek(group + layout.CUT_MARK)
    return row is not None and row[0].startswith(group + layout.CUT_MARK)


def _group(view: View, group: bytes, after: str | None) -> Iterator[SubjectEntry | None]:
    """Yield the subjects that share a beginning as long as cut names keep."""

    def members() -> Iterator[SubjectEntry | None]:
        row = view.seek(group + b"\x01")
        while row is not None and row[0].startswith(group):
            key, value = row
            yield versions.subject_at(key, value), value
            row = view.seek(key[: key.index(b"\0", len(group))] + b"\x01")

    return in_order(members, lambda found: found[0].name, after)


def raw_part(text: str) -> bytes:
    """Return a context or name as in keys, without its terminator."""
    return layout.part(text)[:-1]
