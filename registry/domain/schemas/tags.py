"""Inline tags, which are part of a schema (Confluent 8.x): the tagged entities, and changes to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

from .contract import Entity, InvalidSchema, Tagged

# The property or keyword that holds tags in Avro and JSON schemas.
NAME: Final = "confluent:tags"
RECORD: Final = "sr_record"
FIELD: Final = "sr_field"

T = TypeVar("T")


class Change(NamedTuple):
    """The requested change to the tags of one entity."""

    add: Sequence[str]
    remove: Sequence[str]
    # True if the entity must exist.
    must: bool


Changes: TypeAlias = Mapping[Entity, Change]


def changes(add: Iterable[Tagged], remove: Iterable[Tagged], also: Iterable[Tagged]) -> Changes:
    """Return the change for each entity; ``also``: tags added only to entities that exist.

    A leading dot of a path is ignored.
    """
    gained, lost, kept = _merge(add), _merge(remove), _merge(also)
    return {
        each: Change(
            [*kept.get(each, ()), *gained.get(each, ())], lost.get(each, ()), each in gained or each in lost
        )
        for each in [*kept, *gained, *lost]
    }


def _merge(tagged: Iterable[Tagged]) -> dict[Entity, list[str]]:
    found: dict[Entity, list[str]] = {}
    for entity, tags in tagged:
        found.setdefault(Entity(entity.path.removeprefix("."), entity.kind), []).extend(tags)
    return found


def apply_change(tags: Iterable[str], change: Change) -> list[str]:
    """Return an entity's tags after a change: new ones at the end, without duplicates."""
    return [each for each in dict.fromkeys([*tags, *change.add]) if each not in change.remove]


def collect_tagged(entities: Iterable[tuple[Entity, T]], read: Callable[[T], object]) -> list[Tagged]:
    """Return the tagged entities; ``read`` returns the value of an entity's tag property."""
    found = ((entity, tags_in(read(each))) for entity, each in entities)
    return [(entity, tuple(names)) for entity, names in found if names]


def give(
    entities: Iterable[tuple[Entity, T]],
    wanted: Changes,
    read: Callable[[T], object],
    write: Callable[[T, list[str]], None],
) -> None:
    """Change the tags of entities; ``write`` stores those of one entity, possibly none.

    Raises :class:`InvalidSchema` for a path that does not exist.
    """
    there = dict(entities)
    for entity, each in wanted.items():
        if entity in there:
            write(there[entity], apply_change(tags_in(read(there[entity])), each))
        else:
            check_optional(entity, each)


def check_optional(entity: Entity, change: Change) -> None:
    """Refuse a path that does not exist, unless it is optional. Raises :class:`InvalidSchema`."""
    if change.must:
        raise InvalidSchema(f"No matching path '{entity.path}' found in the schema")


def tags_in(value: object) -> list[str]:
    """Return the tags in a property's value; empty if it is not a list."""
    return [each for each in value if type(each) is str] if isinstance(value, list) else []
