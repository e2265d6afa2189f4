"""The named parts of an Avro schema, for lint rules, and the tags of its records and fields."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from registry.domain.schemas import tags
from registry.domain.schemas.contract import Entity, Tagged
from registry.domain.schemas.lint import Element

from .model import MISSING, Array, Enum, Field, Fixed, Map, Node, Record, Union


def elements(node: Node, known: Collection[str]) -> Iterator[Element]:
    """Yield each type once, then its fields, then their types, without the types that are ``known``."""
    if isinstance(node, Record | Enum | Fixed):
        yield Element("schema", "", node.name.full, namespace=node.name.space is not None)
    seen = set(known)
    waiting: list[Node | tuple[str, Field]] = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            path, field = each
            yield _field(f"{path}.{field.name}", field)
            waiting.append(field.type)
        elif isinstance(each, Union):
            waiting.extend(reversed(each.branches))
        elif isinstance(each, Array):
            waiting.append(each.items)
        elif isinstance(each, Map):
            waiting.append(each.values)
        elif isinstance(each, Record | Enum | Fixed) and each.name.full not in seen:
            seen.add(each.name.full)
            yield from _type(each)
            if isinstance(each, Record):
                waiting.extend((each.name.full, field) for field in reversed(each.fields))


def _field(path: str, field: Field) -> Element:
    return Element("field", path, field.name, doc=bool(field.doc), default=field.default is not MISSING)


def _type(each: Record | Enum | Fixed) -> Iterator[Element]:
    path, name = each.name.full, each.name.simple
    if not isinstance(each, Enum):
        yield Element("type", path, name, doc=bool(each.doc))
        return
    yield Element("enum", path, name, doc=bool(each.doc), default=each.default is not None)
    for symbol in each.symbols:
        yield Element("symbol", f"{path}.{symbol}", symbol)


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
