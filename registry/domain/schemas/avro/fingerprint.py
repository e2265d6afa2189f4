"""Digests of Avro schemas that are equal for schemas which :func:`.equality.equivalent` finds equal."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from registry.domain.schemas.contract import Fingerprints, digest
from registry.domain.schemas.trampoline import Walk, run

from .equality import value_text
from .model import MISSING, Array, Enum, Field, Fixed, Json, Map, Node, Primitive, Record, Union


def fingerprints(node: Node, known: AbstractSet[str]) -> Fingerprints:
    """Return both digests; ``known``: the full names that the dependencies define."""
    return Fingerprints(
        _Content(known, inside=True).digest(node), _Content(frozenset(), inside=False).digest(node)
    )


class _Content:
    """The content of a schema as a list of texts: types in the order of a walk, each named one once.

    Two equivalent schemas are walked in step, so types recur at the same points. ``inside``: with the
    definitions of named types inside the first one.
    """

    def __init__(self, known: AbstractSet[str], *, inside: bool) -> None:
        self._out: list[str] = []
        self._seen = set(known)
        self._inside = inside
        self._top = True

    def digest(self, node: Node) -> bytes:
        """Return the digest of the content of ``node``."""
        run(self._node(node))
        return digest(self._out)

    def _node(self, node: Node) -> Walk[None]:
        out = self._out
        out.append(node.kind)
        top, self._top = self._top, False
        if type(node) is Union:
            out.append(str(len(node.branches)))
            for branch in node.branches:
                yield self._node(branch)
        elif type(node) is Record or type(node) is Enum or type(node) is Fixed:
            out.append(node.name.full)
            if node.name.full not in self._seen and (self._inside or top):
                self._seen.add(node.name.full)
                yield self._walk_named(node)
        elif isinstance(node, Primitive | Array | Map):
            self._props(node.props)
            if type(node) is Array:
                yield self._node(node.items)
            elif type(node) is Map:
                yield self._node(node.values)

    def _walk_named(self, node: Record | Enum | Fixed) -> Walk[None]:
        self._texts(node.doc, sorted({alias.full for alias in node.aliases}))
        self._props(node.props)
        if type(node) is Enum:
            self._texts(node.default, node.symbols)
        elif type(node) is Fixed:
            self._out.append(str(node.size))
        else:
            assert type(node) is Record
            self._out.append(str(len(node.fields)))
            for field in node.fields:
                self._field(field)
                yield self._node(field.type)

    def _field(self, field: Field) -> None:
        self._out += (field.name, field.order)
        self._texts(field.doc, sorted(set(field.aliases)))
        self._out.append("" if field.default is MISSING else _value(field.default))
        self._props(field.props)

    def _texts(self, one: str | None, many: list[str]) -> None:
        self._out += ("-" if one is None else f"+{one}", str(len(many)), *many)

    def _props(self, props: dict[str, Json] | None) -> None:
        self._out.append(str(len(props or ())))
        for key in sorted(props or ()):
            assert props is not None
            self._out += (key, _value(props[key]))


def _value(value: Json) -> str:
    return f"{type(value).__name__} {value_text(value)}"
