"""What in a registry that is not empty stands against the state of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from registry.domain.queries import versions
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.layout import View

_SHOWN = 10


def clashes(old: View, new: View) -> Iterator[str]:
    """Of each kind of clash the first ones and how many there are; ``old`` is the snapshot's state."""
    yield from _first("version {} is another schema there", _other_versions(old, new))
    yield from _first("id {} is another schema there", _other_ids(old, new))
    yield from _first("the config of {} is another there", _other_scopes(old, new, layout.CONFIG))
    yield from _first("the mode of {} is another there", _other_scopes(old, new, layout.MODE))


def _first(words: str, found: Iterator[str]) -> Iterator[str]:
    yield from (words.format(each) for each in islice(found, _SHOWN))
    more = sum(1 for _ in found)
    if more:
        yield f"{words.format('…')}: {more} more of these"


def _registered(view: View) -> Iterator[tuple[bytes, Registered]]:
    for key, _ in layout.scan(view, layout.VERSION):
        found = versions.at(view, key)
        if found is not None:
            yield key, found


def _other_versions(old: View, new: View) -> Iterator[str]:
    for key, mine in _registered(old):
        theirs = versions.at(new, key)
        if theirs is not None and (theirs.row.schema_id, theirs.row.md5) != (
            mine.row.schema_id,
            mine.row.md5,
        ):
            yield f"{mine.version} of {mine.subject.qualified!r}"


def _other_ids(old: View, new: View) -> Iterator[str]:
    told: set[tuple[str, int]] = set()
    for _, mine in _registered(old):
        name = (mine.subject.context, mine.row.schema_id)
        theirs = versions.by_id(new, *name)
        if theirs is not None and theirs.row.md5 != mine.row.md5 and name not in told:
            told.add(name)
            yield f"{mine.row.schema_id} in the context {mine.subject.context}"


def _other_scopes(old: View, new: View, table: bytes) -> Iterator[str]:
    for key, value in layout.scan(old, table):
        if new.get(key) not in (None, value):
            yield repr(layout.scope_of(key, value).qualified)
