"""Puts definitions in the place of names that were used before they were defined, as every recursive schema does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..contract import InvalidSchema
from .defaults import check_default
from .model import Array, Map, Named, Node, Record, Union, Unresolved, type_name
from .walk import Walk, run


def link(root: Node, fresh: list[Named], known: Mapping[str, Named], strict: bool) -> Node:
    """The schema with every name resolved; ``fresh`` are the types that this text added to ``known``.

    Raises :class:`InvalidSchema` for a name without a definition, and for what only shows now: doubled union branches
    and, if ``strict``, defaults that do not match.
    """

    def definition(node: Node) -> Node:
        if type(node) is not Unresolved:
            return node
        found = known.get(node.full)
        if found is None:
            raise InvalidSchema(f"Undefined schema: {node.full}")
        return found

    records: list[Record] = []
    seen: set[int] = set()
    root = definition(root)
    todo: list[Node] = [*fresh, root]
    while todo:
        node = todo.pop()
        if id(node) not in seen:
            seen.add(id(node))
            todo.extend(_replace(node, definition))
            if type(node) is Record:
                records.append(node)
    if strict and any(type(field.default) in (dict, list) for record in records for field in record.fields):
        _check_again([*fresh, root], {id(node) for node in known.values()} - {id(node) for node in fresh})
    return root


def _replace(node: Node, definition: Callable[[Node], Node]) -> list[Node]:
    """Resolve the names directly inside ``node``; what is inside it is returned."""
    if type(node) is Record:
        for field in node.fields:
            field.type = definition(field.type)
        return [field.type for field in node.fields if field.type.kind in _HOLDERS]
    if type(node) is Array:
        node.items = definition(node.items)
        return [node.items]
    if type(node) is Map:
        node.values = definition(node.values)
        return [node.values]
    if type(node) is Union:
        if any(type(branch) is Unresolved for branch in node.branches):
            node.branches = [definition(branch) for branch in node.branches]
            _check_branches(node)
        return node.branches
    return []


_HOLDERS = frozenset({"record", "array", "map", "union"})


def _check_branches(union: Union) -> None:
    seen = set()
    for branch in union.branches:
        name = type_name(branch)
        if name in seen:
            raise InvalidSchema(f"Duplicate in union:{name}")
        seen.add(name)


def _check_again(roots: list[Node], done: set[int]) -> None:
    """Check the defaults against the resolved types, record by record in the order in which Java completes them."""
    started = set(done)
    for root in roots:
        for record in _records(root):
            if id(record) not in started:
                run(_complete(record, started, done))


def _complete(record: Record, started: set[int], done: set[int]) -> Walk[None]:
    started.add(id(record))
    for field in record.fields:
        for inner in _records(field.type):
            if id(inner) not in started:
                yield _complete(inner, started, done)
    for field in record.fields:
        if type(field.default) is dict or type(field.default) is list:
            check_default(field.name, field.type, field.default, done)
    done.add(id(record))


def _records(node: Node) -> Iterator[Record]:
    """The records reached from ``node`` without passing through another one; a union's last branch comes first."""
    todo = [node]
    while todo:
        item = todo.pop()
        if type(item) is Record:
            yield item
        elif type(item) is Array:
            todo.append(item.items)
        elif type(item) is Map:
            todo.append(item.values)
        elif type(item) is Union:
            todo.extend(item.branches)
