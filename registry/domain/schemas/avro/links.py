"""Full names that an Avro text defines, and those that it takes from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from registry.domain.schemas.contract import InvalidSchema, Links, Use

from .model import PRIMITIVES
from .parser import RECORDS

_NAMED: Final = frozenset({*RECORDS, "enum", "fixed"})
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
