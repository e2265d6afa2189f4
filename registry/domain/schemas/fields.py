"""The fields of a schema as people see them: one table for the API, the console and the search.

They come from the text alone, as the schema itself defines them. A type of another schema is only named, and
a type that is used twice is shown where it is defined.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from . import words
from .contract import Format, SchemaField
from .explaining import cut, excerpt
from .json_text import Json

# The largest number of fields and types that are listed.
FIELDS_MAX: Final = 20_000
# Characters of each property that are kept.
PATH_MAX: Final = 500
TYPE_MAX: Final = 200
DOC_MAX: Final = 2_000
TAGS_MAX: Final = 20
# Symbols of an enum, or branches of a type, that are named.
NAMED_MAX: Final = 20
# Characters that take as much memory as a field without its texts.
_FIELD_CHARACTERS: Final = 500
# Levels of a nested type that are shown where it is used.
DEPTH_MAX: Final = 6


class FieldPage(NamedTuple):
    """A part of the fields of a schema, and how many there are in all."""

    fields: list[SchemaField]
    total: int

    @property
    def characters(self) -> int:
        """Approximate length in characters, as memory counts it."""
        return sum(map(_characters, self.fields))


class FieldChange(NamedTuple):
    """A field or a type that differs between two schemas; ``None``: that schema lacks it."""

    old: SchemaField | None
    new: SchemaField | None

    def cut(self) -> FieldChange:
        """Return what an answer may hold of it."""
        return FieldChange(*(None if each is None else cut_field(each) for each in self))


class FieldCounts(NamedTuple):
    """Numbers of fields that only one of two schemas has, and of fields and types that differ."""

    added: int
    removed: int
    changed: int


class FieldDifferences(NamedTuple):
    """The differences between the fields of two schemas: their numbers, and the first ones, cut."""

    counts: FieldCounts
    first: list[FieldChange]

    @property
    def characters(self) -> int:
        """Approximate length in characters, as memory counts it."""
        return sum(_characters(each) for pair in self.first for each in pair if each is not None)


def _characters(field: SchemaField) -> int:
    _, path, name, shown, default, doc, tags, _ = field
    return _FIELD_CHARACTERS + sum(map(len, (path, name, shown, default or "", doc, *tags)))


def field_differences(old: Sequence[SchemaField], new: Sequence[SchemaField], most: int) -> FieldDifferences:
    """Return what differs, and at most ``most`` of it in full."""
    found = changed_fields(old, new)
    return FieldDifferences(count_changes(found), [each.cut() for each in found[:most]])


def fields_of(served: Format, text: str) -> list[SchemaField] | None:
    """Return all fields and types, uncut; ``None`` if there are more than can be listed.

    Raises :class:`InvalidSchema` for a text that cannot be read.
    """
    found = [*islice(served.fields(text), FIELDS_MAX + 1)]
    return None if len(found) > FIELDS_MAX else found


def changed_fields(old: Sequence[SchemaField], new: Sequence[SchemaField]) -> list[FieldChange]:
    """Return what differs, in the order of the new schema, then what only the old one has.

    Two are the same field if their kind and path are. Branches of a union can share one: then equal ones are
    paired first, the others in their order.
    """
    same = {*old} & {*new}
    waiting: dict[tuple[str, str], deque[SchemaField]] = defaultdict(deque)
    for each in old:
        if each not in same:
            waiting[each.kind, each.path].append(each)
    found = []
    for each in new:
        if each not in same:
            others = waiting[each.kind, each.path]
            found.append(FieldChange(others.popleft() if others else None, each))
    return found + [FieldChange(each, None) for left in waiting.values() for each in left]


def count_changes(found: Sequence[FieldChange]) -> FieldCounts:
    """Return the counts of :func:`changed_fields`; a type that is new or gone counts by its fields."""
    changed = sum(None not in each for each in found)
    added = sum(old is None and new is not None and new.kind == "field" for old, new in found)
    removed = sum(new is None and old is not None and old.kind == "field" for old, new in found)
    return FieldCounts(added, removed, changed)


def page_of(
    found: Iterator[SchemaField], begin: int, end: int, wanted: tuple[str, ...] | None = None
) -> FieldPage:
    """Return the fields from ``begin`` on and before ``end``; only those with one of the ``wanted`` words."""
    bounded = [each for each in limit_fields(found) if wanted is None or _has(each, wanted)]
    return FieldPage(bounded[begin:end], len(bounded))


def _has(each: SchemaField, wanted: tuple[str, ...]) -> bool:
    return any(words.matches(text, wanted) for text in (each.name, *each.tags, each.doc))


def limit_fields(found: Iterator[SchemaField]) -> Iterator[SchemaField]:
    """Yield what an answer may hold of the fields: no more, and no longer ones."""
    return map(cut_field, islice(found, FIELDS_MAX))


def cut_field(found: SchemaField) -> SchemaField:
    """Return a field without what an answer may not hold of it."""
    kind, path, name, shown, default, doc, tags, required = found
    return SchemaField(
        kind,
        path if len(path) <= PATH_MAX else f"…{path[1 - PATH_MAX :]}",
        cut(name, PATH_MAX),
        cut(shown, TYPE_MAX),
        None if default is None else cut(default, TYPE_MAX),
        cut(doc, DOC_MAX),
        tuple(cut(each, TYPE_MAX) for each in tags[:TAGS_MAX]),
        required,
    )


def field_members(each: SchemaField) -> dict[str, Any]:
    """Return the members of the API's ``Field``."""
    kind, path, name, shown, default, doc, tags, required = each
    members: dict[str, Any] = {"kind": kind, "path": path, "name": name, "type": shown}
    if default is not None:
        members["default"] = default
    if doc:
        members["doc"] = doc
    if tags:
        members["tags"] = tags
    if required:
        members["required"] = True
    return members


def join_path(path: str, name: str) -> str:
    """Return the path of a field inside ``path``, cut at the front."""
    return (f"{path}.{name}" if path else name)[-2 * PATH_MAX :]


def extend_path(path: str, mark: str) -> str:
    """Return the path of elements or values inside ``path``, no longer than that of :func:`join_path`."""
    return f"{path}{mark}"[-2 * PATH_MAX :]


def list_names(names: Sequence[str], between: str = ", ") -> str:
    """Return some names, the first ones of many."""
    shown = between.join(cut(each, TYPE_MAX) for each in names[:NAMED_MAX])
    return shown if len(names) <= NAMED_MAX else f"{shown}{between}…"


def text_in(value: dict[str, Json], *names: str) -> str:
    """Return the first of some members that is a text; empty if none is."""
    for name in names:
        if type(found := value.get(name)) is str and found:
            return found
    return ""


def default_in(value: dict[str, Json]) -> str | None:
    """Return the member ``default`` as JSON."""
    return excerpt(value["default"]) if "default" in value else None
