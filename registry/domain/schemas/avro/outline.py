"""The outline of an Avro schema and the names it defines and uses, taken from its text without parsing.

Outlines are equal for equivalent schemas (:func:`.equality.equivalent`) and different for most others. They
contain only what certainly matters, found where the parser looks for it, because much in a text may not
matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from registry.domain.schemas.contract import GLANCE_MAX, Fingerprints, InvalidSchema, Links, Use, digest

from .model import PRIMITIVES, Json
from .parser import ENUM_RESERVED, FIELD_RESERVED, RECORDS, RESERVED

_NAMED: Final = frozenset({*RECORDS, "enum", "fixed"})
_NULL: Final = (None,)
# A type inside a namespace.
_Place = tuple[Any, str]


def links(text: str) -> Links:
    """Return the links of a text. Raises :class:`InvalidSchema` if it is not JSON."""
    try:
        root = orjson.loads(text)
    except ValueError:
        raise InvalidSchema("not JSON") from None
    defined: dict[str, None] = {}
    used: dict[str, Use] = {}
    todo: list[_Place] = [(root, "")]
    while todo:
        value, space = todo.pop()
        if type(value) is str and value not in PRIMITIVES:
            # A name without a namespace may also be one of no namespace.
            full = _full(value, space)
            used[full] = Use(full, tuple(dict.fromkeys((full, value))))
        elif type(value) is list:
            todo += [(each, space) for each in reversed(value)]
        elif type(value) is dict:
            if _kind(value) in _NAMED and type(value.get("name")) is str:
                name = _full(value["name"], _text(value.get("namespace"), space))
                defined[name] = None
                space = name.rpartition(".")[0]
            todo += reversed([*_inside(value, space)])
    own = next(iter(defined), "") if type(root) is dict else ""
    uses = tuple(each for each in used.values() if defined.keys().isdisjoint(each.targets))
    return Links(own, tuple(name for name in defined if name != own), uses)


def _inside(value: dict[str, Any], space: str) -> Iterator[_Place]:
    kind = _kind(value)
    if kind in RECORDS:
        fields = value.get("fields")
        for field in fields if type(fields) is list else ():
            if type(field) is dict:
                yield field.get("type"), space
    elif kind == "array":
        yield value.get("items"), space
    elif kind == "map":
        yield value.get("values"), space
    elif kind not in _NAMED:
        yield value.get("type"), space


def _kind(value: dict[str, Any]) -> str:
    """Return the name of a type; empty if it is a type itself."""
    return _text(value.get("type"), "")


def _full(name: str, space: str) -> str:
    return name.removeprefix(".") if "." in name or not space else f"{space}.{name}"


def _text(value: object, otherwise: str) -> str:
    return value if type(value) is str else otherwise


def outline(text: str) -> Fingerprints | None:
    """Return digests comparable with a schema's fingerprints, or None if that takes the parser."""
    if len(text) > GLANCE_MAX:
        return None
    glance = _Glance()
    try:
        shape = glance.shape(orjson.loads(text))
        if len(glance.docs) < glance.count:
            return None  # which of two definitions counts does not depend on their texts alone
        top = glance.plain.get(shape, "") if type(shape) is str else ""
        own = (each for name in sorted(glance.docs) for each in (name, glance.plain[name], glance.docs[name]))
        return Fingerprints(digest([repr(shape), *own]), digest([repr(shape), top]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


class _Glance:
    """The types that a text defines.

    References to named types are their names without namespace, because a namespace can be given in many
    ways.
    """

    def __init__(self) -> None:
        self.count = 0
        self.plain: dict[str, str] = {}  # by name, the common part of all definitions of a type
        self.docs: dict[str, str] = {}

    def shape(self, value: Json) -> Any:
        """Return the shape of a type where it is used. Raises errors for an invalid schema."""
        if type(value) is str:
            return _simple(value)
        if type(value) is list:
            # Most types in a union are names.
            return [_simple(each) if type(each) is str else self.shape(each) for each in value]
        kind: str = value["type"]
        if kind in RECORDS:
            fields = value["fields"]
            plain = [self._field(each) for each in fields]
            return self._define(value, plain, [_doc(each) for each in fields], RESERVED)
        if kind == "enum":
            symbols = value["symbols"]
            return self._define(value, symbols, [_doc({"doc": value.get("default")})], ENUM_RESERVED)
        if kind == "fixed":
            return self._define(value, [], [], RESERVED)
        if kind in ("array", "map"):
            inner = self.shape(value["items" if kind == "array" else "values"])
            return (kind, inner, _props(value, RESERVED))
        props = _props(value, RESERVED) if kind in PRIMITIVES else None
        return (kind, props) if props else _simple(kind)

    def _field(self, field: dict[str, Json]) -> tuple[Any, ...]:
        shape = self.shape(field["type"])
        default = _default(field["default"], shape) if "default" in field else ()
        return field["name"], shape, default, _props(field, FIELD_RESERVED)

    def _define(
        self, value: dict[str, Json], plain: list[Any], docs: list[str | None], reserved: frozenset[str]
    ) -> str:
        name = _simple(value["name"])
        self.count += 1
        self.plain[name] = repr((plain, _props(value, reserved)))
        self.docs[name] = repr((_doc(value), docs))
        return name


def _simple(name: str) -> str:
    return name.rpartition(".")[2]


def _doc(value: dict[str, Json]) -> str | None:
    doc = value.get("doc")
    return doc if type(doc) is str else None


def _default(value: Json, shape: Any) -> tuple[Json, ...]:
    """Return the default of a field of this type, if it has only one spelling."""
    if value is None:
        return _NULL
    # The parser converts texts to numbers for these.
    if type(value) is str and (shape[0] if type(shape) is tuple else shape) in ("float", "double"):
        return (None,)
    return (value if type(value) is bool else _plain_value(value),)


def _props(value: dict[str, Json], reserved: frozenset[str]) -> list[tuple[str, Json]] | None:
    """Return the properties with those values that have only one spelling."""
    if value.keys() <= reserved:
        return None
    names = [name for name in value if name not in reserved]
    return [(name, _plain_value(value[name])) for name in sorted(names)]


def _plain_value(value: Json) -> Json:
    return value if type(value) is str or (type(value) is int and value > 0) else None
