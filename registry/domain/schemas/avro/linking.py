"""Linking of names that are used before their definition, as in recursive types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from registry.domain.schemas.contract import InvalidSchema
from registry.domain.schemas.trampoline import Walk, run

from .defaults import DefaultChecks
from .model import Array, Map, Named, Node, Record, Union, Unresolved, type_name

_HOLDERS: Final = frozenset({"record", "array", "map", "union"})


def link(root: Node, fresh: list[Named], known: Mapping[str, Named], checks: DefaultChecks | None) -> Node:
    """Return the schema with every name resolved; ``fresh``: the types that this text added to ``known``.

    Raises :class:`InvalidSchema` for a name without a definition, and for errors that only show now:
    duplicate union branches and, if there are ``checks``, defaults that do not match.
    """
    links = _Links(known)
    root = links.definition(root)
    records = links.resolve([*fresh, root])
    if checks and any(type(field.default) in (dict, list) for record in records for field in record.fields):
        complete = {id(node) for node in known.values()} - {id(node) for node in fresh}
        completion = _Completion(links.forward, complete, checks)
        for start in [*fresh, root]:
            run(completion.visit(start))
    return root


class _Links:
    """Resolves names; ``forward`` holds their former positions by holder's identity and index."""

    __slots__ = ("_known", "forward")

    def __init__(self, known: Mapping[str, Named]) -> None:
        self._known = known
        self.forward: set[tuple[int, int]] = set()

    def definition(self, node: Node) -> Node:
        if type(node) is not Unresolved:
            return node
        found = self._known.get(node.full)
        if found is None:
            raise InvalidSchema(f"Undefined schema: {node.full}")
        return found

    def resolve(self, todo: list[Node]) -> list[Record]:
        """Resolve everything reachable from ``todo``; return the records among it."""
        records: list[Record] = []
        seen: set[int] = set()
        while todo:
            node = todo.pop()
            if id(node) not in seen:
                seen.add(id(node))
                todo.extend(self._inner(node))
                if type(node) is Record:
                    records.append(node)
        return records

    def _inner(self, node: Node) -> list[Node]:
        """Return the types directly inside ``node``, resolved."""
        if type(node) is Record:
            for field in node.fields:
                field.type = self._at(field, 0, field.type)
            return [field.type for field in node.fields if field.type.kind in _HOLDERS]
        if type(node) is Array:
            node.items = self._at(node, 0, node.items)
            return [node.items]
        if type(node) is Map:
            node.values = self._at(node, 0, node.values)
            return [node.values]
        if type(node) is Union and node.text is None:
            if any(type(branch) is Unresolved for branch in node.branches):
                node.branches = [self._at(node, place, branch) for place, branch in enumerate(node.branches)]
                _check_branches(node)
            return node.branches
        return []

    def _at(self, holder: object, index: int, node: Node) -> Node:
        if type(node) is Unresolved:
            self.forward.add((id(holder), index))
            return self.definition(node)
        return node


def _check_branches(union: Union) -> None:
    seen = set()
    for branch in union.branches:
        name = type_name(branch)
        if name in seen:
            raise InvalidSchema(f"Duplicate in union:{name}")
        seen.add(name)


class _Completion:
    """Checks of defaults against the resolved types, in the order in which Java completes records.

    The order matters: Java refuses an object as a default for a record that is not complete yet. It looks up
    the definition of a forward name in a nested walk, which completes what the outer one began.
    """

    __slots__ = ("_checks", "_done", "_forward", "_started")

    def __init__(self, forward: set[tuple[int, int]], done: set[int], checks: DefaultChecks) -> None:
        self._checks = checks
        self._forward = forward
        self._done = done
        self._started = set(done)

    def visit(self, start: Node) -> Walk[None]:
        """Complete ``start`` and everything reachable from it."""
        visited: set[int] = set()
        for record, _ in self._records(start, forward=False):
            if id(record) not in self._done:
                yield self._complete(record, visited)

    def _complete(self, record: Record, visited: set[int]) -> Walk[None]:
        visited.add(id(record))
        self._started.add(id(record))
        for field in record.fields:
            for inner, forward in self._records(field.type, (id(field), 0) in self._forward):
                if forward:
                    if id(inner) not in self._started:
                        yield self.visit(inner)
                elif id(inner) not in visited and id(inner) not in self._done:
                    yield self._complete(inner, visited)
        if id(record) in self._done:
            return
        for field in record.fields:
            if type(field.default) is dict or type(field.default) is list:
                self._checks.check(field.name, field.type, field.default, self._done)
        self._done.add(id(record))

    def _records(self, node: Node, forward: bool) -> Iterator[tuple[Record, bool]]:
        """Yield the records next to ``node``, and whether a forward name leads to them."""
        todo = [(node, forward)]
        while todo:
            item, by_name = todo.pop()
            if type(item) is Record:
                yield item, by_name
            elif type(item) is Array:
                todo.append((item.items, (id(item), 0) in self._forward))
            elif type(item) is Map:
                todo.append((item.values, (id(item), 0) in self._forward))
            elif type(item) is Union:
                # The last branch of a union comes first.
                todo.extend((b, (id(item), i) in self._forward) for i, b in enumerate(item.branches))
