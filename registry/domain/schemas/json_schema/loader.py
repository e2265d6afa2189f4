"""Loading of JSON into the model, as Confluent's parsers understand the keywords; without recursion.

These parsers are Everit's for the drafts up to 07, and json-sKema's, translated to Everit's model, for later
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from registry.domain.schemas.contract import Dependency, InvalidSchema
from registry.domain.schemas.json_text import Json

from . import drafts
from .documents import Documents, ReferenceScope
from .drafts import DRAFT_4, Draft, check
from .model import Array, Combined, Node, Not, Object, Reference, Values
from .text import Sameness, value_key

_CRITERIA: Final = ("allOf", "anyOf", "oneOf")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
# Keywords of schemas that are made of others or of values, whatever their type.
_COMBINING: Final = frozenset({*_REFERENCES, *_CRITERIA, "enum", "not", "const"})
_KEPT_WITH_REFERENCE: Final = ("$ref", "title", "description", "default", "$schema")

Schema = dict[str, Json]


def load(schema: Json, draft: Draft, dependencies: Sequence[Dependency], *, refers: bool) -> Node:
    """Return the model; ``refers``: there may be references. Raises :class:`InvalidSchema`."""
    return _Loader(Documents(schema, draft, dependencies, refers=refers)).load(schema)


class _Loader:
    """Builds one node per reachable schema; their contents are filled in one after another."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._nodes: dict[int, Node] = {}
        self._todo: list[
            tuple[Callable[[Any, Schema, ReferenceScope], None], Node, Schema, ReferenceScope]
        ] = []
        self._references: list[Reference] = []
        self._sameness = Sameness()

    def load(self, schema: Json) -> Node:
        top = self._node(schema, self._documents.top, entered=True)
        while self._todo:
            fill, node, raw, scope = self._todo.pop()
            fill(node, raw, scope)
        self._follow_references()
        return top

    def _node(self, schema: Json, scope: ReferenceScope, *, entered: bool = False) -> Node:
        """Return the node of a schema, whose contents may not be filled in yet.

        ``entered``: ``scope`` is already that of the contents, including the schema's own id.
        """
        if type(schema) is bool:
            plain = Node("empty" if schema else "false")
            plain.raw = schema
            return plain
        if type(schema) is not dict:
            raise InvalidSchema("Invalid JSON Schema: a schema is an object or a boolean")
        node = self._nodes.get(id(schema))
        if node is None:
            inside = scope if entered else self._documents.inside(schema, scope)
            node = self._nodes[id(schema)] = self._make_node(schema, inside)
        return node

    def _make_node(self, schema: Schema, scope: ReferenceScope) -> Node:
        raw = schema
        if "$ref" in schema and not scope.draft.modern:
            schema = {name: schema[name] for name in _KEPT_WITH_REFERENCE if name in schema}
        check(schema, scope.draft)
        parts = self._parts(schema, scope)
        if not parts:
            node = Node("empty")
        elif len(parts) == 1:
            node = parts[0]
        else:
            node = _make_combined("allOf", parts, [object() for _ in parts])
        node.id = schema.get(scope.draft.id_keyword)
        node.title = schema.get("title")
        node.description = schema.get("description")
        node.default = schema.get("default", node.default)
        node.is_bytes = schema.get("connect.type") == "bytes"
        node.raw = raw
        for part in parts:
            part.raw = raw
        return node

    def _parts(self, schema: Schema, scope: ReferenceScope) -> list[Node]:
        """Return a node for each family of keywords; parsers make a separate schema of each."""
        parts = [] if _COMBINING.isdisjoint(schema) else self._combining_parts(schema, scope)
        if "type" in schema:
            parts.append(self._make_typed(schema, scope))
        implying = drafts.keywords(scope.draft)
        if implying.all.isdisjoint(schema):
            return parts
        taken = _families(schema.get("type"))
        for kind, keywords in implying.of_types:
            if kind not in taken and not keywords.isdisjoint(schema):
                parts.append(self._of_type(kind, schema, scope))
        if not implying.conditional.isdisjoint(schema):
            parts.append(self._later(self._read_conditions, Node("conditional"), schema, scope))
        return parts

    def _combining_parts(self, schema: Schema, scope: ReferenceScope) -> list[Node]:
        parts = [self._later(self._refer, Reference(), {name: schema[name]}, scope)
                 for name in _REFERENCES
                 if name in schema and (name == "$ref" or scope.draft.modern)]  # fmt: skip
        if "enum" in schema:
            parts.append(Values("enum", frozenset(map(value_key, schema["enum"]))))
        parts += [self._combination(each, schema[each], scope) for each in _CRITERIA if each in schema]
        if "not" in schema:
            parts.append(self._later(self._negate, Not(), schema, scope))
        if "const" in schema and scope.draft is not DRAFT_4:
            parts.append(Values("const", frozenset((value_key(schema["const"]),))))
        return parts

    def _later(
        self,
        fill: Callable[[Any, Schema, ReferenceScope], None],
        node: Node,
        schema: Schema,
        scope: ReferenceScope,
    ) -> Node:
        self._todo.append((fill, node, schema, scope))
        return node

    def _combination(self, criterion: str, schemas: list[Json], scope: ReferenceScope) -> Node:
        return self._later(self._combine, Combined(criterion), {criterion: schemas}, scope)

    def _make_typed(self, schema: Schema, scope: ReferenceScope) -> Node:
        named = schema["type"]
        if type(named) is not list:
            return self._of_type(named, schema, scope)
        types = list(dict.fromkeys(named))
        if len(types) == 1:
            return self._of_type(types[0], schema, scope)
        branches = [self._of_type(each, schema, scope) for each in types]
        for branch in branches:
            branch.raw = schema
        return _make_combined("anyOf", branches, types)

    def _of_type(self, named: str, schema: Schema, scope: ReferenceScope) -> Node:
        match named:
            case "string":
                return drafts.string(schema)
            case "number" | "integer":
                return drafts.number(schema, is_integer=named == "integer")
            case "object":
                return self._later(self._fill_object, Object(), schema, scope)
            case "array":
                return self._later(self._fill_array, Array(), schema, scope)
        return Node(named)

    def _refer(self, node: Reference, schema: Schema, scope: ReferenceScope) -> None:
        [reference] = schema.values()
        if type(reference) is not str:
            raise InvalidSchema("Invalid JSON Schema: #/$ref: a reference is a string")
        node.name = reference
        node.copies = scope.draft.modern and "$ref" in schema
        found, there = self._documents.find(reference, scope)
        node.target = self._node(found, there, entered=True)
        self._references.append(node)

    def _combine(self, node: Combined, schema: Schema, scope: ReferenceScope) -> None:
        schemas = schema[node.criterion]
        branches = [self._node(each, scope) for each in schemas]
        _put(node, branches, [self._sameness.key(each) for each in schemas])

    def _read_conditions(self, node: Node, schema: Schema, scope: ReferenceScope) -> None:
        for name in ("if", "then", "else"):
            self._maybe(schema, name, scope)

    def _negate(self, node: Not, schema: Schema, scope: ReferenceScope) -> None:
        node.inner = self._node(schema["not"], scope)

    def _fill_object(self, node: Object, schema: Schema, scope: ReferenceScope) -> None:
        drafts.limit_object(node, schema)
        node.properties = self._load_named(schema.get("properties", {}), scope)
        node.patterns = self._load_named(schema.get("patternProperties", {}), scope)
        additional = schema.get("additionalProperties", True)
        if type(additional) is bool:
            node.permits_additional = additional
        else:
            node.additional = self._node(additional, scope)
        if "propertyNames" in schema and scope.draft is not DRAFT_4:
            self._node(schema["propertyNames"], scope)
        if scope.draft.modern:
            node.dependent_names = _name_sets(schema.get("dependentRequired", {}))
            node.dependent_schemas = self._load_named(schema.get("dependentSchemas", {}), scope)
            node.unevaluated = self._maybe(schema, "unevaluatedProperties", scope)
        else:
            dependencies = schema.get("dependencies", {})
            node.dependent_names = _name_sets(dependencies)
            schemas = {name: each for name, each in dependencies.items() if type(each) is not list}
            node.dependent_schemas = self._load_named(schemas, scope)

    def _fill_array(self, node: Array, schema: Schema, scope: ReferenceScope) -> None:
        drafts.limit_array(node, schema, scope.draft)
        if scope.draft is not DRAFT_4:
            self._maybe(schema, "contains", scope)
        if scope.draft.modern:
            node.unevaluated = self._maybe(schema, "unevaluatedItems", scope)
        first, rest, every = drafts.items(schema, scope.draft)
        node.items = [self._node(each, scope) for each in first]
        if every is not None:
            node.all_items = self._node(every, scope)
        if type(rest) is bool:
            node.permits_additional = rest
        else:
            node.additional = self._node(rest, scope)

    def _load_named(self, schemas: dict[str, Json], scope: ReferenceScope) -> dict[str, Node]:
        return {name: self._node(each, scope) for name, each in schemas.items()}

    def _maybe(self, schema: Schema, name: str, scope: ReferenceScope) -> Node | None:
        return self._node(schema[name], scope) if name in schema else None

    def _follow_references(self) -> None:
        """Make every reference point to a node that is not a reference."""
        for each in self._references:
            passed, target = [each], each.target
            while type(target) is Reference:
                if target in passed[:1] or len(passed) > len(self._references):
                    raise InvalidSchema("Invalid JSON Schema: a $ref leads back to itself")
                passed.append(target)
                target = target.target
            for reference in passed:
                reference.target = target


def _families(named: Json) -> set[Json]:
    """Return the families of keywords that a ``type`` makes a part of."""
    types = named if type(named) is list else [named]
    return {"number" if each == "integer" else each for each in types}


def _make_combined(criterion: str, branches: list[Node], keys: list[Any]) -> Combined:
    node = Combined(criterion)
    _put(node, branches, keys)
    return node


def _put(node: Combined, branches: list[Node], keys: list[Any]) -> None:
    order = sorted(range(len(branches)), key=lambda index: branches[index].kind != "combined")
    node.branches = [branches[index] for index in order]
    node.keys = [keys[index] for index in order]


def _name_sets(dependencies: dict[str, Json]) -> dict[str, frozenset[str]]:
    return {name: frozenset(each) for name, each in dependencies.items() if type(each) is list}
