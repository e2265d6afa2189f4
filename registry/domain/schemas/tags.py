"""Tags that stand in a schema itself (Confluent 8.x: inline tags): what carries them, and how they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

from .contract import Entity, InvalidSchema, Tagged

# The property or keyword that holds them in Avro and JSON schemas.
NAME: Final = "confluent:tags"
RECORD: Final = "sr_record"
FIELD: Final = "sr_field"

T = TypeVar("T")


class Change(NamedTuple):
    """What is asked for one entity."""

    add: Sequence[str]
    remove: Sequence[str]
    # Whether it has to be there.
    must: bool


Changes: TypeAlias = Mapping[Entity, Change]


def changes(add: Iterable[Tagged], remove: Iterable[Tagged], also: Iterable[Tagged]) -> Changes:
    """What is asked for each entity; ``also``: added where there is such an entity.

    A dot before a path means nothing.
    """
    gained, lost, kept = _united(add), _united(remove), _united(also)
    return {
        each: Change(
            [*kept.get(each, ()), *gained.get(each, ())], lost.get(each, ()), each in gained or each in lost
        )
        for each in [*kept, *gained, *lost]
    }


def _united(tagged: Iterable[Tagged]) -> dict[Entity, list[str]]:
    found: dict[Entity, list[str]] = {}
    for entity, tags in tagged:
        found.setdefault(Entity(entity.path.removeprefix("."), entity.kind), []).extend(tags)
    return found


def changed(tags: Iterable[str], change: Change) -> list[str]:
    """Return the tags of an entity after a change: new ones at the end, each once."""
    return [each for each in dict.fromkeys([*tags, *change.add]) if each not in change.remove]


def told(entities: Iterable[tuple[Entity, T]], read: Callable[[T], object]) -> list[Tagged]:
    """What carries tags; ``read`` gives what an entity's property holds."""
    found = ((entity, listed(read(each))) for entity, each in entities)
    return [(entity, tuple(said)) for entity, said in found if said]


def give(
    entities: Iterable[tuple[Entity, T]],
    wanted: Changes,
    read: Callable[[T], object],
    write: Callable[[T, list[str]], None],
) -> None:
    """Give entities other tags; ``write`` takes those of one, perhaps none.

    Raises :class:`InvalidSchema` for a path that leads nowhere.
    """
    there = dict(entities)
    for entity, each in wanted.items():
        if entity in there:
            write(there[entity], changed(listed(read(there[entity])), each))
        else:
            check_optional(entity, each)


def check_optional(entity: Entity, change: Change) -> None:
    """Refuse a path that leads nowhere, unless it need not lead anywhere. Raises :class:`InvalidSchema`."""
    if change.must:
        raise InvalidSchema(f"No matching path '{entity.path}' found in the schema")


def listed(value: object) -> list[str]:
    """Return the tags that a property holds; none where it is no list."""
    return [each for each in value if type(each) is str] if isinstance(value, list) else []
