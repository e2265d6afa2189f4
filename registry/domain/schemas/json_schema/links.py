"""URIs by which a JSON schema is known, and those that it refers to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urljoin

import orjson

from registry.domain.schemas.contract import InvalidSchema, Links, Use

# Members that hold schemas by names of the author, and members that hold values.
_BY_NAME: Final = frozenset({
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies",
})  # fmt: skip
_VALUES: Final = frozenset({"enum", "const", "default", "examples"})


def links(text: str) -> Links:
    """Return the links of a text. Raises :class:`InvalidSchema` if it is not JSON."""
    try:
        root = orjson.loads(text)
    except ValueError:
        raise InvalidSchema("not JSON") from None
    defined: dict[str, None] = {}
    uses: dict[str, Use] = {}
    todo: list[tuple[Any, str]] = [(root, "")]
    while todo:
        schema, base = todo.pop()
        if type(schema) is list:
            todo += [(each, base) for each in reversed(schema)]
        if type(schema) is not dict:
            continue
        if named := _id_of(schema):
            base = _join(base, named)
            defined[base] = None
        reference = schema.get("$ref")
        name = reference.partition("#")[0] if type(reference) is str else ""
        if name:
            uses.setdefault(name, Use(name, (_join(base, name),)))
        todo += [(each, base) for each in reversed([*_inside(schema)])]
    own = _id_of(root) if type(root) is dict else ""
    found = tuple(each for each in uses.values() if each.targets[0] not in defined)
    return Links(own, tuple(name for name in defined if name != own), found, by="uri")


def _id_of(schema: dict[str, Any]) -> str:
    """Return the id of a schema without its fragment; drafts before 06 call it ``id``."""
    found = schema.get("$id", schema.get("id"))
    return found.partition("#")[0] if type(found) is str else ""


def _join(base: str, uri: str) -> str:
    try:
        return urljoin(base, uri)
    except ValueError:
        return uri


def _inside(schema: dict[str, Any]) -> Iterator[Any]:
    for name, value in schema.items():
        if name in _BY_NAME and type(value) is dict:
            yield from value.values()
        elif name not in _VALUES:
            yield value
