"""The fields of a schema as people see them: one table for the API, the console and the search.

They come from the text alone, as the schema itself defines them. A type of another schema is only named, and
a type that is used twice is shown where it is defined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from . import words
from .contract import SchemaField
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
# Levels of a nested type that are shown where it is used.
DEPTH_MAX: Final = 6


class FieldPage(NamedTuple):
    """A part of the fields of a schema, and how many there are in all."""

    fields: list[SchemaField]
    total: int


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
    for kind, path, name, shown, default, doc, tags, required in islice(found, FIELDS_MAX):
        yield SchemaField(
            kind,
            path if len(path) <= PATH_MAX else f"…{path[1 - PATH_MAX :]}",
            cut(name, PATH_MAX),
            cut(shown, TYPE_MAX),
            None if default is None else cut(default, TYPE_MAX),
            cut(doc, DOC_MAX),
            tuple(cut(each, TYPE_MAX) for each in tags[:TAGS_MAX]),
            required,
        )


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
