"""Names that are used before their definition, as in recursive types, and checks of defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from registry.domain.schemas.contract import InvalidSchema
from registry.domain.schemas.json_text import clip, print_json
from registry.domain.schemas.trampoline import Walk, run

from .canonical import canonical_text
from .model import MISSING, Array, Json, Map, Named, Node, Record, Union, Unresolved, type_name

# Limit on comparisons of values with types in one text; a text that needs more is refused.
MAX_STEPS: Final = 1_000_000

_RANGES: Final = {"int": 2**31, "long": 2**63}
_FLOATING: Final = frozenset({"float", "double"})
_CONTAINERS: Final = frozenset({"array", "map"})
# The types of JSON values by the kind of a schema's type.
_TYPES: Final[dict[str, type]] = {
    "null": type(None), "boolean": bool, "int": int, "long": int, "bytes": str, "string": str, "enum": str,
    "fixed": str, "array": list, "map": dict, "record": dict,
}  # fmt: skip


class DefaultChecks:
    """The checks of all defaults in one text, which share a limit."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = 0

    def check(self, field: str, node: Node, value: Json, done: AbstractSet[int] | None = None) -> None:
        """Raise :class:`InvalidSchema` unless ``value`` may be the default of a field of type ``node``.

        ``done``: the identities of the records whose fields are known. Java refuses an object as the default
        for a record that it is still building.
        """
        valid = _plain(node, value)
        if valid is None:
            valid = run(_Check(self, done).fits(node, value))
        if not valid:
            shown = f"{clip(print_json(value))} not a {clip(canonical_text(node, ()))}"
            raise InvalidSchema(f"Invalid default for field {field}: {shown}")

    def count(self, steps: int) -> None:
        """Use up ``steps`` of the limit."""
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise InvalidSchema("Invalid default: too large to be checked against its type")


def _plain(node: Node, value: Json) -> bool | None:
    """Return the result if no array or object has to be searched, else None."""
    if type(node) is Union:
        for branch in node.branches:
            valid = _plain(branch, value)
            if valid is not False:
                return valid
        return False
    kind, found = node.kind, type(value)
    if kind in _FLOATING:
        return found is int or found is float
    if found is not _TYPES[kind]:
        return False
    if kind in _RANGES:
        return bool(-_RANGES[kind] <= value < _RANGES[kind])
    if kind == "record":
        return None
    # An empty array or object has nothing to be searched.
    return None if value and kind in _CONTAINERS else True


class _Check:
    """The check of one default. It keeps results, because unions can lead to the same pair in many ways."""

    __slots__ = ("_checks", "_done", "_verdicts")

    def __init__(self, checks: DefaultChecks, done: AbstractSet[int] | None) -> None:
        self._checks = checks
        self._done = done
        self._verdicts: dict[tuple[int, int], bool] = {}

    def fits(self, node: Node, value: Json) -> Walk[bool]:
        """Return true if the value fits, searching arrays and objects."""
        key = (id(node), id(value))
        if key not in self._verdicts:
            self._verdicts[key] = yield self._judge(node, value)
        return self._verdicts[key]

    def _judge(self, node: Node, value: Json) -> Walk[bool]:
        if type(node) is Union:
            some: bool = yield self._some([(branch, value) for branch in node.branches])
            return some
        if type(node) is Unresolved:
            return True
        if type(node) is Array:
            every: bool = yield self._every([(node.items, item) for item in value])
            return every
        if type(node) is Map:
            every = yield self._every([(node.values, item) for item in value.values()])
            return every
        assert type(node) is Record
        if self._done is not None and id(node) not in self._done:
            raise InvalidSchema("Schema fields not set yet")
        self._checks.count(len(node.fields))
        # A field that the value leaves out has its own default, which was checked with that record.
        if any(field.name not in value and field.default is MISSING for field in node.fields):
            return False
        fields = [(field.type, value[field.name]) for field in node.fields if field.name in value]
        every = yield self._every(fields)
        return every

    def _some(self, parts: list[tuple[Node, Json]]) -> Walk[bool]:
        self._count(parts)
        for part, item in parts:
            valid = _plain(part, item)
            if valid is None:
                valid = yield self.fits(part, item)
            if valid:
                return True
        return False

    def _every(self, parts: list[tuple[Node, Json]]) -> Walk[bool]:
        self._count(parts)
        for part, item in parts:
            valid = _plain(part, item)
            if valid is None:
                valid = yield self.fits(part, item)
            if not valid:
                return False
        return True

    def _count(self, parts: list[tuple[Node, Json]]) -> None:
        self._checks.count(sum([len(part.branches) if type(part) is Union else 1 for part, _ in parts]))


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
