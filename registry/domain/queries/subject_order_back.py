"""Subjects in the reverse order of their qualified names, starting before any subject.

See :mod:`.subject_order` for that order, and for how it differs from the order of keys.
"""

from __future__ import annotations

from collections.abc import Iterator

from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.domain.rows import layout
from registry.domain.rows.view import View

from . import versions
from .subject_order import (
    BEYOND,
    COLON,
    DEFAULT,
    QUALIFIED,
    Prefix,
    Span,
    SubjectEntry,
    context_exists,
    has_cut,
    raw_part,
)
from .walks import BlockSkipBack, Skips, in_order

_FLIPPED = bytes(range(255, -1, -1))


def flip(raw: bytes) -> bytes:
    """Return bytes with the reverse order of ``raw``, of which none may begin another."""
    return raw.translate(_FLIPPED)


def subjects_back(
    view: View, prefix: Prefix, before: Subject | None = None, skips: Skips | None = None
) -> Iterator[SubjectEntry | None]:
    """Yield the subjects under a prefix that have version rows, from the last one before ``before`` on.

    With ``skips``, blocks are skipped as a whole if they lie under the prefix as far as keys show.
    """
    if skips is not None and not prefix.shown_by_keys:
        skips = None
    for span in _spans(view, prefix, before):
        end = before if before is not None and raw_part(before.context) == span.context else None
        for found in _in_span(view, span, prefix.name, end, skips):
            yield found if found is not None and prefix.admits(found[0]) else None


def _spans(view: View, prefix: Prefix, before: Subject | None) -> Iterator[Span]:
    if prefix.whole:
        yield Span(raw_part(prefix.context))
        return
    default = DEFAULT_CONTEXT.startswith(prefix.context)
    name = b"" if before is None or before.context != DEFAULT_CONTEXT else before.name.encode()
    bare = before is not None and before.context == DEFAULT_CONTEXT and not name.startswith(QUALIFIED)
    if default and (before is None or (bare and name >= BEYOND)):
        yield Span(DEFAULT, BEYOND)
        before = None
    if before is None or not bare:
        yield from _contexts(view, layout.part_prefix(prefix.context), before)
    if default:
        yield Span(DEFAULT, b"", QUALIFIED)


def _contexts(view: View, beginning: bytes, before: Subject | None) -> Iterator[Span]:
    context = _last(view, beginning) if before is None else raw_part(before.context)
    while context is not None:
        yield Span(DEFAULT, QUALIFIED, BEYOND) if context == DEFAULT else Span(context)
        context = _previous(view, context, beginning)


def _last(view: View, beginning: bytes) -> bytes | None:
    """Return the last context with this prefix."""
    found = _context_before(view, layout.after(layout.VERSION + beginning), beginning)
    return None if found is None else _last_of_branch(view, found, max(len(beginning), 1))


def _previous(view: View, context: bytes, beginning: bytes) -> bytes | None:
    """Return the last context with this prefix before ``context``; both end with a colon."""
    for length in range(len(context), max(len(beginning), 1) - 1, -1):
        stem = context[:length]
        character = context[length] if length < len(context) else COLON
        found = _context_before(view, layout.VERSION + stem + bytes((character,)), stem)
        if found is not None and len(found) == length:
            found = None  # the stem itself
        # Contexts that begin with the stem, the stem itself among them, are ordered by the next character.
        if character > COLON and (found is None or found[length] < COLON) and context_exists(view, stem):
            return stem
        if found is not None:
            return _last_of_branch(view, found, length + 1)
    return None


def _last_of_branch(view: View, found: bytes, length: int) -> bytes:
    """Return the last of the contexts that begin with ``found[:length]``; by key that is ``found``."""
    for shorter in range(length, len(found)):
        if found[shorter] < COLON and context_exists(view, found[:shorter]):
            return found[:shorter]
    return found


def _context_before(view: View, end: bytes, beginning: bytes) -> bytes | None:
    """Return the context of the last version row before the key ``end``, if it begins like this."""
    row = view.seek_back(end)
    if row is None or not row[0].startswith(layout.VERSION + beginning):
        return None
    return row[0][1 : row[0].index(b"\0")]


def _in_span(
    view: View, span: Span, name: str, before: Subject | None, skips: Skips | None
) -> Iterator[SubjectEntry | None]:
    base = layout.VERSION + span.context + b"\0"
    raw = layout.part_prefix(name)
    start, end = max(base + raw, base + span.start), layout.after(base + raw)
    if span.end is not None:
        end = min(end, base + span.end)
    if before is not None:
        last = base + raw_part(before.name)
        group = last[: len(base) + layout.PART_CUT]
        if last == group or not (layout.is_cut(last) or has_cut(view, group)):
            end = min(end, last)
        elif group < end:
            if start <= group:
                yield from _group(view, group, before.name)
            end = group + b"\x01"
    block_skip = None if skips is None else BlockSkipBack(skips, start)
    row = view.seek_back(end)
    while row is not None and row[0] >= start:
        key, value = row
        passed = block_skip.skip_from(view, end, key) if block_skip is not None else None
        if passed is not None:
            end = passed
            yield None
            row = view.seek_back(end)
            continue
        ended = key.index(b"\0", len(base))
        group = key[: len(base) + layout.PART_CUT]
        if ended > len(group) and has_cut(view, group):
            yield from _group(view, group, None)
            end = group + b"\x01"
        else:
            yield versions.subject_at(key, value), value
            end = key[:ended]
        row = view.seek_back(end)


def _group(view: View, group: bytes, before: str | None) -> Iterator[SubjectEntry | None]:
    """Yield the subjects that share a beginning as long as cut names keep."""

    def members() -> Iterator[SubjectEntry | None]:
        end = layout.after(group)
        row = view.seek_back(end)
        while row is not None and row[0] >= group + b"\x01":
            key, value = row
            yield versions.subject_at(key, value), value
            row = view.seek_back(key[: key.index(b"\0", len(group))])

    return in_order(members, lambda found: _place(found[0].name), None if before is None else _place(before))


def _place(name: str) -> bytes:
    # The zero byte, which no escaped name holds, keeps a name from being the beginning of another.
    return flip(layout.escape(name.encode()) + b"\0")
