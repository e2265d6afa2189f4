"""Tags of records and of their fields: the property ``confluent:tags`` (Confluent 8.x)."""

from __future__ import annotations

from collections.abc import Iterator

from registry.domain.schemas import tags
from registry.domain.schemas.contract import Entity, Tagged

from .model import Array, Field, Map, Node, Record, Union


def tagged(node: Node) -> list[Tagged]:
    """Return the tagged entities in the order of the text."""
    return tags.tagged(_entities(node), _read)


def change(node: Node, wanted: tags.Changes) -> None:
    """Change the tags of records and fields in ``node``, which must not be shared.

    Raises :class:`~.contract.InvalidSchema` for a path that does not exist.
    """
    tags.give(_entities(node), wanted, _read, _write)


def _read(each: Record | Field) -> object:
    return (each.props or {}).get(tags.NAME)


def _write(each: Record | Field, names: list[str]) -> None:
    props = dict(each.props or {})
    if names:
        props[tags.NAME] = names
    else:
        props.pop(tags.NAME, None)
    each.props = props or None


def _entities(node: Node) -> Iterator[tuple[Entity, Record | Field]]:
    """Yield each record once, then its fields, then their contents."""
    seen: set[str] = set()
    waiting: list[Node | tuple[str, Field]] = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            path, field = each
            yield Entity(f"{path}.{field.name}", tags.FIELD), field
            waiting.append(field.type)
        elif isinstance(each, Union):
            waiting.extend(reversed(each.branches))
        elif isinstance(each, Array):
            waiting.append(each.items)
        elif isinstance(each, Map):
            waiting.append(each.values)
        elif isinstance(each, Record) and each.name.full not in seen:
            name = each.name.full
            seen.add(name)
            yield Entity(name, tags.RECORD), each
            waiting.extend((name, field) for field in reversed(each.fields))
