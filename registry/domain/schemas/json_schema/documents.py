"""URIs in a JSON schema: those it is known by, those it refers to, and their resolution. Nothing is fetched.

A reference in the registry is named by the URI of a schema, relative to the ``$id`` of the registered schema
(Confluent 8.x). The meta-schemas are known. ``#/$defs/X`` also finds schemas under ``definitions``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin

import orjson
from jsonschema_specifications import REGISTRY
from referencing import Registry, Resource, Specification
from referencing.exceptions import Unresolvable

from registry.domain.schemas.contract import Dependency, InvalidSchema, Links, Use
from registry.domain.schemas.json_text import Json

from .drafts import META_SCHEMAS, Draft, draft_named
from .text import read

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


# The type in ``referencing``.
Resolver = Any


class ReferenceScope(NamedTuple):
    """The context in which a schema's references are resolved, and the draft by which it is read.

    That is the draft of the registered schema, even in schemas that it refers to (Confluent 8.x).
    """

    resolver: Resolver
    draft: Draft


class Documents:
    """A schema with everything that it may refer to."""

    def __init__(
        self, schema: Json, draft: Draft, dependencies: Sequence[Dependency], *, refers: bool
    ) -> None:
        """``refers``: the schema may contain references, so ids matter.

        Raises :class:`InvalidSchema` for a dependency that is not JSON and for an invalid URI.
        """
        self._draft = draft
        self._refers = refers
        self._roots: set[int] = set()
        self._uris: dict[str, str] = {}
        registry: Registry[Any] = REGISTRY
        named = schema.get(draft.id_keyword) if type(schema) is dict else None
        base = named.removesuffix("#") if type(named) is str else ""
        try:
            registry = registry.with_resource("", self._resource(schema))
            if base:
                registry = registry.with_resource(base, self._resource(schema))
            for each in dependencies:
                uri = urljoin(base, each.name).partition("#")[0]
                if uri not in (base, ""):
                    self._uris[each.name.removeprefix("./")] = uri
                    registry = registry.with_resource(uri, self._resource(read(each.text)))
        except ValueError as error:
            raise InvalidSchema(f"Invalid JSON Schema: {error}") from None
        self._base = base
        registry = _crawl(registry) if refers else registry
        self._bare: Resolver = registry.resolver()
        # The scope of the schema itself.
        self.top = ReferenceScope(registry.resolver(base), draft)

    def _resource(self, contents: Json) -> Resource[Any]:
        self._roots.add(id(contents))
        return _in_text_order(self._draft.specification).create_resource(contents)

    def inside(self, schema: dict[str, Json], scope: ReferenceScope) -> ReferenceScope:
        """Return the scope of the contents of ``schema``, which its own id changes."""
        if not self._refers or scope.draft.id_keyword not in schema:
            return scope
        try:
            resource = scope.draft.specification.create_resource(schema)
            return ReferenceScope(scope.resolver.in_subresource(resource), scope.draft)
        except Exception:
            named = schema[scope.draft.id_keyword]
            raise InvalidSchema(f"Invalid JSON Schema: '{named}' is not a URI") from None

    def find(self, reference: str, there: ReferenceScope) -> tuple[Json, ReferenceScope]:
        """Return the schema that a ``$ref`` names, and its scope. Raises :class:`InvalidSchema`."""
        for resolver, wanted in self._candidates(reference, there.resolver):
            try:
                found = resolver.lookup(wanted)
            except Unresolvable:
                continue
            except Exception:  # errors of the library for invalid ids and schemas
                break
            contents, scope = found.contents, ReferenceScope(found.resolver, there.draft)
            if not wanted.startswith("#"):
                root = found.resolver.lookup("#").contents
                scope = ReferenceScope(found.resolver, META_SCHEMAS.get(id(root), there.draft))
                if id(contents) in self._roots and type(contents) is dict:
                    scope = self.inside(contents, scope)
            return contents, scope
        if _is_remote(self._base, reference):
            raise InvalidSchema(
                f"Remote schema reference fetching over HTTP(S) is disabled; cannot resolve '{reference}'"
            )
        raise InvalidSchema(f"Invalid JSON Schema: cannot resolve '{reference}'")

    def _candidates(self, reference: str, resolver: Resolver) -> list[tuple[Resolver, str]]:
        """Return the possible targets: as written, and the dependency or meta-schema of that name."""
        uri, mark, fragment = reference.partition("#")
        known = self._uris.get(uri.removeprefix("./")) if uri else None
        found = [(resolver, uri)] if known is None else [(resolver, uri), (self._bare, known)]
        draft = draft_named(uri)
        if draft is not None:
            found.append((self._bare, draft.meta))
        wanted = [(each, f"{start}{mark}{fragment}") for each, start in found]
        if fragment.startswith("/$defs/"):
            other = fragment.removeprefix("/$defs/")
            wanted += [(each, f"{start}#/definitions/{other}") for each, start in found]
        return wanted


@cache
def _in_text_order(specification: Specification[Any]) -> Specification[Any]:
    """Return the specification with subschemas in the order of the text.

    The library's own order differs between processes, and decides which schema has an id or anchor that is
    defined more than once.
    """

    def subschemas(contents: Json) -> Iterable[Json]:
        found = specification.subresources_of(contents)
        if type(contents) is not dict:
            return found
        places = {
            id(each): place
            for place, value in enumerate(contents.values())
            for each in (value, *_members(value))
        }
        return sorted(found, key=lambda each: places[id(each)])

    make: Any = Specification  # whose types lack its arguments
    ordered: Specification[Any] = make(
        name=specification.name,
        id_of=specification.id_of,
        subresources_of=subschemas,
        anchors_in=lambda _, contents: specification.anchors_in(contents),
        maybe_in_subresource=specification.maybe_in_subresource,
    )
    return ordered


def _members(value: Json) -> Iterable[Json]:
    if type(value) is dict:
        return value.values()
    return value if type(value) is list else ()


def _is_remote(base: str, reference: str) -> bool:
    try:
        return urljoin(base, reference).startswith(("http://", "https://"))
    except ValueError:
        return False


def _crawl(registry: Registry[Any]) -> Registry[Any]:
    """Return the registry with all ids and anchors indexed once instead of at every reference."""
    try:
        return registry.crawl()
    except Exception:  # schemas that nothing refers to may be invalid
        return registry
