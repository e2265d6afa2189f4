"""The rows that one principal may read, as a view: all other subjects and contexts seem to be missing.

Whatever reads through it shows nothing else, and lists walk only the permitted ranges of names: a seek goes
from range to range, so it costs as much as the principal has ranges, however many subjects are stored.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache

from xxhash import xxh3_64_hexdigest

from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.domain.queries.associations import subject_of
from registry.domain.rows import layout, version_row
from registry.domain.rows.view import Block, History, View, scan
from registry.domain.subject_patterns import SubjectRange
from registry.security.gate import Access, Permission

Row = tuple[bytes, bytes]

# Tables whose keys name the subject of the row directly after the letter.
_BY_SUBJECT = frozenset((layout.VERSION, layout.ASSOCIATION, layout.CONFIG, layout.MODE))
# Of these, single rows may be read whatever the rules: config and mode in force, aliases and marks.
_OPEN = frozenset(
    (layout.CONFIG, layout.MODE, layout.CLEAR, layout.DELETE_MARK, layout.CONTEXT, layout.RESERVATION)
)
_MD5_BYTES, _NUMBER_BYTES, _OFFSET_BYTES = 16, 4, 8


class Spans:
    """The permitted ranges as ranges of key parts: a packed context and the beginning of a packed name."""

    def __init__(self, access: Access) -> None:
        self.access = access
        merged: list[tuple[bytes, bytes, bool]] = []
        for begin, end, exact in sorted(map(_span, access.ranges(Permission.READ))):
            if merged and begin <= merged[-1][1]:
                last = merged[-1]
                # Of long names keys show only the beginning, so that ranges of them can overlap.
                merged[-1] = (last[0], max(last[1], end), False)
            else:
                merged.append((begin, end, exact))
        self.begins = [begin for begin, _, _ in merged]
        self.ends = [end for _, end, _ in merged]
        self.exact = [exact for _, _, exact in merged]
        # Differs where other subjects are shown.
        self.key = xxh3_64_hexdigest(repr(access.ranges(Permission.READ)).encode(errors="surrogatepass"))

    def at(self, owner: bytes) -> int:
        """Return the index of the range that holds a key part, or -1."""
        index = bisect_right(self.begins, owner) - 1
        return index if index >= 0 and owner < self.ends[index] else -1

    def following(self, owner: bytes) -> bytes | None:
        """Return the beginning of the first range after a key part."""
        index = bisect_right(self.begins, owner)
        return self.begins[index] if index < len(self.begins) else None

    def preceding(self, owner: bytes) -> bytes | None:
        """Return the end of the last range before a key part that lies in none."""
        index = bisect_right(self.begins, owner) - 1
        return self.ends[index] if index >= 0 else None

    def whole(self, context: bytes) -> bool:
        """Return true if all subjects of a packed context are permitted."""
        index = self.at(context)
        return index >= 0 and self.begins[index] <= context and self.ends[index] >= layout.after(context)

    def context_from(self, context: bytes) -> bytes | None:
        """Return the first packed context, from ``context`` on, of which anything is permitted."""
        index = bisect_left(self.begins, context)
        return None if index == len(self.begins) else _context_of(self.begins[index])


def _span(part: SubjectRange) -> tuple[bytes, bytes, bool]:
    context = layout.part(part.context)
    first, end = layout.escape(part.first), layout.escape(part.end)
    exact = max(len(first), len(end)) < layout.PART_CUT
    begin = context + first[: layout.PART_CUT]
    if not end:
        return begin, layout.after(context), exact
    if len(end) < layout.PART_CUT:
        return begin, context + end, exact
    return begin, layout.after(context + end[: layout.PART_CUT]), False


def _context_of(owner: bytes) -> bytes:
    return owner[: owner.index(b"\0") + 1]


@lru_cache(maxsize=4096)
def spans_of(access: Access) -> Spans:  # an access is its own key, because it never changes
    """Return the ranges that ``access`` permits to read; computed once for each access."""
    return Spans(access)


class PermittedView:
    """A view without the rows of subjects that may not be read.

    A seek looks no further than the table in which it begins; among the index rows of one content, referenced
    version or resource it ends with them. If not all of a context may be read, the rows of its ids come only
    one id after the other, each in the order of its subjects, not of their records, because only that order
    leads from one permitted subject to the next; and :meth:`seek_back` finds none.
    """

    def __init__(self, base: View, spans: Spans) -> None:
        self._base = base
        self._spans = spans
        self._contents: dict[bytes, list[bytes]] = {}

    def revision(self) -> None:
        """Return nothing: not all rows are shown."""

    def block(self, key: bytes) -> Block | None:
        """Return the block of version rows that holds ``key`` if all of it may be read."""
        block = self._base.block(key) if key[:1] == layout.VERSION else None
        if block is None:
            return None
        index = self._spans.at(block.begin[1:])
        if index < 0 or not self._spans.exact[index] or block.end[1:] > self._spans.ends[index]:
            return None
        return block if block.end[:1] == layout.VERSION else None

    def history(self) -> History | None:
        """Return the whole history: its readers ask only for what is permitted."""
        return self._base.history()

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        value = self._base.get(key)
        if value is None or key[:1] in _OPEN:
            return value
        return value if self._shows(key, value) else None

    def seek(self, key: bytes) -> Row | None:
        """Return the first permitted row whose key is ``key`` or greater."""
        table = key[:1]
        if table == layout.CONTEXT:
            return self._seek_context(key)
        if table == layout.ID:
            return self._seek_id(key)
        row = self._base.seek(key)
        if row is None or row[0][:1] != table:
            return None
        fixed, _ = _split(row[0])
        if not fixed:
            return None
        while row is not None and row[0].startswith(fixed):
            if self._shows(*row):
                return row
            _, owner = _split(row[0])
            if self._spans.at(owner) >= 0:  # a long name, of which the key does not show enough
                row = self._base.seek(row[0] + b"\0")
                continue
            following = self._spans.following(owner)
            begin = None if following is None else _join(fixed, following)
            row = None if begin is None else self._base.seek(begin)
        return None

    def seek_back(self, key: bytes) -> Row | None:
        """Return the last permitted row whose key is less than ``key``."""
        row = self._base.seek_back(key)
        table = b"" if row is None else row[0][:1]
        while row is not None and row[0][:1] == table and table in _BY_SUBJECT:
            if self._shows(*row):
                return row
            owner = row[0][1:]
            end = self._spans.preceding(owner) if self._spans.at(owner) < 0 else owner
            row = None if end is None else self._base.seek_back(table + end)
        if row is not None and row[0][:1] == layout.ID:
            return row if self._spans.whole(_context_of(row[0][1:])) else None
        return None

    def _shows(self, key: bytes, value: bytes) -> bool:
        if key[:1] == layout.CONTEXT:
            return self._spans.context_from(key[1:]) == key[1:]
        split = _split(key)
        if not split[0]:
            return False
        index = self._spans.at(split[1])
        if index < 0 or self._spans.exact[index]:
            return index >= 0
        subject = self._subject(key, value)
        return subject is not None and self._spans.access.may(Permission.READ, subject)

    def _subject(self, key: bytes, value: bytes) -> Subject | None:
        """Return the subject of a row, with its full name."""
        table = key[:1]
        if table in (layout.CONFIG, layout.MODE):
            return layout.scope_of(key, value)
        if table in (layout.RESOURCE_NAME, layout.RESOURCE_ID):
            found = self._base.get(layout.association_of(key))
            return None if found is None else subject_of(found)
        if table == layout.ASSOCIATION:
            return subject_of(value)
        if table != layout.VERSION:
            key = layout.VERSION + _split(key)[1]
            found = self._base.get(key)
            if found is None:
                return None
            value = found
        return versions.subject_at(key, value)

    def _seek_context(self, key: bytes) -> Row | None:
        context: bytes | None = key[1:]
        while context is not None:
            row = self._base.seek(layout.CONTEXT + context)
            if row is None or row[0][:1] != layout.CONTEXT:
                return None
            if self._shows(*row):
                return row
            context = self._spans.context_from(row[0][1:])
        return None

    def _seek_id(self, key: bytes) -> Row | None:
        """Return the next row of a context of which all may be read.

        Otherwise the first permitted row of an id, or the one after the subject and version in ``key``.
        """
        end = key.find(b"\0") + 1 + _NUMBER_BYTES
        if end == _NUMBER_BYTES:
            return None
        packed = key[1 : end - _NUMBER_BYTES]
        if self._spans.whole(packed):
            row = self._base.seek(key)
            return row if row is not None and row[0].startswith(layout.ID + packed) else None
        if len(key) < end:
            return None
        prefix, last = key[:end], key[end + _OFFSET_BYTES : -1]
        context = prefix[1:-_NUMBER_BYTES]
        contents = self._contents_of(prefix)
        if last:
            value = self._base.get(layout.VERSION + context + last)
            md5 = version_row.md5_of(value) if value is not None else b""
            contents = contents[contents.index(md5) if md5 in contents else 0 :]
        for md5 in contents:
            group = layout.GUID + context + md5
            for row in scan(self, group, group + last + b"\0" if last else None):
                value = self._base.get(layout.VERSION + context + row[0][len(group) :])
                if value is not None and row[1] == prefix[-_NUMBER_BYTES:]:
                    offset = version_row.offset_of(value).to_bytes(_OFFSET_BYTES, "big")
                    return prefix + offset + row[0][len(group) :], b""
            last = b""
        return None

    def _contents_of(self, prefix: bytes) -> list[bytes]:
        """Return the contents of an id: one, unless other writers gave the id to several."""
        found = self._contents.get(prefix)
        if found is None:
            found = self._contents[prefix] = []
            for count, (key, _) in enumerate(scan(self._base, prefix), 1):
                value = self._base.get(layout.version_key_of_id(key, prefix))
                md5 = b"" if value is None else version_row.md5_of(value)
                if md5 and md5 not in found:
                    found.append(md5)
                if count == versions.SHARED_ROWS_MAX:
                    break
        return found


def _split(key: bytes) -> tuple[bytes, bytes]:
    """Return the part of a key that rows of different subjects share, and the subject's part with the rest.

    The shared part is empty for tables that are not shown.
    """
    table = key[:1]
    if table in _BY_SUBJECT:
        return table, key[1:]
    if table in (layout.GUID, layout.ID):
        name = key.index(b"\0") + 1
        own = name + (_MD5_BYTES if table == layout.GUID else _NUMBER_BYTES + _OFFSET_BYTES)
        return key[:own], key[1:name] + key[own:]
    if table == layout.REFERRER:
        name = key.index(b"\0") + 1
        own = key.index(b"\0", name) + 1 + _NUMBER_BYTES
    elif table == layout.RESOURCE_NAME:
        own = key.index(b"\0", key.index(b"\0") + 1) + 1
    elif table == layout.RESOURCE_ID:
        own = key.index(b"\0") + 1
    else:
        return b"", b""
    return key[:own], key[own:]


def _join(fixed: bytes, owner: bytes) -> bytes | None:
    """Return the key from a part that rows share and a subject's part; None if they are not of one context.

    The keys of contents begin with the context, which the subject's part repeats.
    """
    if fixed[:1] != layout.GUID:
        return fixed + owner
    context = fixed[1:-_MD5_BYTES]
    return fixed + owner[len(context) :] if owner.startswith(context) else None
